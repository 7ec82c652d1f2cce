//! Tests the frames of a bridge: those of the tunnel's own type from the hop, those that it carries, and the encrypted
//! frames of the link. For any input, a parsed frame lies within the input, and a carried frame is restored completely.
#![no_main]

use lasthop_proto::link::hybrid::{Frame, PacketNumber, Symbol};
use lasthop_tunneld::frames::{self, Near, Own};
use lasthop_tunneld::inner::frame;
use lasthop_tunneld::{ethernet, inner};
use libfuzzer_sys::fuzz_target;

const NEAR: Near = Near { symbol: Symbol(77), own_symbol: Symbol(55) };
const OWN: Own = Own { next: PacketNumber(99), offset: 9 };

fuzz_target!(|data: &[u8]| {
    if let Some((from, datagram)) = ethernet::unwrap(data) {
        assert!(from.0[0] & 1 == 0 && datagram.len() + 16 <= data.len());
        let again = ethernet::wrap(from, from, datagram);
        assert_eq!(ethernet::unwrap(&again), Some((from, datagram)));
    }
    if let Some((range, view)) = frame::ip(data) {
        let mut bytes = data.to_vec();
        inner::fit::clamp(&mut bytes[range.clone()], &view, 1200);
        assert_eq!(bytes.len(), data.len());
        if let inner::fit::Oversize::Parts(parts) = inner::fit::oversize(&data[range], &view, 576) {
            assert!(parts.iter().all(|part| part.len() <= 576));
        }
    }
    if let Some(carried) = frame::carried(data) {
        assert_eq!(frame::frame(&carried), Some(data));
    }
    if let Some(bytes) = frame::frame(data) {
        assert_eq!(bytes.len() + frame::LENGTH, data.len());
    }
    if let Some(Frame::Data(_, _, packet) | Frame::Bare(packet)) = frames::read(data, NEAR, |path| (path.0 < 2).then_some(OWN)) {
        assert!(packet.bytes().len() <= data.len());
        let _ = packet.ecn();
    }
});
