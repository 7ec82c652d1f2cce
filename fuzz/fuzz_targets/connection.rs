//! Tests one end of a TCP connection with segments that match its sequence numbers to varying degrees.
#![no_main]

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{Bases, drain, packet, pause, phase, steps, tcp_config, wait};
use lasthop_proto::node::{Node, Output, Port};
use lasthop_proto::packet::{Flags, FlowId, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{DelayedAck, Switch};
use lasthop_proto::tcp::{Connection, Setup};
use lasthop_proto::time::Instant;
use libfuzzer_sys::fuzz_target;

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let config = Arc::new(tcp_config(u)?);
    let side = if u.arbitrary()? { Side::Initiator } else { Side::Acceptor };
    let iss = u32::MAX - u32::from(u.arbitrary::<u16>()?);
    let setup = Setup {
        flow: FlowId(0),
        side,
        config: config.clone(),
        iss: Seq(iss),
        phase: phase(u)?,
        watch: if u.arbitrary()? { Switch::On } else { Switch::Off },
    };
    let mut connection = Connection::new(setup);
    if side == Side::Initiator {
        connection.connect()
    } else {
        connection.listen()
    }
    let mut now = Instant::ZERO;
    // Numbers that a peer would know: the next one in each direction.
    let mut bases = Bases { seq: 5_000, ack: iss };
    let mut written = 0_u64;
    steps(u, 300, |u| {
        let known = bases;
        let mut see = |output| {
            let Output::Transmit(port, _, packet) = output else { return };
            assert_eq!((port, packet.flow, packet.from), (Port::ONLY, FlowId(0), side));
            let Some(tcp) = packet.tcp() else { panic!("{packet:?}") };
            assert!(packet.len <= config.common.mss, "{packet:?}");
            assert!(packet.header_len <= 100 && tcp.options.sack.as_slice().len() <= 4, "{packet:?}");
            let end = tcp.seq + packet.seq_len();
            if end.gt(Seq(bases.ack)) {
                bases.ack = end.0;
            }
            if tcp.flags.has(Flags::ACK) {
                bases.seq = tcp.ack.0;
            }
        };
        match u.int_in_range(0..=15u8)? {
            0 => {
                let bytes = u64::from(u.arbitrary::<u16>()?);
                written += bytes;
                connection.write(bytes);
            }
            1 => connection.close(),
            2 if u.ratio(1, 10)? => connection.abort(),
            2 | 3 => {
                let most = connection.readable();
                connection.read(if u.arbitrary()? { most } else { u.int_in_range(0..=most)? });
            }
            4..=6 => {
                now = now + pause(u)?;
                wait(&mut connection, now, &mut see);
            }
            _ => {
                let packet = packet(u, FlowId(0), side.peer(), known)?;
                connection.handle_packet(now, Port::ONLY, packet);
            }
        }
        drain(&mut connection, now, &mut see);
        // Like Linux, a receiver accepts a whole segment as long as the window is open.
        let beyond = if config.receiver.delayed_ack == DelayedAck::Linux { 65_535 } else { 0 };
        assert!(connection.readable() <= u64::from(config.receiver.receive_buffer) + beyond, "accepted data beyond the window");
        assert!(connection.readable() <= connection.received());
        assert!(connection.acked() <= written, "an acknowledgment of data that was never written was accepted");
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
