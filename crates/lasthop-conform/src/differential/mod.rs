//! Differential mode: random cases through a reference and through a stack, with every segment compared.
//!
//! A [`Case`] is a seeded list of stimuli with times: segments and socket calls. [`generate`] draws it by running
//! lasthop, so that acknowledgments cover data that a stack has sent. [`Player`] leads a case through a stack in virtual
//! time, `kernel::live` through the kernel in real time. [`compare`] finds the first difference, [`shrunk`] lists
//! shorter cases, and [`write()`] writes a case as a script with the reference's segments as expectation.

mod case;
mod compare;
mod generate;
mod player;
mod script;
mod shrink;

pub use self::case::{Case, Kind, Observed, Opens, Step, Stimulus};
pub use self::compare::{Mismatch, compare};
pub use self::generate::generate;
pub use self::player::{Numbers, Player, observe};
pub use self::script::write;
pub use self::shrink::shrunk;
