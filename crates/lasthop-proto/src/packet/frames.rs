//! Contents of the frames that a link protocol sends on its own account. To all but that protocol they are bytes and
//! numbers without meaning.

use core::fmt;

/// Packet, or combination of packets, in the form that a link protocol codes ([`crate::link::hybrid`]).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Image(pub [u8; Image::LENGTH]);

impl Image {
    /// Length of an image, in bytes.
    pub const LENGTH: usize = 76;
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Image")
    }
}

/// Contents of a feedback frame ([`crate::link::hybrid`]): numbers in their low 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkReport {
    /// Largest packet number that arrived.
    pub largest: u32,
    /// Time since its arrival, in microseconds.
    pub delay: u32,
    /// Bit map of arrivals among the 128 packets before the largest one, the nearest first: low bits of the first
    /// word.
    pub received: [u32; 4],
    /// First missing symbol.
    pub floor: u32,
    /// Bit map of presence among the 128 symbols after the first missing one, the nearest first.
    pub beyond: [u32; 4],
    /// Number of bytes that arrived.
    pub delivered: u32,
    /// Number of useful coded frames.
    pub useful: u32,
    /// Number of packets that arrived marked.
    pub marked: u32,
    /// Arrival time of the largest transmission, in microseconds on the reporting end's clock, if there are several
    /// paths.
    pub arrived: u32,
    /// Distance of the reported transmissions from the largest.
    pub back: u16,
    /// Number of the path that it reports on.
    pub path: u8,
}
