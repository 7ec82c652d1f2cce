//! Scripts as bytes: any sequence is valid, and zeros follow its end.

/// Position in a script.
#[derive(Clone, Debug)]
pub struct Script<'s> {
    bytes: &'s [u8],
}

impl<'s> Script<'s> {
    pub const fn new(bytes: &'s [u8]) -> Self {
        Self { bytes }
    }

    pub const fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    pub fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// Returns a number near `base`, in steps of a segment, of one, or of 2^24, or an arbitrary number.
    pub fn near(&mut self, base: u32, step: u32) -> u32 {
        let how = self.byte();
        let small = |byte: u8| i32::from(byte as i8) as u32;
        match how % 8 {
            0 | 1 => base,
            2 => base.wrapping_add(1),
            3 => base.wrapping_sub(1),
            4 => base.wrapping_add(small(self.byte()).wrapping_mul(step)),
            5 => base.wrapping_add(small(self.byte())),
            6 => base.wrapping_add(small(self.byte()) << 24),
            _ => self.word(),
        }
    }
}
