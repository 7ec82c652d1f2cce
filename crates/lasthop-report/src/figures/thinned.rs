//! Points of a plot that may be more than it can show.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::HashSet;

/// Number of points up to which all are kept.
const ALL: usize = 1 << 16;

/// Number of cells of the grid in each direction: several per pixel.
const CELLS: f64 = 2048.0;

/// Points that are thinned out to the distinguishable ones once there are many, so that memory is bounded for runs of
/// any length.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Thinned {
    points: Vec<(f64, f64)>,
    /// Number of points above which they are thinned out.
    most: usize,
    cells: f64,
    /// Cell of the last point, once points have been thinned out.
    last: Option<(u32, u32)>,
    extent: (f64, f64),
}

impl Default for Thinned {
    fn default() -> Self {
        Self { points: Vec::new(), most: ALL, cells: CELLS, last: None, extent: (0.0, 0.0) }
    }
}

impl Thinned {
    pub fn push(&mut self, point: (f64, f64)) {
        if self.last.is_some() {
            let cell = self.cell(point);
            if self.last == Some(cell) && point.0 <= self.extent.0 && point.1 <= self.extent.1 {
                return;
            }
            self.last = Some(cell);
        }
        self.points.push(point);
        if self.points.len() >= self.most {
            self.thin();
        }
    }

    fn cell(&self, (x, y): (f64, f64)) -> (u32, u32) {
        let part = |value: f64, extent: f64| if extent > 0.0 { (value / extent * self.cells) as u32 } else { 0 };
        (part(x, self.extent.0), part(y, self.extent.1))
    }

    /// Keeps the first point in each cell of a grid over all points so far.
    fn thin(&mut self) {
        let most = |of: fn(&(f64, f64)) -> f64| self.points.iter().map(of).fold(0.0, f64::max);
        self.extent = (most(|point| point.0), most(|point| point.1));
        loop {
            let mut taken = HashSet::new();
            let points = std::mem::take(&mut self.points);
            self.points = points.into_iter().filter(|point| taken.insert(self.cell(*point))).collect();
            // Points fill the plane: use a coarser grid to free enough memory.
            if self.points.len() <= self.most / 2 {
                break;
            }
            self.cells /= 2.0;
        }
        self.last = self.points.last().map(|point| self.cell(*point));
    }

    pub fn last(&self) -> Option<&(f64, f64)> {
        self.points.last()
    }

    pub fn into_points(self) -> Vec<(f64, f64)> {
        self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_stay_as_they_are() {
        let points: Vec<_> = (0..1000).map(|n| (f64::from(n), f64::from(n * 7 % 50))).collect();
        let mut thinned = Thinned::default();
        points.iter().for_each(|point| thinned.push(*point));
        assert_eq!(thinned.into_points(), points);
    }

    #[test]
    fn many_points_are_bounded_and_look_the_same() {
        // A line with a gap, and noise all over the plane.
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8)
        };
        let line = |n: u32| (f64::from(n), f64::from(if n < 2_000_000 { n } else { n + 500_000 }));
        let (mut thinned, mut scattered) = (Thinned::default(), Thinned::default());
        for n in 0..3_000_000 {
            thinned.push(line(n));
            scattered.push((noise(), noise()));
            assert!(thinned.points.len() <= ALL && scattered.points.len() <= ALL);
        }
        // On an image of 1000 by 1000 there is a point wherever there was one, in order of time.
        let pixel = |(x, y): &(f64, f64)| ((x / 3000.0) as u32, (y / 3500.0) as u32);
        let points = thinned.into_points();
        assert!(points.is_sorted_by_key(|point| point.0));
        let seen: HashSet<_> = points.iter().map(pixel).collect();
        let all: HashSet<_> = (0..3_000_000).map(|n| pixel(&line(n))).collect();
        // A cell's first point may lie in a neighbouring pixel, no further.
        for (x, y) in all {
            let near = |x: u32| (y.saturating_sub(1)..=y + 1).any(|y| seen.contains(&(x, y)));
            assert!((x.saturating_sub(1)..=x + 1).any(near), "nothing at {x}, {y}");
        }
        // Noise remains everywhere as well.
        let quarter = |(x, y): &(f64, f64)| ((x / f64::from(1 << 22)) as u32, (y / f64::from(1 << 22)) as u32);
        assert_eq!(scattered.into_points().iter().map(quarter).collect::<HashSet<_>>().len(), 16);
    }
}
