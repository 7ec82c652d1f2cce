//! The option of accurate ECN (RFC 9768 §3.2.3).

use core::num::NonZeroU8;

use super::Ecn;

/// Counters of received payload bytes by their ECN field, in the option of accurate ECN. The values are those on the
/// wire: 24 bits, initial values included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EcnCounters {
    /// One more than the number of fields, and [`ECT1_FIRST`].
    shape: NonZeroU8,
    /// Values, most significant byte first; zero without a field.
    fields: [[u8; 3]; 3],
}

/// Bit of the shape for the order that begins with ECT(1), kind 174 on the wire.
const ECT1_FIRST: u8 = 8;

/// ECN fields in the order of an option of kind 172.
const ORDER: [Ecn; 3] = [Ecn::Ect0, Ecn::Ce, Ecn::Ect1];

/// Kinds of the option on the wire: the order that begins with ECT(0), and the one that begins with ECT(1).
pub const ECN_COUNTER_KINDS: [u8; 2] = [172, 174];

impl EcnCounters {
    /// Returns the option of a kind with up to three values in its order; `None` if the kind is another.
    pub fn new(kind: u8, values: &[u32]) -> Option<Self> {
        let order = match ECN_COUNTER_KINDS.iter().position(|known| *known == kind)? {
            0 => 0,
            _ => ECT1_FIRST,
        };
        let mut fields = [[0; 3]; 3];
        let values = &values[..values.len().min(3)];
        for (field, value) in fields.iter_mut().zip(values) {
            let [_, high, middle, low] = value.to_be_bytes();
            *field = [high, middle, low];
        }
        NonZeroU8::new(order | (values.len() as u8 + 1)).map(|shape| Self { shape, fields })
    }

    /// Returns the number of fields.
    pub const fn count(self) -> usize {
        (self.shape.get() & !ECT1_FIRST) as usize - 1
    }

    /// Returns the kind of the option on the wire.
    pub const fn kind(self) -> u8 {
        ECN_COUNTER_KINDS[(self.shape.get() & ECT1_FIRST != 0) as usize]
    }

    /// Returns the fields in the order of the wire: the counted ECN field, and the value.
    pub fn fields(self) -> impl DoubleEndedIterator<Item = (Ecn, u32)> {
        let is_reversed = self.shape.get() & ECT1_FIRST != 0;
        (0..self.count()).map(move |at| {
            let [high, middle, low] = self.fields[at];
            let ecn = ORDER[if is_reversed { 2 - at } else { at }];
            (ecn, u32::from_be_bytes([0, high, middle, low]))
        })
    }

    /// Returns the length of the option, in bytes, without padding.
    pub const fn wire_len(self) -> u16 {
        2 + 3 * self.count() as u16
    }

    /// Returns the length that the option adds to a header whose options are each padded to a multiple of four. With
    /// SACK blocks behind it, its last bytes take the place of their padding.
    pub const fn padded_len(self, has_blocks: bool) -> u16 {
        match (self.count(), has_blocks) {
            (0 | 1, true) => self.wire_len() & !3,
            _ => self.wire_len().next_multiple_of(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9768 table 5.
    #[test]
    fn fields_are_in_the_order_of_the_kind() {
        let values = [1, 0x01_0203, 0xff_ffff];
        let of = |kind, count: usize| EcnCounters::new(kind, &values[..count]).unwrap();
        let fields = |counters: EcnCounters| counters.fields().collect::<alloc::vec::Vec<_>>();
        assert_eq!(fields(of(172, 3)), [(Ecn::Ect0, 1), (Ecn::Ce, 0x01_0203), (Ecn::Ect1, 0xff_ffff)]);
        assert_eq!(fields(of(174, 3)), [(Ecn::Ect1, 1), (Ecn::Ce, 0x01_0203), (Ecn::Ect0, 0xff_ffff)]);
        assert_eq!(fields(of(174, 1)), [(Ecn::Ect1, 1)]);
        assert_eq!(EcnCounters::new(173, &values), None);
        let lengths = |has_blocks| [0, 1, 2, 3].map(|count| of(172, count).padded_len(has_blocks));
        assert_eq!((lengths(false), lengths(true)), ([4, 8, 8, 12], [0, 4, 8, 12]));
        assert_eq!(
            [0, 1, 2, 3].map(|count| (of(174, count).wire_len(), of(172, count).kind())),
            [2, 5, 8, 11].map(|len| (len, 172))
        );
    }
}
