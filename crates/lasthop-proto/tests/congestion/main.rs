//! Congestion controls of today, each alone: fed with acknowledgments whose effects are derived from its specification.

mod avoidance;
mod bbr;
mod bbr3;
mod bounds;
mod driver;
mod hystart;
mod path;
mod response;
