//! Recording, reading and replay, without a network.

use std::io::Cursor;
use std::num::NonZeroU16;
use std::path::Path;

use lasthop_daemon::recording::RecordTo;
use lasthop_proto::packet::{Flags, Options, SackBlock, Segment, Timestamps};
use lasthop_proto::seq::Seq;
use lasthop_proto::time::Duration;
use lasthop_proto::time::Instant;
use lasthop_wire::{Checksum, Route, build};
use proptest::prelude::*;

use super::engine::RecordedEngine;
use super::reader::{Entry, NewEngine, Recording, RecordingError};
use super::recorder::Recorder;
use super::replay::{Comparison, replay, replay_element};
use super::*;
use crate::configuration::Gateway;
use crate::engine::properties;

const MSS: u32 = 1000;
const SNOOP: &str = "[[rule]]\nname = 'r'\nmode = 'snoop'\ninterface = 'wl0'\naddresses = ['10.0.0.2']\n";

/// Size limit for tests that do not exercise the limit, in bytes.
const LIMIT: u64 = 1 << 30;

/// Returns a recorder that appends to a file.
fn recorder(path: &Path, limit: u64, text: &str) -> Recorder {
    let to = RecordTo { path: path.to_owned(), limit, who: "the gateway" };
    Recorder::start(to.open().unwrap(), text, 7).unwrap()
}

/// Recorded engine, with the time and a connection that the wireless side opens, with SACK, timestamps and window
/// scaling.
struct Bench {
    folder: tempfile::TempDir,
    engine: Option<RecordedEngine>,
    now: Instant,
    sent: Vec<Injection>,
    /// Inputs and decisions, collected independently of the recording.
    calls: Vec<(Call, Decision)>,
}

impl Bench {
    fn new(text: &str, limit: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let to = RecordTo { path: folder.path().join("recording"), limit, who: "the gateway" };
        to.create().unwrap();
        let engine = RecordedEngine::new(&Gateway::parse("g", text).unwrap(), 7, Some(recorder(&to.path, limit, text)));
        Self { folder, engine: Some(engine), now: Instant::ZERO, sent: Vec::new(), calls: Vec::new() }
    }

    fn engine(&mut self) -> &mut RecordedEngine {
        self.engine.as_mut().unwrap()
    }

    /// Ends the recording and returns its bytes.
    fn bytes(&mut self) -> Vec<u8> {
        self.engine = None;
        std::fs::read(self.folder.path().join("recording")).unwrap()
    }

    fn give(&mut self, port: Port, packet: &[u8]) -> Verdict {
        self.give_as(port, packet, Offloaded::NOTHING)
    }

    fn give_as(&mut self, port: Port, packet: &[u8], offloaded: Offloaded) -> Verdict {
        self.now += Duration::from_micros(700);
        let (now, mut sent) = (self.now, std::mem::take(&mut self.sent));
        let verdict = self.engine().handle_packet(now, port, packet, offloaded, &mut sent);
        let view = lasthop_wire::parse(packet);
        let condition = view.map_or(Condition::Whole, |view| offloaded.condition(packet, &view));
        let call = Call::Packet { port, headers: Headers::of(packet), offloaded, condition };
        self.calls.push((call, Decision::of(&verdict, &sent)));
        verdict
    }

    fn wait(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        while let Some(at) = self.engine().poll_deadline().filter(|at| *at <= end) {
            // A driver with a small scheduling delay.
            self.now = self.now.max(at + Duration::from_micros(60));
            let (now, mut sent) = (self.now, std::mem::take(&mut self.sent));
            self.engine().handle_timeout(now, &mut sent);
            self.calls.push((Call::Timeout, Decision::of(&Verdict::Accept, &sent)));
        }
        self.now = end.max(self.now);
    }

    fn tcp(&mut self, port: Port, segment: Segment, payload: u32) -> Verdict {
        let route = Route { source: ([10, 0, 0, 1], 80).into(), destination: ([10, 0, 0, 2], 4000).into() };
        let route = if port == Port::WIRED { route } else { route.reversed() };
        let payload: Vec<u8> = (0..payload).map(|at| (segment.seq.0.wrapping_add(at) >> 3) as u8).collect();
        self.give(port, &build(route, &segment, &payload).unwrap())
    }

