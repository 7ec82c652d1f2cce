//! Kinds and sizes of TCP options.

pub(crate) const NOP: u8 = 1;
pub(crate) const SACK: u8 = 5;
pub(crate) const TIMESTAMPS: u8 = 8;

/// The kind of shared experimental TCP options (RFC 6994 §3).
pub const EXPERIMENTAL_KIND: u8 = 253;
/// ExID of the SMART option: "SM". Not registered with IANA.
pub const SMART_EXID: u16 = 0x534d;
/// ExID of the ELN option: "EL". Not registered with IANA.
pub const ELN_EXID: u16 = 0x454c;
/// ExID of the options of acknowledgment congestion control, whose length tells them apart (RFC 5690 leaves the kinds open): "AC".
/// Not registered with IANA.
pub const ACK_CONGESTION_EXID: u16 = 0x4143;

/// Bytes that a TCP header has for them (RFC 9293 §3.1).
pub(crate) const MOST_OPTIONS: usize = 40;
