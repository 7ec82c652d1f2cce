//! Answers to the requests of the pages of simulations: scenarios with sliders, and the five steps from a measurement
//! to a cure. There are no sockets here: `lasthop-serve` answers over HTTP, and `lasthop-page` within a browser.
//!
//! | module | contents |
//! |---|---|
//! | [`request`] | the requests by path, and the parts of their answers |
//! | `catalogue` | the scenarios to choose from |
//! | [`plan`] | a state of the page, from the parameters of a link, and its scenario |
//! | [`controls`] | the controls for a scenario |
//! | [`loss`] | loss rate and burst length as an error model |
//! | [`answers`] | the page's answers, computed by `lasthop-study` |
//! | [`atlas`] | map of the cures over all links |
//! | [`cure`] | answers of the page of five steps, from a measurement to a cure and its proof |
//!
//! An answer depends on nothing but the request: the same link gives the same numbers.
#![forbid(unsafe_code)]

pub mod answers;
pub mod atlas;
mod catalogue;
pub mod controls;
pub mod cure;
pub mod loss;
pub mod plan;
mod refusal;
pub mod request;
mod stops;
mod words;

pub use catalogue::Catalogue;
pub use refusal::Refusal;
pub use request::{Answer, Part, Request};
