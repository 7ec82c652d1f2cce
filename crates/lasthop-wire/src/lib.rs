//! TCP/IP packets as bytes: parsed into the mechanisms' form, built from it, split, and modified.
//!
//! Bytes are untrusted. [`parse`] returns `None` unless they are a complete, well-formed TCP segment over IPv4 or IPv6;
//! the caller then forwards the packet unchanged. Packets begin with their IP header.
//!
//! [`Ip`], [`Tcp`] and [`Udp`] are views of headers in borrowed bytes. Other crates read headers through them or through
//! [`parse`], never by hand (checked by `tests/one_parser.rs`).
#![forbid(unsafe_code)]

mod build;
mod captured;
mod change;
mod checksum;
mod datagram;
mod fragments;
mod frame;
mod head;
mod ip;
mod link;
mod mutable;
mod options;
mod parse;
mod transport;

pub use build::{build, build_with_ecn, ip_ecn, tcp_header};
pub use captured::CapturedIp;
pub use change::{acknowledge, mark_congestion, mark_eln, offer_window, part, pieces, redirect, revise, stamp};
pub use checksum::{
    Checksum, Checksums, amend, checksum_field, checksums, complete, defer_transport, seal, seal_datagram,
    seal_transport, verifies_transport,
};
pub use datagram::{Datagram, build_datagram, parse_datagram};
pub use fragments::fragments;
pub use frame::{Front, Packet, READ_LINKS, Unread, peel, reads_link};
pub use head::{Head, Kept, Transport, head_of, parse_head};
pub use ip::{Extension, Fragment, Ip, Ipv4, Ipv6, V4_LEN, V6_LEN, Version, ecn, protocol};
pub use link::{LinkError, decode_link, encode_link};
pub use mutable::{IpMut, TcpMut};
pub use options::{ELN_EXID, EXPERIMENTAL_KIND, SMART_EXID, is_read, options_in};
pub use parse::{Route, View, parse};
pub use transport::{Tcp, TcpFront, Udp};

#[cfg(test)]
mod tests;