    fn open(&mut self) {
        let times = Some(Timestamps { val: 1, ecr: 0 });
        let options = Options {
            mss: Some(1012),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: times,
            ..Options::default()
        };
        let syn = |seq, ack, flags| Segment { seq: Seq(seq), ack: Seq(ack), window: 64_000, flags, options };
        self.tcp(Port::WIRELESS, syn(0, 0, Flags::SYN), 0);
        self.tcp(Port::WIRED, syn(1000, 1, Flags::SYN.with(Flags::ACK)), 0);
        self.ack(0, &[]);
    }

    /// Returns the bytes of the server's `n`th segment.
    fn data_of(&self, n: u32, fill: u8) -> Vec<u8> {
        let options = Options { timestamps: Some(Timestamps { val: n + 10, ecr: 1 }), ..Options::default() };
        let segment = Segment { seq: seq(n), ack: Seq(1), window: 500, flags: Flags::ACK, options };
        let route = Route { source: ([10, 0, 0, 1], 80).into(), destination: ([10, 0, 0, 2], 4000).into() };
        build(route, &segment, &[fill; MSS as usize]).unwrap()
    }

    /// Sends the server's `n`th segment.
    fn data(&mut self, n: u32) -> Verdict {
        let options = Options { timestamps: Some(Timestamps { val: n + 10, ecr: 1 }), ..Options::default() };
        let flags = Flags::ACK.with(Flags::PSH);
        self.tcp(Port::WIRED, Segment { seq: seq(n), ack: Seq(1), window: 500, flags, options }, MSS)
    }

    /// Acknowledges all segments below `n`, and those in `above`.
    fn ack(&mut self, n: u32, above: &[(u32, u32)]) -> Verdict {
        let mut options = Options { timestamps: Some(Timestamps { val: 5, ecr: n }), ..Options::default() };
        above.iter().for_each(|&(left, right)| options.sack.push(SackBlock { left: seq(left), right: seq(right) }));
        let segment = Segment { seq: Seq(1), ack: seq(n), window: 64_000, flags: Flags::ACK, options };
        self.tcp(Port::WIRELESS, segment, 0)
    }

    /// Runs a transfer with losses detected by duplicates and by the timer, old data, and work for flow control.
    fn transfer(&mut self) {
        self.open();
        (0..30).for_each(|n| drop(self.data(n)));
        self.ack(3, &[]);
        (5..9).for_each(|n| drop(self.ack(3, &[(4, n)])));
        self.ack(9, &[(10, 12)]);
        (30..40).for_each(|n| drop(self.data(n)));
        self.wait(900);
        self.ack(12, &[]);
        self.data(2);
        (13..40).for_each(|n| drop(self.ack(n, &[])));
        self.wait(3_000);
    }

    /// Sends a packet that is not TCP, a truncated one, and one that matches no rule.
    fn strangers(&mut self) {
        self.give(Port::WIRED, &[0x45; 33]);
        self.give(Port::WIRELESS, &[]);
        self.give(Port::WIRED, &[7; 1500]);
        let route = Route { source: ([1u16; 8], 80).into(), destination: ([2u16; 8], 4000).into() };
        let segment = Segment { flags: Flags::ACK, ..Segment::default() };
        self.give(Port::WIRED, &build(route, &segment, &[1; 50]).unwrap());
    }
}

fn seq(n: u32) -> Seq {
    Seq(1001) + n * MSS
}

fn read(bytes: &[u8]) -> Result<Vec<Entry>, RecordingError> {
    let mut recording = Recording::new("r.pcapng", Cursor::new(bytes))?;
    std::iter::from_fn(|| recording.next_entry().transpose()).collect()
}

fn replayed(bytes: &[u8]) -> Comparison {
    replay(Recording::new("r.pcapng", Cursor::new(bytes)).unwrap()).unwrap()
}

