//! Windowed maximum by Kathleen Nichols's algorithm: the best, second and third best of a window, so that the recent
//! maximum is known without storing every sample.

/// A sample: its time, in the filter's own units, and its value.
#[derive(Clone, Copy, Default, Debug)]
struct Sample {
    at: u32,
    value: u64,
}

/// Time in the filter, and the length of its window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub round: u32,
    /// Length of the window, in rounds.
    pub window: u32,
}

/// Recent maximum.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct MaxFilter {
    best: [Sample; 3],
}

impl MaxFilter {
    pub fn max(&self) -> u64 {
        self.best[0].value
    }

    /// Processes `value`.
    pub fn update(&mut self, Moment { round: at, window }: Moment, value: u64) {
        let new = Sample { at, value };
        let age = |sample: Sample| at.wrapping_sub(sample.at);
        let [first, second, third] = &mut self.best;
        if value >= first.value || age(*third) > window {
            self.best = [new; 3];
            return;
        }
        if value >= second.value {
            (*second, *third) = (new, new);
        } else if value >= third.value {
            *third = new;
        }
        if age(*first) > window {
            // The best has expired; the second may have too.
            (*first, *second, *third) = (*second, *third, new);
            if age(*first) > window {
                (*first, *second) = (*second, *third);
            }
        } else if second.at == first.at && age(*first) > window / 4 {
            // A quarter of the window without a second best: restart it here.
            (*second, *third) = (new, new);
        } else if third.at == second.at && age(*first) > window / 2 {
            *third = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MaxFilter, Moment};

    #[test]
    fn the_maximum_of_a_window_is_followed() {
        let mut filter = MaxFilter::default();
        for round in 0..10 {
            filter.update(Moment { round, window: 10 }, 100);
        }
        assert_eq!(filter.max(), 100);
        filter.update(Moment { round: 10, window: 10 }, 150);
        assert_eq!(filter.max(), 150);
        // The rate falls at once; the filter keeps the old one for ten rounds and drops it in the eleventh.
        for round in 11..=20 {
            filter.update(Moment { round, window: 10 }, 80);
            assert_eq!(filter.max(), 150, "{round}");
        }
        filter.update(Moment { round: 21, window: 10 }, 80);
        assert_eq!(filter.max(), 80);
    }

    #[test]
    fn second_bests_follow() {
        let mut filter = MaxFilter::default();
        filter.update(Moment { round: 0, window: 10 }, 200);
        filter.update(Moment { round: 5, window: 10 }, 150);
        filter.update(Moment { round: 9, window: 10 }, 120);
        filter.update(Moment { round: 11, window: 10 }, 10);
        assert_eq!(filter.max(), 150);
        filter.update(Moment { round: 16, window: 10 }, 10);
        assert_eq!(filter.max(), 120);
        // After a long silence all samples have expired.
        filter.update(Moment { round: 60, window: 10 }, 5);
        assert_eq!(filter.max(), 5);
    }
}
