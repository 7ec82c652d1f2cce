//! Bytes of a transfer. Each byte follows from its position in the stream, so that the receiver can check that it is
//! correct and in the right place.

/// Returns the eight bytes at `8 * word` (splitmix64, so that positions in the stream have different bytes).
fn word(word: u64) -> [u8; 8] {
    let mut z = word.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_le_bytes()
}

/// Writes the bytes of the stream starting at `position`.
pub fn fill(position: u64, bytes: &mut [u8]) {
    let skip = (position % 8) as usize;
    let (head, rest) = bytes.split_at_mut(bytes.len().min((8 - skip) % 8));
    head.copy_from_slice(&word(position / 8)[skip..][..head.len()]);
    for (chunk, at) in rest.chunks_mut(8).zip(position.div_ceil(8)..) {
        chunk.copy_from_slice(&word(at)[..chunk.len()]);
    }
}

/// Returns the position of the first byte that differs from the stream, if any.
pub fn mismatch(position: u64, bytes: &[u8]) -> Option<u64> {
    let mut expected = [0; 2048];
    for (chunk, at) in bytes.chunks(expected.len()).zip((position..).step_by(expected.len())) {
        let expected = &mut expected[..chunk.len()];
        fill(at, expected);
        if chunk != expected {
            let same = chunk.iter().zip(&*expected).take_while(|(a, b)| a == b).count();
            return Some(at + same as u64);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_make_the_whole(position in 0_u64..1_000_000, len in 0_usize..5000, at in 0_usize..5000) {
            let mut whole = vec![0; len];
            fill(position, &mut whole);
            let at = at.min(len);
            let mut tail = vec![0; len - at];
            fill(position + at as u64, &mut tail);
            prop_assert_eq!(&whole[at..], &tail);
            prop_assert_eq!(mismatch(position, &whole), None);
            if at < len {
                whole[at] ^= 1;
                prop_assert_eq!(mismatch(position, &whole), Some(position + at as u64));
            }
        }
    }

    #[test]
    fn a_shifted_stream_is_noticed() {
        let mut bytes = vec![0; 4096];
        fill(0, &mut bytes);
        for shift in 1..5000 {
            assert!(mismatch(shift, &bytes).is_some());
        }
    }
}
