//! TCP/IP packets as bytes: read into the mechanisms' form, built from it, cut into pieces, and revised.
//!
//! Bytes come from anybody. What is not a whole, well-formed TCP segment over IPv4 or IPv6 is not read ([`parse`] returns
//! `None`), and whoever holds it passes it on as it is. Packets begin with their IP header.
#![forbid(unsafe_code)]

mod build;
mod change;
mod checksum;
mod frame;
mod head;
mod ip;
mod link;
mod options;
mod parse;

pub use build::{build, build_with_ecn, ip_ecn, option_bytes, tcp_header};
pub use change::{acknowledge, mark_congestion, mark_eln, offer_window, part, pieces, redirect, revise, stamp};
pub use checksum::{Checksum, Checksums, amend, checksums, seal};
pub use frame::{Front, Packet, READ_LINKS, Unread, peel, reads_link};
pub use head::{Head, Kept, Transport, head_of, parse_head};
pub use ip::{Fragment, Ip};
pub use link::{LinkError, decode_link, encode_link};
pub use options::{ELN_EXID, EXPERIMENTAL_KIND, SMART_EXID, is_read, options_in};
pub use parse::{Route, View, parse};

#[cfg(test)]
mod tests;