/// Returns a datagram with a payload that starts with these bytes.
fn datagram(route: Route, form: u8, len: usize) -> Vec<u8> {
    let mut payload = vec![0xab; len];
    payload[..5].copy_from_slice(&[form, 0, 0, 0, 1]);
    lasthop_wire::build_datagram(route, &payload).unwrap()
}

#[test]
fn quic_is_decided_the_same_again_from_headers_alone() {
    let mut bench = Bench::new("[[rule]]\nname = 'q'\nmode = 'quic'\ninterface = 'wl0'\nab = '0 %'\n", LIMIT);
    let up = Route { source: "10.0.0.2:5000".parse().unwrap(), destination: "10.1.0.1:443".parse().unwrap() };
    bench.give(Port::WIRELESS, &datagram(up, 0xc0, 1200));
    bench.give(Port::WIRED, &datagram(up.reversed(), 0xc0, 1200));
    bench.wait(3);
    bench.give(Port::WIRELESS, &datagram(up, 0xc0, 60));
    let mut held = 0;
    for index in 0..100 {
        bench.give(Port::WIRED, &datagram(up.reversed(), 0x40, 1400));
        bench.wait(1);
        let len = if index % 20 == 19 { 38 } else { 36 };
        held += u64::from(bench.give(Port::WIRELESS, &datagram(up, 0x40, len)) == Verdict::Drop);
    }
    bench.wait(50);
    let bytes = bench.bytes();
    let comparison = replayed(&bytes);
    assert!(held > 0 && comparison.sent > held, "copies as well: {comparison:?}");
    assert_eq!((comparison.dropped, comparison.differences.count), (held, 0), "{comparison:?}");
    assert!(!bytes.windows(8).any(|window| window == [0xab; 8]), "no payload");
    assert!(replay_element(Recording::new("r", Cursor::new(&bytes)).unwrap()).is_err());
}

fn by_element(bytes: &[u8]) -> Comparison {
    replay_element(Recording::new("r.pcapng", Cursor::new(bytes)).unwrap()).unwrap()
}

fn steps(entries: Vec<Entry>) -> Vec<Step> {
    let step = |entry| match entry {
        Entry::Step(step) => Some(step),
        Entry::Start(_) => None,
    };
    entries.into_iter().filter_map(step).collect()
}

#[test]
fn super_segments_are_in_the_file_with_the_size_of_their_segments() {
    let mut bench = Bench::new(SNOOP, LIMIT);
    bench.open();
    // Below the MSS of both SYNs: only the driver can know the size.
    let size = NonZeroU16::new(700).unwrap();
    let stamp = |val, ecr| Options { timestamps: Some(Timestamps { val, ecr }), ..Options::default() };
    let segment = Segment { seq: seq(0), ack: Seq(1), window: 500, flags: Flags::ACK, options: stamp(10, 1) };
    let route = Route { source: ([10, 0, 0, 1], 80).into(), destination: ([10, 0, 0, 2], 4000).into() };
    let offloaded = Offloaded { size: Some(size), checksum: Checksum::Pending };
    bench.give_as(Port::WIRED, &build(route, &segment, &[5; 7 * 700]).unwrap(), offloaded);
    let mut options = stamp(20, 10);
    options.sack.push(SackBlock { left: seq(0) + 2 * 700, right: seq(0) + 4 * 700 });
    let hole = Segment { seq: Seq(1), ack: seq(0) + 700, window: 64_000, flags: Flags::ACK, options };
    bench.tcp(Port::WIRELESS, hole, 0);
    assert_eq!(bench.calls.last().map(|(_, decision)| decision.sent.len()), Some(1));
    let bytes = bench.bytes();
    let recorded = steps(read(&bytes).unwrap()).into_iter().map(|step| (step.call, step.decision));
    assert_eq!(recorded.collect::<Vec<_>>(), bench.calls);
    let again = replayed(&bytes);
    assert_eq!((again.packets, again.sent, again.differences.count), (5, 1, 0), "{:?}", again.differences.first);
}

