//! Modern congestion controls in isolation, fed with acknowledgments whose effects are derived from their
//! specifications.

mod avoidance;
mod bbr;
mod bbr3;
mod bounds;
mod driver;
mod hystart;
mod outside;
mod path;
mod response;
