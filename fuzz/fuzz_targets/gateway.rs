//! Tests the gateway's engine with arbitrary bytes: its memory stays bounded, its output consists of complete packets,
//! and packets that it must not modify pass.
#![no_main]

use arbitrary::{Result, Unstructured};
use lasthop_fuzz::{passing, pause, steps};
use lasthop_gateway::engine::rules::{EngineConfig, Mode, Rule};
use lasthop_gateway::engine::{Engine, Injection, Offloaded, Verdict};
use lasthop_proto::node::Port;
use lasthop_proto::packet::Side;
use lasthop_proto::time::{Duration, Instant};
use lasthop_wire::{Checksum, Checksums, Route, build, checksums, parse, pieces};
use libfuzzer_sys::fuzz_target;

const FLOWS: usize = 4;
const CACHE: u64 = 20_000;

fn config(u: &mut Unstructured<'_>) -> Result<EngineConfig> {
    let mut rules = Vec::new();
    for name in ["a", "b"] {
        let mut rule = Rule::all(name, *u.choose(&[Mode::Snoop, Mode::Snoop, Mode::Observe, Mode::Bypass])?);
        rule.snoop.cache_bytes = CACHE;
        rule.ab = *u.choose(&[0.0, 0.0, 0.5, 1.0])?;
        rules.push(rule);
    }
    rules.truncate(u.int_in_range(0..=2)?);
    Ok(EngineConfig { flows: u.int_in_range(0..=FLOWS)?, idle: Duration::from_secs(5), ..EngineConfig::new(rules) })
}

/// Returns the bytes of a packet: mostly TCP of a few flows, sometimes with a byte changed or truncated, or arbitrary
/// bytes.
fn bytes(u: &mut Unstructured<'_>) -> Result<(Port, Vec<u8>)> {
    let (port, packet) = passing(u)?;
    let port = if port == Port::WIRED { Port::WIRED } else { Port::WIRELESS };
    let Some(segment) = packet.tcp() else { return Ok((port, u.arbitrary()?)) };
    let client = 1000 | packet.flow.0 as u16;
    let route = if client & 1 == 0 {
        Route { source: ([10, 0, 0, 1], 80).into(), destination: ([10, 0, 0, 2], client).into() }
    } else {
        Route { source: ([1; 8], 80).into(), destination: ([2; 8], client).into() }
    };
    let route = if packet.from == Side::Initiator { route } else { route.reversed() };
    let most = if u.ratio(1, 16)? { 60_000 } else { 3_000 };
    let Some(mut bytes) = build(route, segment, &vec![7; packet.len.min(most) as usize]) else {
        return Ok((port, Vec::new()));
    };
    if u.ratio(1, 16)? {
        let at = u.choose_index(bytes.len())?;
        bytes[at] = u.arbitrary()?;
    }
    if u.ratio(1, 32)? {
        bytes.truncate(u.choose_index(bytes.len())?);
    }
    Ok((port, bytes))
}

fn check(engine: &mut Engine, out: &mut Vec<Injection>) {
    for Injection { packet, .. } in out.drain(..) {
        let view = parse(&packet).expect("the sent packet is complete");
        assert!(pieces(&packet, &view, usize::MAX) == [packet], "checksums");
    }
    let counters = engine.counters();
    let cached: u64 = counters.rules.iter().map(|rule| rule.cached_bytes).sum();
    assert!(counters.flows <= FLOWS as u64 && cached <= 2 * CACHE);
    assert!(counters.held_bytes <= 5 * CACHE + (1 << 17) + 200 * FLOWS as u64, "{}", counters.held_bytes);
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let first = config(u)?;
    let mut treats = first.rules.iter().any(|rule| rule.mode == Mode::Snoop);
    let mut engine = Engine::new(first, u.arbitrary()?);
    let (mut now, mut out) = (Instant::ZERO, Vec::new());
    steps(u, 300, |u| {
        match u.int_in_range(0..=31u8)? {
            0..=6 => {
                now = now + pause(u)?;
                engine.handle_timeout(now, &mut out);
                assert!(engine.poll_deadline().is_none_or(|at| at > now));
            }
            7 => {
                let new = config(u)?;
                treats |= new.rules.iter().any(|rule| rule.mode == Mode::Snoop);
                engine.reconfigure(now, new, &mut out);
            }
            8 => engine.set_mtu(*u.choose(&[Port::WIRED, Port::WIRELESS])?, u.arbitrary()?),
            _ => {
                let (port, packet) = bytes(u)?;
                let size = u.ratio(1, 8)?.then(|| u.arbitrary()).transpose()?;
                let checksum = if u.ratio(1, 4)? { Checksum::Pending } else { Checksum::Complete };
                let damaged = parse(&packet).is_some_and(|view| checksums(&packet, &view, checksum) != Checksums::Hold);
                let offloaded = Offloaded { size, checksum };
                let verdict = engine.handle_packet(now, port, &packet, offloaded, &mut out);
                assert!(!damaged || (verdict == Verdict::Accept && out.is_empty()), "a damaged packet passes");
                assert!(treats || (verdict == Verdict::Accept && out.is_empty()));
                assert!(verdict == Verdict::Accept || parse(&packet).is_some(), "a packet other than TCP passes");
            }
        }
        check(&mut engine, &mut out);
        let arms = engine.arms();
        assert!(arms.iter().all(|arms| arms.gain().is_none_or(|gain| gain.low <= gain.high)), "{arms:?}");
        Ok(())
    })
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