#[test]
fn what_was_damaged_is_damaged_again_and_what_was_pending_pending() {
    let mut bench = Bench::new(SNOOP, LIMIT);
    bench.transfer();
    let data = bench.data_of(40, 0x18);
    let mut damaged = Vec::new();
    for at in [2, 25, 36, 60, 1000] {
        let mut packet = data.clone();
        packet[at] ^= 0x10;
        damaged.push(packet);
    }
    for packet in &damaged {
        assert_eq!(bench.give(Port::WIRED, packet), Verdict::Accept);
    }
    // Packets without a checksum to verify are accepted.
    let pending = Offloaded { size: None, checksum: Checksum::Pending };
    bench.give_as(Port::WIRED, &data, pending);
    bench.give_as(Port::WIRED, &damaged[1], pending);
    bench.ack(40, &[(41, 42)]);
    bench.ack(40, &[(41, 43)]);
    let bytes = bench.bytes();
    let recorded = steps(read(&bytes).unwrap());
    let conditions = recorded.iter().filter(|step| {
        matches!(step.call, Call::Packet { condition: Condition::Damaged, offloaded: Offloaded::NOTHING, .. })
    });
    assert_eq!(conditions.count(), 5 - 1, "one says that it is longer than it is");
    assert_eq!(recorded.into_iter().map(|step| (step.call, step.decision)).collect::<Vec<_>>(), bench.calls);
    let again = replayed(&bytes);
    assert_eq!(again.differences.count, 0, "{:?}", again.differences.first);
}

#[test]
fn what_happened_is_in_the_file_and_happens_again() {
    for flow_control in ["none", "fast"] {
        for (detection, awareness) in [("smart", "aware"), ("duplicate-acks", "aware"), ("smart", "unaware")] {
            if awareness == "unaware" && flow_control == "fast" {
                continue;
            }
            let kind = format!("detection = '{detection}', awareness = '{awareness}', flow_control = '{flow_control}'");
            let text = format!("{SNOOP}snoop = {{ {kind} }}");
            let mut bench = Bench::new(&text, LIMIT);
            bench.engine().set_mtu(Port::WIRELESS, 1500);
            bench.transfer();
            bench.strangers();
            let bytes = bench.bytes();

            let entries = read(&bytes).unwrap();
            let Entry::Start(NewEngine { text: recorded, seed: 7, .. }) = &entries[0] else {
                panic!("{:?}", entries[0])
            };
            assert_eq!(*recorded, text);
            let mut steps = steps(entries);
            let mtu = steps.remove(0);
            assert_eq!((mtu.frame, mtu.call), (1, Call::Mtu { port: Port::WIRELESS, mtu: 1500 }));
            let recorded: Vec<_> = steps.iter().map(|step| (step.call.clone(), step.decision.clone())).collect();
            assert_eq!(recorded, bench.calls, "{kind}");

            let again = replayed(&bytes);
            assert_eq!((again.engines, again.differences.count), (1, 0), "{kind}: {:?}", again.differences.first);
            assert_eq!(again.packets + again.timeouts, bench.calls.len() as u64);
            assert!(again.sent > 2 && again.timeouts > 1, "{kind}: {again:?}");
            assert_eq!(again.dropped > 0, awareness == "aware", "{kind}: {again:?}");
            // Blocks are hidden, windows reduced.
            let revises = awareness == "aware" && (detection == "smart" || flow_control == "fast");
            assert_eq!(again.replaced > 0, revises, "{kind}: {again:?}");
            // The simulator's element, with the same packets.
            let element = by_element(&bytes);
            assert_eq!(element, again, "{kind}: {:?}", element.differences.first);
        }
    }
}

#[test]
fn another_decision_is_found_at_its_frame() {
    let text = format!("{SNOOP}snoop = {{ dupack_threshold = 1, detection = 'duplicate-acks' }}");
    let mut bench = Bench::new(&text, LIMIT);
    bench.transfer();
    let mut bytes = bench.bytes();
    let at = bytes.windows(20).position(|text| text == b"dupack_threshold = 1").unwrap();
    bytes[at + 19] = b'4';
    for comparison in [replayed(&bytes), by_element(&bytes)] {
        assert!(comparison.differences.count > 0);
        let first = comparison.differences.first.unwrap();
        // The first duplicate: it was repaired, and no longer is.
        let steps = steps(read(&bytes).unwrap());
        let repair =
            steps.iter().find(|step| step.decision.judgement == Judgement::Drop && !step.decision.sent.is_empty());
        assert_eq!(first.frame, repair.unwrap().frame);
        assert!(first.recorded.starts_with("drop, send wireless seq 4001 len 1000"), "{first}");
        assert!(first.replayed.starts_with("replace by seq 1 len 0 ack 4001 window "), "{first}");
    }
}

