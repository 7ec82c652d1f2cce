//! pcapng files. Options that are not needed are skipped without checks, as in tshark and capinfos; fields needed to
//! find and date packets are checked.

use std::io::Read;

use super::bytes::{Bytes, Got};
use super::{CaptureError, Found, Interface, Order, Unit, Way};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete since 2014.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Bytes before and after each block: type and length; length.
const AROUND: u32 = 12;

/// A pcapng file, in one of its sections.
pub(super) struct PcapNg {
    order: Order,
}

/// Kind of a block.
pub(super) enum Block {
    /// Start of a section: interfaces are numbered from 0.
    Section,
    Interface(Interface),
    /// A packet, with the number of its interface in the section, and its time in that interface's units.
    Packet(Found, Option<u64>, Kept),
}

/// Presence of the captured length in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    Said,
    /// Limited only by the snap length of the interface.
    BySnapLen,
}

impl PcapNg {
    /// Reads the header of the first section after its type.
    pub(super) fn open<R: Read>(file: &mut Bytes<R>, body: &mut Vec<u8>) -> Result<Option<Self>, CaptureError> {
        let mut this = Self { order: Order::Little };
        body.clear();
        let found = file.take(4, body)? == Got::All && this.section(file, body, 0).is_ok();
        Ok(found.then_some(this))
    }

    /// Reads the rest of a section's header, whose length is in `body`.
    fn section<R: Read>(&mut self, file: &mut Bytes<R>, body: &mut Vec<u8>, behind: u64) -> Result<(), CaptureError> {
        if file.take(4, body)? != Got::All {
            return Err(CaptureError::Cut { behind });
        }
        self.order = match body[4..8] {
            [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
            [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
            _ => return Err(damaged(behind, "unknown byte order of a section")),
        };
        let len = self.order.word(body);
        let rest = len.checked_sub(AROUND).filter(|rest| *rest >= 16);
        let rest = rest.ok_or_else(|| damaged(behind, "section header too short"))?;
        body.clear();
        self.body(file, body, rest - 4, len, behind)
    }

    /// Reads the body of a block, and the length after it.
    fn body<R: Read>(
        &self,
        file: &mut Bytes<R>,
        body: &mut Vec<u8>,
        rest: u32,
        len: u32,
        behind: u64,
    ) -> Result<(), CaptureError> {
        let padded = rest.checked_next_multiple_of(4).and_then(|padded| padded.checked_add(4));
        match padded.and_then(|padded| file.take_said(padded, body)) {
            Some(Ok(Got::All)) => {}
            Some(Ok(Got::Nothing | Got::Part)) => return Err(CaptureError::Cut { behind }),
            Some(Err(error)) => return Err(error),
            None => return Err(damaged(behind, &format!("invalid block length ({len} bytes)"))),
        }
        let end = body.len() - 4;
        // Some writers omit the padding from the length before the block, or from the one after it.
        if self.order.word(&body[end..]).next_multiple_of(4) != len.next_multiple_of(4) {
            return Err(damaged(behind, "the two lengths of a block differ"));
        }
        body.truncate(end);
        Ok(())
    }

    /// Reads up to the next relevant block.
    pub(super) fn next<R: Read>(
        &mut self,
        file: &mut Bytes<R>,
        body: &mut Vec<u8>,
        behind: u64,
    ) -> Result<Option<Block>, CaptureError> {
        loop {
            body.clear();
            match file.take(8, body)? {
                Got::Nothing => return Ok(None),
                Got::Part => return Err(CaptureError::Cut { behind }),
                Got::All => {}
            }
            let (kind, len) = (self.order.word(body), self.order.word(&body[4..]));
            if kind == SECTION_HEADER {
                body.drain(..4);
                self.section(file, body, behind)?;
                return Ok(Some(Block::Section));
            }
            let rest = len.checked_sub(AROUND).ok_or_else(|| damaged(behind, "block length too short"))?;
            body.clear();
            self.body(file, body, rest, len, behind)?;
            match kind {
                INTERFACE_DESCRIPTION => return self.interface(body, behind).map(Some),
                PACKET | SIMPLE_PACKET | ENHANCED_PACKET => return self.packet(kind, body, behind).map(Some),
                _ => {}
            }
        }
    }

    fn interface(&self, body: &[u8], behind: u64) -> Result<Block, CaptureError> {
        if body.len() < 8 {
            return Err(damaged(behind, "interface description too short"));
        }
        let mut interface = Interface {
            name: None,
            link: u32::from(self.order.short(body)),
            snap_len: self.order.word(&body[4..]),
            unit: Unit { resolution: 6, offset: 0 },
        };
        for (code, value) in options(&body[8..], self.order) {
            match (code, value.len()) {
                (2, 1..) => {
                    let name = String::from_utf8_lossy(value);
                    interface.name = Some(name.trim_end_matches('\0').to_owned());
                }
                (9, 1) => interface.unit.resolution = value[0],
                (14, 8) => {
                    let halves = [self.order.word(value), self.order.word(&value[4..])];
                    let [high, low] = if self.order == Order::Big { halves } else { [halves[1], halves[0]] };
                    interface.unit.offset = (u64::from(high) << 32 | u64::from(low)) as i64;
                }
                _ => {}
            }
        }
        Ok(Block::Interface(interface))
    }

    fn packet(&self, kind: u32, body: &[u8], behind: u64) -> Result<Block, CaptureError> {
        let begin = if kind == SIMPLE_PACKET { 4 } else { 20 };
        if body.len() < begin {
            return Err(damaged(behind, "packet block too short"));
        }
        let word = |at: usize| self.order.word(&body[at..]);
        if kind == SIMPLE_PACKET {
            let (len, room) = (word(0), body.len() - 4);
            let data = 4..4 + room.min(len as usize);
            // It has no options; the packet is followed by padding.
            let found = Found { interface: 0, data, len, way: Way::Unknown, options_at: body.len(), order: self.order };
            return Ok(Block::Packet(found, None, Kept::BySnapLen));
        }
        // The obsolete block has a counter of drops next to the interface's number.
        let interface = if kind == PACKET { u32::from(self.order.short(body)) } else { word(0) };
        let (kept, len) = (word(12), word(16));
        let end = begin.saturating_add(kept as usize);
        if end > body.len() {
            return Err(damaged(behind, "a packet is longer than its block"));
        }
        let options_at = end.next_multiple_of(4);
        let flags = options(body.get(options_at..).unwrap_or_default(), self.order);
        let flags = flags.into_iter().find(|(code, value)| *code == 2 && value.len() == 4);
        let way = match flags.map(|(_, value)| self.order.word(value) & 3) {
            Some(1) => Way::In,
            Some(2) => Way::Out,
            _ => Way::Unknown,
        };
        let stamp = u64::from(word(4)) << 32 | u64::from(word(8));
        let found = Found { interface, data: begin..end, len: len.max(kept), way, options_at, order: self.order };
        Ok(Block::Packet(found, Some(stamp), Kept::Said))
    }
}

/// Returns the options of a block, up to its end, `opt_endofopt`, or the first incomplete one.
pub(super) fn options(mut rest: &[u8], order: Order) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let code = order.short(rest.get(..2)?);
        let len = usize::from(order.short(rest.get(2..4)?));
        let value = rest.get(4..4 + len).filter(|_| code != 0)?;
        rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

fn damaged(behind: u64, what: &str) -> CaptureError {
    CaptureError::Damaged { behind, what: what.to_owned() }
}
