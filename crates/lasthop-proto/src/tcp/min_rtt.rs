//! Minimum round trip within a window of time, from three samples (Kathleen Nichols' filter; Linux `minmax.c`).

use crate::time::{Duration, Instant};

/// Length of the window (Linux `tcp_min_rtt_wlen`).
const WINDOW: Duration = Duration::from_secs(300);

/// The best sample, the best one after it, and the best one after that.
#[derive(Clone, Copy, Debug)]
pub struct MinRtt([(Instant, Duration); 3]);

impl Default for MinRtt {
    fn default() -> Self {
        Self([(Instant::ZERO, Duration::MAX); 3])
    }
}

impl MinRtt {
    /// Returns the minimum round trip; `None` before the first sample.
    pub fn get(&self) -> Option<Duration> {
        (self.0[0].1 < Duration::MAX).then_some(self.0[0].1)
    }

    /// Processes a sample.
    pub fn update(&mut self, now: Instant, rtt: Duration) {
        let sample = (now, rtt);
        let best = &mut self.0;
        if rtt <= best[0].1 || now.since(best[2].0) > WINDOW {
            *best = [sample; 3];
            return;
        }
        if rtt <= best[1].1 {
            (best[1], best[2]) = (sample, sample);
        } else if rtt <= best[2].1 {
            best[2] = sample;
        }
        let age = now.since(best[0].0);
        if age > WINDOW {
            *best = [best[1], best[2], sample];
            if now.since(best[0].0) > WINDOW {
                *best = [best[1], best[2], sample];
            }
        } else if best[1].0 == best[0].0 && age > WINDOW / 4 {
            (best[1], best[2]) = (sample, sample);
        } else if best[2].0 == best[1].0 && age > WINDOW / 2 {
            best[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minimum_is_forgotten_after_its_window() {
        let mut min = MinRtt::default();
        let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
        let ms = Duration::from_millis;
        assert_eq!(min.get(), None);
        min.update(at(1), ms(30));
        min.update(at(2), ms(10));
        (3..200).for_each(|secs| min.update(at(secs), ms(40)));
        assert_eq!(min.get(), Some(ms(10)));
        (200..310).for_each(|secs| min.update(at(secs), ms(50)));
        assert_eq!(min.get(), Some(ms(40)));
        (310..700).for_each(|secs| min.update(at(secs), ms(50)));
        assert_eq!(min.get(), Some(ms(50)));
    }
}
