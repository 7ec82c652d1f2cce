//! TCP/IP packets as bytes: read into the mechanisms' form, built from it, cut into pieces, and revised.
//!
//! Bytes come from anybody. What is not a whole, well-formed TCP segment over IPv4 or IPv6 is not read ([`parse`] returns
//! `None`), and whoever holds it passes it on as it is. Packets begin with their IP header.
#![forbid(unsafe_code)]

mod build;
mod change;
mod checksum;
mod head;
mod link;
mod options;
mod parse;

pub use build::{build, build_with_ecn, ip_ecn, option_bytes, tcp_header};
pub use change::{acknowledge, mark_congestion, mark_eln, offer_window, part, pieces, redirect, revise, stamp};
pub use checksum::{Checksum, Checksums, amend, checksums, seal};
pub use head::{Head, Kept, Transport, parse_head};
pub use link::{LinkError, decode_link, encode_link};
pub use options::{ELN_EXID, EXPERIMENTAL_KIND, SMART_EXID, is_read, options_in};
pub use parse::{Route, View, parse};

#[cfg(test)]
mod tests;
