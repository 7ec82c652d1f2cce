//! lasthop as a local web page: pick a scenario and schemes, move a slider, and see throughput, windows and every packet.
//!
//! | module | holds |
//! |---|---|
//! | `catalogue` | the scenarios to choose from |
//! | [`plan`] | a state of the page, from the parameters of a link: the scenario that they make |
//! | [`controls`] | what there is to turn in a scenario |
//! | [`loss`] | loss rate and burst length as an error model |
//! | [`answers`] | what the page asks for, computed by `lasthop-study`; no sockets |
//! | [`cure`] | the same for the page of five steps, from a measurement to a cure and its proof |
//! | `server`, `connections`, `guard` | the same over HTTP, and who is answered |
//! | `addresses` | where browsers find it |
//! | `assets` | the page itself, in the binary |
//!
//! What a link says is all that an answer depends on: the same link, the same numbers.
#![forbid(unsafe_code)]

mod addresses;
pub mod answers;
mod assets;
mod catalogue;
mod connections;
pub mod controls;
pub mod cure;
mod guard;
pub mod loss;
pub mod plan;
mod refusal;
mod server;
mod stops;

pub use addresses::openable;
pub use catalogue::Catalogue;
pub use guard::HostNames;
pub use refusal::Refusal;
pub use server::{listen, router, serve};
