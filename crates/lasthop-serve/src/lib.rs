//! lasthop as a local web page: choose a scenario and schemes, move a slider, and see throughput, windows and every
//! packet. `lasthop-answers` computes the answers.
//!
//! | module | contents |
//! |---|---|
//! | `server` | the answers over HTTP |
//! | `site`, `connections`, `guard` | server of embedded files and answers, and access control |
//! | [`status`] | the page of running daemons (`lasthop status --serve`), a site of its own |
//! | `addresses` | the addresses for browsers |
//! | `assets` | the page itself, in the binary |
#![forbid(unsafe_code)]

mod addresses;
mod assets;
mod connections;
mod guard;
mod server;
mod site;
pub mod status;

pub use addresses::openable;
pub use guard::HostNames;
pub use lasthop_answers::Catalogue;
pub use server::{router, serve};
pub use site::listen;