#[test]
fn a_new_configuration_and_a_new_engine_are_part_of_it() {
    let mut bench = Bench::new(SNOOP, LIMIT);
    bench.transfer();
    let observe = SNOOP.replace("snoop", "observe");
    let (now, mut sent) = (bench.now, Vec::new());
    bench.engine().reconfigure(now, &Gateway::parse("g", &observe).unwrap(), &observe, &mut sent);
    bench.data(50);
    bench.engine = None;
    // A replacement worker starts at time zero.
    let path = bench.folder.path().join("recording");
    bench.engine =
        Some(RecordedEngine::new(&Gateway::parse("g", SNOOP).unwrap(), 7, Some(recorder(&path, LIMIT, SNOOP))));
    bench.now = Instant::ZERO;
    bench.transfer();
    let bytes = bench.bytes();
    let comparison = replayed(&bytes);
    assert_eq!((comparison.engines, comparison.differences.count), (2, 0), "{:?}", comparison.differences.first);
    let configured =
        steps(read(&bytes).unwrap()).into_iter().filter(|step| matches!(step.call, Call::Configure { .. }));
    assert_eq!(configured.map(|step| step.call).collect::<Vec<_>>(), [Call::Configure { text: observe }]);
    let error = replay_element(Recording::new("r.pcapng", Cursor::new(&bytes)).unwrap()).unwrap_err().to_string();
    assert!(error.contains(": the simulator's element cannot change its parameters"), "{error}");
}

#[test]
fn a_long_configuration_is_recorded_whole() {
    let text = format!("# {}\n{SNOOP}", "é€ ".repeat(15_000));
    let mut bench = Bench::new(&text, LIMIT);
    bench.open();
    let entries = read(&bench.bytes()).unwrap();
    assert!(matches!(&entries[0], Entry::Start(NewEngine { text: recorded, .. }) if *recorded == text));
}

#[test]
fn a_recording_ends_at_its_limit_and_the_engine_goes_on() {
    let mut whole = Bench::new(SNOOP, LIMIT);
    whole.transfer();
    let all = whole.bytes().len() as u64;
    for limit in [100, 1_000, all / 2, all - 1, all] {
        let mut bench = Bench::new(SNOOP, limit);
        bench.transfer();
        assert_eq!(bench.calls, whole.calls);
        let bytes = bench.bytes();
        assert!(bytes.len() as u64 <= limit && (limit < all) == ((bytes.len() as u64) < all));
        if bytes.is_empty() {
            assert_eq!(limit, 100, "not even a header fits");
            continue;
        }
        // The recorded part is valid.
        let comparison = replayed(&bytes);
        assert_eq!(comparison.differences.count, 0);
        assert!(limit - bytes.len() as u64 <= 8_000, "{limit}: {}", bytes.len());
    }
}

