//! Page of running daemons: their state, and a history of throughput, round trip and loss. It is read-only: the server
//! asks the daemons for their status, and the page can ask the server for nothing else.
//!
//! | module | contents |
//! |---|---|
//! | `reading` | one answer of a daemon, and the measurements that are kept from it |
//! | `history` | the measurements of the last ten minutes, in bounded memory |
//! | `board` | latest reading and history of each daemon, updated by one thread for each |
//! | `page` | the page and its answers over HTTP |

mod board;
mod history;
mod page;
mod reading;

pub use board::{Board, Source};
pub use page::{router, serve};
pub use reading::{Chart, Line, Measure, Reading};
