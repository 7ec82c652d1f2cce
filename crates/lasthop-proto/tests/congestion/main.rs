//! Congestion controls of today, each alone: fed with acknowledgments whose effects are derived from its specification.

mod avoidance;
mod driver;
mod hystart;
mod response;
