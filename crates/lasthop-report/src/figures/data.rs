//! Serialization of points as JSON.

use serde::{Serialize, Serializer};

/// Serializes points with six decimals (microseconds, bytes), which takes a third of the text.
pub fn rounded<S: Serializer>(points: &[(f64, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    let round = |value: f64| (value * 1e6).round() / 1e6;
    points.iter().map(|&(x, y)| (round(x), round(y))).collect::<Vec<_>>().serialize(serializer)
}
