//! Classic pcap files, in both byte orders, with microseconds or nanoseconds, and in the "modified" format.

use std::io::Read;

use super::bytes::{Bytes, Got};
use super::{CaptureError, Found, Interface, Order, Unit, Way};

/// A pcap file after its header.
pub(super) struct Pcap {
    order: Order,
    unit: Unit,
    /// Bytes after the four words of a packet's header.
    extra: u32,
    /// Indicates whether captured and original length are swapped (version 2.2 and before, and some of 2.3).
    swapped: Swapped,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Swapped {
    Never,
    Always,
    /// Swapped if the first length is greater than the second.
    Perhaps,
}

impl Pcap {
    /// Reads the header; `None` if the file has another format.
    pub(super) fn open<R: Read>(
        magic: [u8; 4],
        file: &mut Bytes<R>,
    ) -> Result<Option<(Self, Interface)>, CaptureError> {
        let (order, resolution, extra) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, 6, 0),
            [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, 6, 0),
            [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, 9, 0),
            [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, 9, 0),
            [0xa1, 0xb2, 0xcd, 0x34] => (Order::Big, 6, 8),
            [0x34, 0xcd, 0xb2, 0xa1] => (Order::Little, 6, 8),
            _ => return Ok(None),
        };
        let mut header = Vec::with_capacity(20);
        if file.take(20, &mut header)? != Got::All {
            return Ok(None);
        }
        let (major, minor) = (order.short(&header), order.short(&header[2..]));
        let swapped = match (major, minor) {
            (2, 0..3) => Swapped::Always,
            (2, 3) => Swapped::Perhaps,
            _ => Swapped::Never,
        };
        let unit = Unit { resolution, offset: 0 };
        // The bits above the link type describe the frame check sequence.
        let (snap_len, link) = (order.word(&header[12..]), order.word(&header[16..]) & 0xffff);
        Ok(Some((Self { order, unit, extra, swapped }, Interface { name: None, link, snap_len, unit })))
    }

    /// Reads the next packet into `body`.
    pub(super) fn next<R: Read>(
        &self,
        file: &mut Bytes<R>,
        body: &mut Vec<u8>,
        behind: u64,
    ) -> Result<Option<(Found, u64)>, CaptureError> {
        body.clear();
        match file.take(16 + self.extra, body)? {
            Got::Nothing => return Ok(None),
            Got::Part => return Err(CaptureError::Cut { behind }),
            Got::All => {}
        }
        let word = |at: usize| self.order.word(&body[at..]);
        let (seconds, fraction) = (u64::from(word(0)), u64::from(word(4)));
        let (mut kept, mut len) = (word(8), word(12));
        if self.swapped == Swapped::Always || self.swapped == Swapped::Perhaps && kept > len {
            (kept, len) = (len, kept);
        }
        body.clear();
        match file.take_said(kept, body) {
            Some(Ok(Got::All)) => {}
            Some(Ok(Got::Nothing | Got::Part)) => return Err(CaptureError::Cut { behind }),
            Some(Err(error)) => return Err(error),
            None => {
                let what = format!("invalid packet length ({kept} bytes)");
                return Err(CaptureError::Damaged { behind, what });
            }
        }
        let whole = Unit { resolution: 0, ..self.unit }.nanos(seconds);
        let time = whole.saturating_add(self.unit.nanos(fraction));
        let data = 0..body.len();
        let found = Found {
            interface: 0,
            len: len.max(kept),
            way: Way::Unknown,
            options_at: data.end,
            data,
            order: self.order,
        };
        Ok(Some((found, time)))
    }
}
