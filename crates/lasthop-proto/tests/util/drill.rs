//! One connection against a scripted peer: scripts in the notation of packetdrill, so that the same script can run on a
//! kernel.
//!
//! The first line has the options of the peer's SYN, and the role and settings of the connection:
//! `server rtt 100 win 257 <mss 1000,sackOK,wscale 7>`. With `client` the connection opens actively, with `ecn` the
//! peer offers ECN and with `accecn` accurate ECN (with `option` its first acknowledgment has counters), with `unread` the application does not read. Each further line is a
//! time in milliseconds after the connection is established, and one of
//!
//! | line | meaning |
//! |---|---|
//! | `< SEGMENT` | the peer sends a segment |
//! | `> SEGMENT` | the connection sends a segment |
//! | `write N`, `more N`, `record N` | the application writes, with `MSG_MORE` or `MSG_EOR` |
//! | `read N`, `close`, `release`, `abort` | the application's call; it reads data as it arrives unless `unread` |
//! | `nodelay`, `cork`, `uncork`, `user_timeout N`, `keepalive N` | the application sets a socket option |
//! | `? name=value ...` | expected values of [`TcpInfo`](lasthop_proto::tcp::TcpInfo) |
//!
//! A segment is `FLAGS first:end(len) ack N win N <OPTIONS>`, where FLAGS are of `FSRPEWA.`, the window is the raw
//! field and given only by the peer, and options are `sack a:b c:d`, `TS val V ecr E` and `ECN e1b N ceb N e0b N`. `[ect0]`, `[ect1]` and `[ce]`
//! before the flags are the ECN field. Timestamps of the connection are milliseconds after the start, plus 10,001.

use std::fmt::Write as _;
use std::sync::Arc;

use lasthop_proto::node::{Node, Output, Port, pump};
use lasthop_proto::packet::{
    Body, Ecn, EcnCounters, Flags, FlowId, LinkHeaders, Packet, SackBlock, Segment, Side, Timestamps,
};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::{Preset, Switch, TcpConfig};
use lasthop_proto::tcp::{Connection, Keepalive, Setup, State, TickPhase};
use lasthop_proto::time::{Duration, Instant};

/// Time of the handshake's completion, a whole number of ticks.
const START: Duration = Duration::from_millis(10_000);
/// Initial sequence numbers: of the connection and of the peer.
const ISS: [Seq; 2] = [Seq(7_000_000), Seq(0xffff_f000)];

/// Linux 6.18 with segments of 1000 bytes, as a peer with `mss 1000` makes it.
pub fn linux() -> TcpConfig {
    TcpConfig::preset(Preset::Linux618)
}

