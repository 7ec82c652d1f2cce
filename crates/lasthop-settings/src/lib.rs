//! Settings in TOML with units, parsed into checked types: the parts that scenarios and the configurations of gateway
//! and tunnel share, and the settings of the tunnel, of snoop and of split connections.
//!
//! The text becomes a tree of values with their places ([`document`]). A [`reader`] accesses it by key, and enters each
//! value and each default into a ledger. An invalid file results in an [`Error`], one line with the file, the line, the
//! key, the given value, and the correct form.
#![forbid(unsafe_code)]

// The macro `keys!` refers to this crate by its name.
extern crate self as lasthop_settings;

#[macro_use]
mod keys;

pub mod daemon;
pub mod document;
mod error;
mod files;
mod interface_name;
pub mod key;
pub mod one_line;
pub mod reader;
pub mod reading;
pub mod sides;
pub mod snoop;
pub mod tunnel;
pub mod units;
pub mod values;

pub use error::{Error, Place, Problem, Spot, did_you_mean};
pub use files::read_limited;
pub use interface_name::check_interface_name;
pub use one_line::one_line;
pub use sides::{PATIENCE, SideSettings, SplitSettings};
