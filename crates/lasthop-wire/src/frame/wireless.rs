//! IEEE 802.11 frames, and the headers that capture programs add to them.

use super::{Layer, Unread, Walk, digest};

/// Bits of the frame control field, in the order of its bytes.
mod control {
    pub(super) const TO_DS: u8 = 1;
    pub(super) const FROM_DS: u8 = 2;
    pub(super) const MORE_FRAGMENTS: u8 = 4;
    pub(super) const RETRY: u8 = 8;
    pub(super) const PROTECTED: u8 = 0x40;
    pub(super) const ORDER: u8 = 0x80;
}

impl Walk<'_> {
    /// Parses the frame from its frame control field. A frame check sequence may follow the data: IP determines the
    /// packet's length.
    pub(super) fn wireless(&mut self) -> Result<Layer, Unread> {
        let (kind, flags) = (self.rest.byte(0)?, self.rest.byte(1)?);
        if kind & 0x0f != 8 || kind & 0x40 != 0 {
            return Err(Unread::Other("Wi-Fi management and control frames, or data frames without data"));
        }
        let is_quality = kind & 0x80 != 0;
        let both = flags & (control::TO_DS | control::FROM_DS) == control::TO_DS | control::FROM_DS;
        let mut len = if both { 30 } else { 24 };
        let quality = if is_quality { self.rest.short(len)? } else { 0 };
        len += if is_quality { 2 } else { 0 };
        len += if is_quality && flags & control::ORDER != 0 { 4 } else { 0 };
        if flags & control::PROTECTED != 0 {
            return Err(Unread::Encapsulation("encrypted Wi-Fi frames"));
        }
        let sequence = self.little_short(22)?;
        if flags & control::MORE_FRAGMENTS != 0 || sequence & 15 != 0 {
            return Err(Unread::Encapsulation("fragmented Wi-Fi frames"));
        }
        self.front.is_retry = flags & control::RETRY != 0;
        self.link_addresses(4, 18);
        self.front.addresses = digest(self.front.addresses, &[flags & 3]);
        self.skip(if self.is_padded { len.next_multiple_of(4) } else { len })?;
        // "A-MSDU present" is bit 7 of the field's first byte.
        if quality & 0x8000 != 0 {
            return self.aggregate();
        }
        Ok(Layer::Llc)
    }

    /// Parses an A-MSDU: consecutive packets, each with addresses and its length, padded to four bytes.
    fn aggregate(&mut self) -> Result<Layer, Unread> {
        for at in 0.. {
            let len = usize::from(self.rest.short(12)?);
            let next = (14 + len).next_multiple_of(4);
            if at == self.part {
                // Another packet has at least its addresses, its length and an LLC header.
                self.more = self.rest.data.len() >= next + 14 + 8;
                self.skip(14)?;
                self.limit(len);
                return Ok(Layer::Llc);
            }
            self.skip(next)?;
        }
        Err(Unread::CutOff)
    }

    /// Parses radiotap's header: its length, and the flag that says whether the 802.11 header is padded to four bytes.
    pub(super) fn radiotap(&mut self) -> Result<Layer, Unread> {
        const TIME: u32 = 1;
        const FLAGS: u32 = 2;
        const EXTENDED: u32 = 1 << 31;
        const PADDED: u8 = 0x20;
        let len = usize::from(self.little_short(2)?);
        let present = self.little_word(4)?;
        let mut at = 8;
        let mut word = present;
        while word & EXTENDED != 0 && at < len {
            word = self.little_word(at)?;
            at += 4;
        }
        at = if present & TIME != 0 { at.next_multiple_of(8) + 8 } else { at };
        let padded = present & FLAGS != 0 && at < len && self.rest.byte(at)? & PADDED != 0;
        self.skip(len.max(8))?;
        self.is_padded = padded;
        Ok(Layer::Wireless)
    }

    /// Parses Prism's header, or that of AVS, for which drivers use the same number.
    pub(super) fn prism(&mut self) -> Result<Layer, Unread> {
        let len = match self.rest.word(0)? {
            0x8021_1001 | 0x8021_1002 => self.rest.word(4)?,
            _ => self.little_word(4)?.min(self.rest.word(4)?),
        };
        self.skip((len as usize).max(8))?;
        Ok(Layer::Wireless)
    }
}