/// Runs `script`, and compares its segments with those of a connection with `config`.
#[track_caller]
pub fn drill(config: TcpConfig, script: &str) {
    let script: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut drill = Drill::open(config, script[0]);
    let mut expected = Vec::new();
    for line in &script[1..] {
        let (at, rest) = line.split_once(' ').expect("a time and an event");
        let at: f64 = at.parse().expect("a time in milliseconds");
        let moment = Instant::ZERO + START + Duration::from_nanos((at * 1e6) as u64);
        let (what, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        if what == ">" {
            expected.push(format!("{at} > {rest}"));
            continue;
        }
        drill.run_until(moment);
        drill.perform(what, rest);
    }
    let last = expected.last().map_or(0.0, |line| line.split(' ').next().unwrap().parse().unwrap());
    let last = Instant::ZERO + START + Duration::from_nanos((last * 1e6) as u64);
    drill.run_until(last.max(drill.now));
    let sent = drill.sent.join("\n");
    let expected = expected.join("\n");
    assert!(sent == expected, "expected\n{expected}\n\nbut sent\n{sent}\n");
}

struct Drill {
    end: Connection,
    now: Instant,
    sent: Vec<String>,
    /// True if the application reads data as it arrives.
    reads: bool,
    window: u16,
}

impl Drill {
    fn open(config: TcpConfig, header: &str) -> Self {
        let word = |name: &str| header.split_whitespace().skip_while(|word| *word != name).nth(1);
        let number = |name: &str| word(name).map(|word| word.parse::<u64>().expect("a number"));
        let is_client = header.starts_with("client");
        let rtt = Duration::from_millis(number("rtt").unwrap_or(100));
        let side = if is_client { Side::Initiator } else { Side::Acceptor };
        let (flow, phase) = (FlowId(1), TickPhase::default());
        let setup = Setup { flow, side, config: Arc::new(config), iss: ISS[0], phase, watch: Switch::Off };
        let mut drill = Self {
            end: Connection::new(setup),
            now: Instant::ZERO,
            sent: Vec::new(),
            reads: !header.contains("unread"),
            window: number("win").unwrap_or(257) as u16,
        };
        drill.end.fit_path(drill.now, 1460);
        let began = Instant::ZERO + Duration::from_nanos(START.as_nanos() - rtt.as_nanos());
        let options = header.find('<').map_or("", |at| &header[at..]);
        let accurate = header.contains(" accecn ");
        let flags = match is_client {
            true if accurate => "SW.",
            true => "S.",
            false if accurate => "SEWA",
            false if header.contains(" ecn ") => "SEW",
            false => "S",
        };
        let syn = drill.segment(&format!("{flags} 0:0(0) ack 1 win 65535 {options}"));
        if is_client {
            drill.now = began;
            drill.end.connect();
            drill.drain();
            drill.run_until(Instant::ZERO + START);
            drill.deliver(syn);
        } else {
            drill.end.listen();
            drill.run_until(began);
            drill.deliver(syn);
            drill.run_until(Instant::ZERO + START);
            let echo = options.contains("TS val").then(|| {
                let val = syn.tcp().unwrap().options.timestamps.unwrap().val;
                format!("TS val {val} ecr {}", began.as_nanos() / 1_000_000 + 1)
            });
            let flags = if accurate { "[ect0] W." } else { "." };
            let counters = header.contains(" option ").then(|| "ECN e0b 1 ceb 0 e1b 1".to_owned());
            let options: Vec<_> = [echo, counters].into_iter().flatten().collect();
            let line = format!("{flags} 1:1(0) ack 1 win {} <{}>", drill.window, options.join(","));
            let ack = drill.segment(&line);
            drill.deliver(ack);
        }
        assert_eq!(drill.end.state(), State::Established);
        drill.sent.clear();
        drill
    }

    fn perform(&mut self, what: &str, rest: &str) {
        let count = || rest.parse().expect("a number of bytes");
        match what {
            "<" => {
                let packet = self.segment(rest);
                self.deliver(packet);
                return;
            }
            "write" => self.end.write(count()),
            "more" => self.end.write_more(count()),
            "record" => self.end.write_record(count()),
            "nodelay" => self.end.set_nodelay(Switch::On),
            "cork" => self.end.set_cork(Switch::On),
            "uncork" => self.end.set_cork(Switch::Off),
            "user_timeout" => self.end.set_user_timeout(Some(Duration::from_millis(count()))),
            "keepalive" => {
                let seconds = Duration::from_secs(count());
                let settings = Keepalive { idle: seconds, interval: seconds, probes: 2 };
                self.end.set_keepalive(self.now, Some(settings));
            }
            "release" => self.end.release(self.now),
            "read" => self.end.read(count()),
            "close" => self.end.close(),
            "abort" => self.end.abort(),
            "?" => self.check(rest),
            _ => panic!("unknown event `{what}`"),
        }
        self.drain();
    }

    #[track_caller]
    fn check(&self, rest: &str) {
        let info = self.end.info();
        for pair in rest.split_whitespace() {
            let (name, value) = pair.split_once('=').expect("name=value");
            let found = match name {
                "state" => format!("{:?}", info.state),
                "ca_state" => format!("{:?}", info.ca_state),
                "cwnd" => info.snd_cwnd.to_string(),
                "ssthresh" => info.snd_ssthresh.map_or("none".into(), |ssthresh| ssthresh.to_string()),
                "unacked" => info.flight.unacked.to_string(),
                "sacked" => info.flight.sacked.to_string(),
                "lost" => info.flight.lost.to_string(),
                "retrans" => info.flight.retrans.to_string(),
                "received" => info.receiver.bytes_received.to_string(),
                "delivered" => info.delivered.to_string(),
                "mss" => info.snd_mss.to_string(),
                "delivered_bytes" => format!("{:?}", info.accurate.delivered_bytes).replace(' ', ""),
                "received_bytes" => format!("{:?}", info.accurate.received_bytes).replace(' ', ""),
                "failures" => info.accurate.failures.to_string(),
                "snd_mss" => info.snd_mss.to_string(),
                "delivered_ce" => info.accurate.delivered_ce.to_string(),
                "received_ce" => info.accurate.received_ce.to_string(),
                _ => panic!("unknown value `{name}`"),
            };
            assert!(found == value, "{name}: expected {value}, found {found}");
        }
    }

    fn run_until(&mut self, until: Instant) {
        for _ in 0..10_000 {
            match self.end.poll_deadline().filter(|at| *at <= until) {
                Some(at) => {
                    self.now = self.now.max(at);
                    self.end.handle_timeout(self.now);
                    self.drain();
                }
                None => {
                    self.now = self.now.max(until);
                    return;
                }
            }
        }
        panic!("no end of timers");
    }

    fn deliver(&mut self, packet: Packet) {
        self.end.handle_packet(self.now, Port::ONLY, packet);
        self.drain();
    }

    fn drain(&mut self) {
        let mut out = Vec::new();
        if self.reads && self.end.readable() > 0 {
            self.end.read(self.end.readable());
        }
        pump(&mut self.end, self.now, |output| out.push(output));
        for output in out {
            if let Output::Transmit(_, _, packet) = output {
                let line = self.line(&packet);
                self.sent.push(line);
            }
        }
    }

    /// Parses a segment of the peer.
    fn segment(&self, text: &str) -> Packet {
        let mut packet = Packet { flow: FlowId(1), header_len: 40, link: LinkHeaders::NONE, ..Packet::default() };
        let mut segment = Segment { window: self.window, ..Segment::default() };
        let (head, options) =
            text.split_once('<').map_or((text, ""), |(head, rest)| (head, rest.trim_end_matches('>')));
        let mut words = head.split_whitespace().peekable();
        let number = |word: Option<&str>| word.expect("a number").parse::<u32>().expect("a number");
        while let Some(word) = words.next() {
            match word {
                "[ect0]" => packet.ecn = Ecn::Ect0,
                "[ect1]" => packet.ecn = Ecn::Ect1,
                "[ce]" => packet.ecn = Ecn::Ce,
                "ack" => segment.ack = ISS[0] + number(words.next()),
                "win" => segment.window = number(words.next()) as u16,
                range if range.contains(':') => {
                    let (first, rest) = range.split_once(':').unwrap();
                    let (_, len) = rest.split_once('(').expect("a length in parentheses");
                    segment.seq = relative(ISS[1], first);
                    packet.len = number(Some(len.trim_end_matches(')')));
                }
                letters => segment.flags = flags(letters),
            }
        }
        for option in options.split(',') {
            let words: Vec<&str> = option.split_whitespace().collect();
            match words.as_slice() {
                ["mss", mss] => segment.options.mss = mss.parse().ok(),
                ["sackOK"] => segment.options.sack_permitted = true,
                ["wscale", shift] => segment.options.window_scale = shift.parse().ok(),
                ["TS", "val", val, "ecr", ecr] => {
                    let (val, ecr) = (number(Some(*val)), number(Some(*ecr)));
                    segment.options.timestamps = Some(Timestamps { val, ecr });
                }
                ["sack", blocks @ ..] => blocks.iter().for_each(|block| {
                    let (left, right) = block.split_once(':').expect("left:right");
                    let (left, right) = (relative(ISS[0], left), relative(ISS[0], right));
                    segment.options.sack.push(SackBlock { left, right });
                }),
                ["ECN", counters @ ..] => segment.options.ecn_counters = ecn_counters(counters),
                ["nop"] | [] => {}
                other => panic!("unknown option {other:?}"),
            }
        }
        packet.from = self.end_side().peer();
        packet.body = Body::Tcp(segment);
        packet
    }

    fn end_side(&self) -> Side {
        Side::Acceptor
    }

    /// Formats a segment of the connection.
    fn line(&self, packet: &Packet) -> String {
        let segment = packet.tcp().expect("TCP");
        let at = self.now.as_nanos().saturating_sub(START.as_nanos()) as f64 / 1e6;
        let at = (at * 1000.0).round() / 1000.0;
        let mut text = format!("{at} > ");
        text += match packet.ecn {
            Ecn::NotEct => "",
            Ecn::Ect0 => "[ect0] ",
            Ecn::Ect1 => "[ect1] ",
            Ecn::Ce => "[ce] ",
        };
        for (letter, flag) in LETTERS {
            if segment.flags.has(flag) {
                text.push(letter);
            }
        }
        let seq = segment.seq.0.wrapping_sub(ISS[0].0);
        let _ = write!(text, " {seq}:{}({})", seq.wrapping_add(packet.len), packet.len);
        if segment.flags.has(Flags::ACK) {
            let _ = write!(text, " ack {}", segment.ack.0.wrapping_sub(ISS[1].0));
        }
        let mut options = Vec::new();
        if let Some(Timestamps { val, ecr }) = segment.options.timestamps {
            options.push(format!("TS val {val} ecr {ecr}"));
        }
        if let Some(counters) = segment.options.ecn_counters {
            let name = |ecn| COUNTERS.iter().find(|(_, known)| *known == ecn).map_or("", |(name, _)| name);
            let fields = counters.fields().map(|(ecn, value)| format!(" {} {value}", name(ecn)));
            options.push(format!("ECN{}", fields.collect::<String>()));
        }
        if !segment.options.sack.is_empty() {
            let from = |seq: Seq| seq.0.wrapping_sub(ISS[1].0);
            let blocks = segment.options.sack.as_slice().iter();
            let blocks: Vec<_> = blocks.map(|block| format!("{}:{}", from(block.left), from(block.right))).collect();
            options.push(format!("sack {}", blocks.join(" ")));
        }
        if !options.is_empty() {
            let _ = write!(text, " <{}>", options.join(","));
        }
        text
    }
}

/// Names of the counters of accurate ECN.
const COUNTERS: [(&str, Ecn); 3] = [("e1b", Ecn::Ect1), ("ceb", Ecn::Ce), ("e0b", Ecn::Ect0)];

/// Returns the option with these names and values, of the kind that its first name determines.
fn ecn_counters(words: &[&str]) -> Option<EcnCounters> {
    let values: Vec<u32> = words.chunks(2).map(|pair| pair[1].parse().expect("a number")).collect();
    let counters = EcnCounters::new(if words.first() == Some(&"e0b") { 172 } else { 174 }, &values);
    let names = |counters: EcnCounters| counters.fields().map(|(ecn, _)| ecn).collect::<Vec<_>>();
    let given = words.chunks(2).map(|pair| COUNTERS.iter().find(|(name, _)| *name == pair[0]).expect("a counter").1);
    assert_eq!(counters.map(names), Some(given.collect()), "order of the counters");
    counters
}

/// Letters of the flags, in packetdrill's order.
const LETTERS: [(char, Flags); 8] = [
    ('F', Flags::FIN),
    ('S', Flags::SYN),
    ('R', Flags::RST),
    ('P', Flags::PSH),
    ('E', Flags::ECE),
    ('W', Flags::CWR),
    ('A', Flags::AE),
    ('.', Flags::ACK),
];

fn flags(letters: &str) -> Flags {
    letters.chars().fold(Flags::default(), |flags, letter| {
        let flag = LETTERS.iter().find(|(known, _)| *known == letter);
        flags.with(flag.unwrap_or_else(|| panic!("unknown flag `{letter}`")).1)
    })
}

fn relative(origin: Seq, number: &str) -> Seq {
    let number: i64 = number.parse().expect("a sequence number");
    Seq(origin.0.wrapping_add(number as u32))
}
