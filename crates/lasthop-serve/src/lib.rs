//! lasthop as a local web page: choose a scenario and schemes, move a slider, and see throughput, windows and every
//! packet.
//!
//! | module | contents |
//! |---|---|
//! | `catalogue` | the scenarios to choose from |
//! | [`plan`] | a state of the page, from the parameters of a link, and its scenario |
//! | [`controls`] | the controls for a scenario |
//! | [`loss`] | loss rate and burst length as an error model |
//! | [`answers`] | the page's answers, computed by `lasthop-study`; no sockets |
//! | [`cure`] | answers of the page of five steps, from a measurement to a cure and its proof |
//! | `server` | the answers over HTTP |
//! | `site`, `connections`, `guard` | server of embedded files and answers, and access control |
//! | [`status`] | the page of running daemons (`lasthop status --serve`), a site of its own |
//! | `addresses` | the addresses for browsers |
//! | `assets` | the page itself, in the binary |
//!
//! An answer depends on nothing but the link: the same link gives the same numbers.
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
mod site;
pub mod status;
mod stops;

pub use addresses::openable;
pub use catalogue::Catalogue;
pub use guard::HostNames;
pub use refusal::Refusal;
pub use server::{router, serve};
pub use site::listen;