#[test]
fn what_is_no_recording_is_one_line() {
    let mut bench = Bench::new(SNOOP, LIMIT);
    bench.transfer();
    let bytes = bench.bytes();
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(error(b""), "r.pcapng: not a pcapng file");
    assert_eq!(error(&[b'x'; 5000]), "r.pcapng: not a pcapng file");
    let other = |from: &[u8], to: &[u8]| {
        let mut bytes = bytes.clone();
        let at = bytes.windows(from.len()).position(|text| text == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        error(&bytes)
    };
    assert_eq!(other(b"recording 2", b"recording 3"), "r.pcapng: not a recording of `lasthop gateway run --record`");
    assert_eq!(other(b"wireless", b"wirewire"), "r.pcapng: not a recording of `lasthop gateway run --record`");
    let message = other(b"mode = 'snoop'", b"mode = 'sneep'");
    assert!(message.starts_with("r.pcapng: configuration:3: rule[1].mode: cannot be \"sneep\""), "{message}");
    let message = other(b"dropped", b"drooped");
    assert!(message.contains(": unknown comment \"drooped\"; expected one of dropped, replaced,"), "{message}");
    let message = other(b"timeout", b"timeoff");
    assert!(message.contains("; expected timeout, mtu PORT BYTES, configure"), "{message}");
    // Truncated or damaged anywhere: a one-line error, or entries, but no panic.
    for at in (0..bytes.len()).step_by(37) {
        if let Err(error) = read(&bytes[..at]) {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        match Recording::new("r.pcapng", Cursor::new(&damaged)).and_then(replay) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{error}"),
        }
    }
}

/// Returns the packet with its payload zeroed: a recording has no payload, so it cannot show whether overlapping
/// segments hold the same bytes.
fn without_payload(mut packet: Vec<u8>) -> Vec<u8> {
    if let Some(view) = lasthop_wire::parse(&packet) {
        packet[view.header_len..view.total_len()].fill(0);
        lasthop_wire::seal(&mut packet, &view);
    }
    packet
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_packets_are_decided_on_as_they_were(sequence in proptest::collection::vec(properties::step(), 1..120)) {
        let text = "limits.flows = 8\n[[rule]]\nname = 'r'\nmode = 'snoop'\ninterface = 'wl0'\n";
        let mut bench = Bench::new(text, LIMIT);
        for step in sequence {
            match step {
                properties::Step::Packet(port, packet) => drop(bench.give(port, &without_payload(packet))),
                properties::Step::Wait(nanos) => bench.wait(nanos.min(60_000_000_000) / 1_000_000),
            }
        }
        let comparison = replayed(&bench.bytes());
        prop_assert_eq!(comparison.differences.count, 0, "{:?}", comparison.differences.first);
        prop_assert_eq!(comparison.packets + comparison.timeouts, bench.calls.len() as u64);
    }
}

#[test]
fn a_recording_goes_to_a_file_of_ones_own_and_nobody_else_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let create = |name: &str| RecordTo { path: path(name), limit: LIMIT, who: "the gateway" }.create();
    let mode = |name: &str| std::fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
    create("new").unwrap();
    assert_eq!(mode("new"), 0o600);
    std::fs::write(path("old"), "a recording").unwrap();
    std::fs::set_permissions(path("old"), std::fs::Permissions::from_mode(0o644)).unwrap();
    create("old").unwrap();
    assert_eq!((mode("old"), std::fs::read(path("old")).unwrap()), (0o600, Vec::new()));

    std::fs::write(path("precious"), "precious").unwrap();
    std::os::unix::fs::symlink(path("precious"), path("link")).unwrap();
    std::os::unix::fs::symlink(path("nothing"), path("dangling")).unwrap();
    std::fs::hard_link(path("precious"), path("second")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    for (name, words) in [
        ("link", "symbolic link; name the file itself"),
        ("dangling", "symbolic link; name the file itself"),
        ("second", "hard links"),
        ("fifo", "not a regular file"),
        ("socket", "not a regular file"),
        ("folder", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("none/file", "No such file or directory"),
    ] {
        let error = create(name).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{name}: {error}");
        let to = RecordTo { path: path(name), limit: LIMIT, who: "the gateway" };
        assert!(to.open().is_none(), "{name}");
    }
    assert_eq!(std::fs::read(path("precious")).unwrap(), b"precious");
    assert!(!path("nothing").exists());
    if rustix::process::geteuid().is_root() {
        std::fs::write(path("theirs"), "theirs").unwrap();
        std::os::unix::fs::chown(path("theirs"), Some(65534), None).unwrap();
        let error = create("theirs").unwrap_err().to_string();
        assert_eq!(error, "owned by user 65534, not by user 0");
        assert_eq!(std::fs::read(path("theirs")).unwrap(), b"theirs");
    }
}
