//! Tests of `lasthop diagnose` on captures with known causes: the simulator's, and those of kernels over the lab's
//! links.

#[cfg(target_os = "linux")]
use crate::network;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;

use crate::common::Bench;
use lasthop_wire::Transport;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::Value;

/// Transmission of data: ports, sequence number, and number of earlier transmissions.
type Sent = (u16, u16, u32, u32);

/// Returns the packets with data that left at an interface: number in the file, transmission, and reason of a drop.
fn sent(bench: &Bench, file: &str, interface: Option<&str>) -> Vec<(u64, Sent, Option<String>)> {
    let mut reader = PcapNgReader::new(File::open(bench.path().join(file)).unwrap()).unwrap();
    let (mut names, mut number) = (Vec::new(), 0);
    let (mut often, mut list) = (HashMap::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(block) => {
                let name = block.options.into_iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.into_owned()),
                    _ => None,
                });
                names.push(name);
            }
            Block::EnhancedPacket(block) => {
                number += 1;
                let here = interface.is_none_or(|wanted| names[block.interface_id as usize].as_deref() == Some(wanted));
                let outbound = block.options.contains(&EnhancedPacketOption::Flags(2));
                let head = lasthop_wire::parse_head(&block.data[14..], block.original_len - 14);
                let Some((route, Transport::Tcp { segment, payload_len: 1.., .. })) =
                    head.map(|head| (head.route, head.transport)).filter(|_| here && outbound)
                else {
                    continue;
                };
                let (source, destination, seq) = (route.source.port(), route.destination.port(), segment.seq.0);
                let times: &mut u32 = often.entry((source, destination, seq)).or_default();
                *times += 1;
                let fate = block.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Comment(text) => text.strip_prefix("dropped: ").map(str::to_owned),
                    _ => None,
                });
                list.push((number, (source, destination, seq, *times), fate));
            }
            _ => {}
        }
    }
    list
}

/// Confusion matrix: actual fate, and diagnosis.
#[derive(Default, Debug)]
struct Confusion(BTreeMap<(String, String), u32>);

impl Confusion {
    /// Adds the diagnosis of a capture with the packets `mine`; `truth` has their fate on the lossy link.
    fn add(&mut self, value: &Value, mine: &[(u64, Sent, Option<String>)], truth: &[(u64, Sent, Option<String>)]) {
        let numbers: HashMap<u64, Sent> = mine.iter().map(|(number, sent, _)| (*number, *sent)).collect();
        let mut said: HashMap<Sent, String> = HashMap::new();
        for flow in value["captures"][0]["flows"].as_array().unwrap() {
            for loss in flow["directions"][0]["losses"].as_array().unwrap() {
                let cause = if loss["needless"].is_null() { loss["cause"].as_str().unwrap() } else { "needless" };
                if let Some(sent) = numbers.get(&loss["packet"].as_u64().unwrap()) {
                    said.insert(*sent, cause.to_owned());
                }
            }
        }
        // Losses that were not repaired before the end cannot be seen.
        for (_, sent, fate) in truth {
            let said = said.remove(sent);
            let fate = fate.clone().unwrap_or_else(|| "none".to_owned());
            if let (Some(said), _) | (None, Some(said)) = (said, (fate != "none").then(|| "unseen".to_owned())) {
                *self.0.entry((fate, said)).or_default() += 1;
            }
        }
    }

    /// Returns the share of losses with this fate that were diagnosed as `said`, and the number of losses with this
    /// fate.
    fn share(&self, fate: &str, said: &str) -> (f64, u32) {
        let all: u32 = self.0.iter().filter(|((of, _), _)| of == fate).map(|(_, number)| number).sum();
        let right = self.0.get(&(fate.to_owned(), said.to_owned())).copied().unwrap_or(0);
        (f64::from(right) / f64::from(all.max(1)), all)
    }

    /// Checks that at least this share of each kind is diagnosed correctly, and that there are enough of them.
    fn check(&self, least: f64, enough: u32, of: &str) {
        for (fate, said) in [("channel", "corruption"), ("queue", "congestion")] {
            let (share, all) = self.share(fate, said);
            assert!(
                all >= enough && share >= least,
                "{of}: {share:.3} of {all} {fate} losses are called {said}: {self:?}"
            );
        }
    }
}

/// Link behind a base station.
struct Link {
    rate: &'static str,
    delay: &'static str,
    queue: u32,
    errors: &'static str,
    size: &'static str,
    /// Limit of a transfer over it, with the simulator's kernels.
    limit: &'static str,
}

fn scenario(link: &Link) -> String {
    let Link { rate, delay, queue, errors, size, .. } = link;
    format!(
        r#"title = "Link"
[hosts.server]
[hosts.phone]
[routers.tower]
[links.internet]
between = ["server", "tower"]
rate = "1 Gbps"
delay = "10 ms"
queue = "2000 packets"
[links.radio]
between = ["tower", "phone"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue} packets"
{errors}
[flows.download]
from = "server"
to = "phone"
size = "{size}"
[base_station]
router = "tower"
link = "radio"
"#
    )
}

const UNIFORM: &str = "errors_down = { model = \"uniform\", frame_loss = \"1 %\" }";
const RARE: &str = "errors_down = { model = \"uniform\", frame_loss = \"0.1 %\" }";

const LINKS: [Link; 6] = [
    Link { rate: "5 Mbps", delay: "20 ms", queue: 40, errors: "", size: "6 MB", limit: "bottleneck" },
    Link { rate: "20 Mbps", delay: "15 ms", queue: 80, errors: "", size: "20 MB", limit: "bottleneck" },
    Link { rate: "5 Mbps", delay: "20 ms", queue: 40, errors: RARE, size: "8 MB", limit: "bottleneck" },
    Link { rate: "10 Mbps", delay: "30 ms", queue: 100, errors: UNIFORM, size: "6 MB", limit: "after-corruption" },
    Link { rate: "50 Mbps", delay: "5 ms", queue: 30, errors: UNIFORM, size: "10 MB", limit: "after-corruption" },
    Link { rate: "2 Mbps", delay: "40 ms", queue: 15, errors: UNIFORM, size: "2 MB", limit: "after-corruption" },
];

#[test]
fn losses_in_the_simulator_have_their_causes_and_flows_their_limits() {
    let bench = Bench::new();
    let (mut gateway, mut sender) = (Confusion::default(), Confusion::default());
    let mut wrong = Vec::new();
    for (seed, link) in LINKS.iter().enumerate() {
        bench.put("link.toml", &scenario(link));
        let trace = |point: &str, file: &str| {
            bench.stdout(&format!(
                "trace link.toml --scheme E2E-CUBIC --seed {seed} --point {point} --pcapng {file} --to '20 s'"
            ));
            (sent(&bench, file, None), bench.json(&format!("diagnose {file} --json")))
        };
        let (truth, said) = trace("tower:radio", "gateway.pcapng");
        gateway.add(&said, &truth, &truth);
        let direction = &said["captures"][0]["flows"][0]["directions"][0];
        assert_eq!(direction["vantage"], "gateway");
        if direction["limit"] != link.limit {
            wrong.push(format!("{} {}: {}", link.rate, link.errors, direction["limits"]));
        }
        let (mine, said) = trace("server", "server.pcapng");
        assert_eq!(said["captures"][0]["flows"][0]["directions"][0]["vantage"], "sender");
        sender.add(&said, &mine, &truth);
    }
    gateway.check(0.95, 50, "gateway");
    sender.check(0.9, 50, "sender");
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Fades that last longer than the sender's window: a whole round trip is lost, and the link is idle before the sender
/// continues.
#[test]
fn fades_are_no_full_queue() {
    let bench = Bench::new();
    let fades =
        "errors_down = { model = \"two-state\", good = \"3 s\", bad = \"40 ms\", good_ber = 0, bad_ber = 0.01 }";
    let link = Link { rate: "7 Mbps", delay: "3 ms", queue: 160, errors: fades, size: "15 MB", limit: "" };
    bench.put("link.toml", &scenario(&link));
    let mut gateway = Confusion::default();
    for seed in 2..8 {
        bench.stdout(&format!(
            "trace link.toml --scheme E2E-CUBIC --seed {seed} --point tower:radio --pcapng hop.pcapng --to '20 s'"
        ));
        let truth = sent(&bench, "hop.pcapng", None);
        gateway.add(&bench.json("diagnose hop.pcapng --json"), &truth, &truth);
    }
    gateway.check(0.98, 15, "gateway");
}

/// Receive-window limits and senders without data are recognised.
#[test]
fn other_limits_are_found() {
    let bench = Bench::new();
    let link = Link { rate: "20 Mbps", delay: "20 ms", queue: 100, errors: "", size: "5 MB", limit: "" };
    let small = scenario(&link) + "[tcp]\nreceive_buffer = \"20 kB\"\n";
    bench.put("window.toml", &small);
    bench.stdout("trace window.toml --scheme E2E-NEWRENO --point tower:radio --pcapng window.pcapng --to '10 s'");
    let said = bench.json("diagnose window.pcapng --json");
    let direction = &said["captures"][0]["flows"][0]["directions"][0];
    assert_eq!(direction["limit"], "receive-window", "{direction}");
}

#[test]
fn a_capture_becomes_a_loss_trace_and_a_model() {
    let bench = Bench::new();
    bench.put("link.toml", &scenario(&LINKS[4]));
    bench.stdout("trace link.toml --scheme E2E-CUBIC --point tower:radio --pcapng link.pcapng --to '20 s'");
    let lost =
        sent(&bench, "link.pcapng", None).iter().filter(|(_, _, fate)| fate.as_deref() == Some("channel")).count();
    let summary = bench.stdout("diagnose link.pcapng --loss-trace losses.csv --annotate verdicts.pcapng");
    assert!(summary.contains("limited by the congestion window after corruption"), "{summary}");
    for arguments in ["fit losses.csv --json", "fit link.pcapng --json"] {
        let value = bench.json(arguments);
        // Frames of one size do not show whether losses affect frames or bytes: either family may be first.
        let fit = &value["down"]["fit"];
        let is_uniform = fit["fits"][0]["family"] == "uniform"
            || fit["alike"].as_array().unwrap().iter().any(|family| family == "uniform");
        assert!(is_uniform, "{value}");
        let found = value["down"]["fit"]["lost"].as_u64().unwrap() as usize;
        assert!(found.abs_diff(lost) * 10 <= lost, "{found} of {lost}");
    }
    // The annotated capture has all packets, yields the same diagnosis, and has its verdicts as comments.
    let [first, again] = ["link", "verdicts"]
        .map(|name| bench.json(&format!("diagnose {name}.pcapng --json"))["captures"][0]["flows"].clone());
    assert_eq!(first, again);
    let bytes = bench.bytes("verdicts.pcapng");
    let text = String::from_utf8_lossy(&bytes);
    assert!(
        text.contains("lasthop: flow 1: lost: corruption (queue ")
            && text.contains("lasthop: flow 1: retransmission of packet ")
    );
    let detail = bench.stdout("diagnose link.pcapng --flow 1");
    assert!(detail.contains("corruption") && detail.lines().count() > 20, "{detail}");
}

/// A gateway's capture has a download and an upload of the same client: each direction is fitted to its own losses.
#[test]
fn a_gateways_capture_is_fitted_both_ways() {
    let bench = Bench::new();
    let errors = "rate_up = \"4 Mbps\"\nqueue_up = \"30 packets\"\n\
        errors_down = { model = \"uniform\", frame_loss = \"2 %\" }\nerrors_up = { model = \"uniform\", frame_loss = \"0.5 %\" }";
    let link = Link { rate: "8 Mbps", delay: "12 ms", queue: 50, errors, size: "6 MB", limit: "" };
    let upload = "[flows.upload]\nfrom = \"phone\"\nto = \"server\"\nsize = \"4 MB\"\nstart = \"30 s\"\n";
    bench.put("link.toml", &(scenario(&link) + upload));
    bench.stdout("trace link.toml --scheme E2E-BBR --point tower:radio --pcapng hop.pcapng --to '60 s'");
    bench.stdout("fit hop.pcapng --out fitted.toml");
    let fitted = bench.text("fitted.toml");
    // Returns the first number after a key, in the part of the file after `mark`.
    let number = |mark: &str, key: &str| -> f64 {
        let part = fitted.split(mark).nth(1).unwrap_or_else(|| panic!("no {mark}: {fitted}"));
        let value = part.split(&format!("\n{key} = ")).nth(1).unwrap_or_else(|| panic!("no {key}: {part}"));
        let value = value.trim_start_matches('"');
        value[..value.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap()].parse().unwrap()
    };
    for (key, expected) in [("rate", 8000.0), ("rate_up", 4000.0), ("delay", 12.0)] {
        let found = number("[links.hop]", key);
        assert!((found / expected - 1.0).abs() < 0.03, "{key}: {found}, not {expected}");
    }
    assert!((0.015..0.025).contains(&number("[links.hop.errors_down]", "frame_loss")), "{fitted}");
    assert!((0.002..0.009).contains(&number("[links.hop.errors_up]", "frame_loss")), "{fitted}");
    // The remark on uploads appears for an upload alone only.
    bench.put(
        "upload.toml",
        &(scenario(&link).replace("[flows.download]\nfrom = \"server\"\nto = \"phone\"\nsize = \"6 MB\"\n", "")
            + upload),
    );
    bench.stdout("trace upload.toml --scheme E2E-BBR --point tower:radio --pcapng upload.pcapng --to '60 s'");
    let said = bench.stdout("fit upload.pcapng");
    assert!(said.contains("an upload"), "{said}");
}

/// Cuts a capture into files at packet boundaries, each with its own header, like programs that rotate files.
fn rotate(capture: &[u8], files: usize) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut rest = capture;
    while let Some(len) = rest.get(4..8) {
        let len = u32::from_le_bytes(len.try_into().unwrap()) as usize;
        blocks.push(&rest[..len]);
        rest = &rest[len..];
    }
    let is_packet = |block: &&[u8]| block[..4] == [6, 0, 0, 0];
    let (packets, header): (Vec<&[u8]>, Vec<&[u8]>) = blocks.into_iter().partition(is_packet);
    let cut = |part: &[&[u8]]| [header.concat(), part.concat()].concat();
    packets.chunks(packets.len().div_ceil(files)).map(cut).collect()
}

/// Files in any order form one capture in order of time, with the verdicts of the whole; standard input and compressed
/// files do as well.
#[test]
fn rotated_files_and_standard_input_say_what_the_whole_does() {
    let bench = Bench::new();
    bench.put("link.toml", &scenario(&LINKS[4]));
    bench.stdout("trace link.toml --scheme E2E-CUBIC --point tower:radio --pcapng whole.pcapng --to '10 s'");
    let whole = bench.json("diagnose whole.pcapng --json")["captures"][0].clone();
    for (number, bytes) in rotate(&bench.bytes("whole.pcapng"), 3).into_iter().enumerate() {
        std::fs::write(bench.path().join(format!("part_{number}.pcapng")), bytes).unwrap();
    }
    let files = "part_2.pcapng part_0.pcapng part_1.pcapng";
    let captures = bench.json(&format!("diagnose {files} --json"))["captures"].clone();
    assert_eq!(captures.as_array().map(Vec::len), Some(1));
    assert_eq!((&captures[0]["flows"], &captures[0]["packets"]), (&whole["flows"], &whole["packets"]));
    assert_eq!(captures[0]["files"], serde_json::json!(["part_0.pcapng", "part_1.pcapng", "part_2.pcapng"]));
    let alone = bench.json(&format!("diagnose {files} --separately --json"));
    assert_eq!(alone["captures"].as_array().map(Vec::len), Some(3));
    let said = bench.stdout(&format!("diagnose {files} --annotate all.pcapng --loss-trace all.csv"));
    assert!(said.contains("part_0.pcapng to part_2.pcapng (3 files, one capture)"), "{said}");
    assert_eq!(bench.json("diagnose all.pcapng --json")["captures"][0]["flows"], whole["flows"]);
    bench.stdout("diagnose whole.pcapng --loss-trace whole.csv");
    assert_eq!(bench.text("all.csv"), bench.text("whole.csv"));
    // A truncated file ends there, and the next one continues.
    let bytes = bench.bytes("part_0.pcapng");
    std::fs::write(bench.path().join("part_0.pcapng"), &bytes[..bytes.len() - 30]).unwrap();
    let cut = bench.json(&format!("diagnose {files} --json"))["captures"][0].clone();
    assert_eq!(cut["packets"].as_u64(), whole["packets"].as_u64().map(|packets| packets - 1));
    assert!(cut["damage"].as_str().is_some_and(|damage| damage.contains("truncated in a packet")), "{}", cut["damage"]);
    // Standard input.
    let output = bench.command("diagnose - --json").write_stdin(bench.bytes("whole.pcapng")).output().unwrap();
    let piped: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(piped["captures"][0]["flows"], whole["flows"]);
    for (arguments, expected) in [
        ("diagnose - --annotate new.pcapng", "--annotate reads the capture twice"),
        ("diagnose - whole.pcapng", "(2 given); give it alone"),
        ("diagnose --between - whole.pcapng", "(2 given); give it alone"),
    ] {
        let output = bench.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(expected), "{arguments}: {message}");
    }
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let bench = Bench::new();
    bench.put("text.pcap", "hello\n");
    bench.put("there.csv", "mine\n");
    bench.stdout("trace tiny.toml --pcapng all.pcapng");
    bench.stdout("trace tiny.toml --point tower:radio --pcapng one.pcapng");
    let upload = "--set flows.download.from=phone --set flows.download.to=server";
    bench.stdout(&format!("trace tiny.toml --point tower:radio --pcapng other.pcapng {upload}"));
    // Capture without packets: magic, version, time zone, accuracy, length, link type.
    let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1].map(u32::to_le_bytes).concat();
    std::fs::write(bench.path().join("head.pcap"), head).unwrap();
    for (arguments, expected) in [
        ("diagnose none.pcap", "none.pcap"),
        ("diagnose text.pcap", "text.pcap: not a capture: expected a pcap or pcapng file"),
        ("diagnose one.pcapng --flow 7", "--flow 7: no such flow; the capture has one flow"),
        ("diagnose one.pcapng --loss-trace there.csv", "--loss-trace there.csv: file exists"),
        ("diagnose one.pcapng --annotate one.pcapng --force", "--annotate one.pcapng: is the capture itself"),
        ("diagnose one.pcapng all.pcapng --annotate new.pcapng", "--annotate requires exactly one capture, not 2"),
        ("diagnose all.pcapng --interface nowhere", "error: all.pcapng: contains no packet of interface nowhere"),
        (
            "diagnose --between one.pcapng other.pcapng",
            "error: one.pcapng: contains no TCP data segment that is also in other.pcapng",
        ),
        ("diagnose head.pcap", "error: head.pcap: contains no packets"),
        ("fit head.pcap", "error: head.pcap: contains no packets"),
    ] {
        let output = bench.run(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && message.contains(expected), "{arguments}: {message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    }
    assert_eq!(bench.text("there.csv"), "mine\n");
    // Each capture point of a run is a capture of its own in the file.
    let value = bench.json("diagnose all.pcapng --interface tower:radio --json");
    assert_eq!(value["captures"][0]["flows"].as_array().map(Vec::len), Some(1));
    // A truncated file is read as far as it goes.
    let bytes = bench.bytes("one.pcapng");
    std::fs::write(bench.path().join("cut.pcapng"), &bytes[..bytes.len() / 2 + 1]).unwrap();
    let said = bench.stdout("diagnose cut.pcapng");
    assert!(said.contains("capture truncated in a packet after packet ") && said.contains("flow 1"), "{said}");
}

/// TCP of kernels over emulated links; the emulator's log has the actual fates. A busy machine delays links, so the
/// best of a few runs counts.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs root: make root"]
fn losses_of_kernels_have_their_causes() {
    if network::without_root("`lasthop diagnose` on the lab's captures") {
        return;
    }
    let bench = Bench::new();
    let links = [
        Link { rate: "10 Mbps", delay: "10 ms", queue: 30, errors: "", size: "5 MB", limit: "bottleneck" },
        Link { rate: "10 Mbps", delay: "5 ms", queue: 60, errors: UNIFORM, size: "4 MB", limit: "after-corruption" },
        Link { rate: "5 Mbps", delay: "10 ms", queue: 20, errors: RARE, size: "3 MB", limit: "bottleneck" },
    ];
    const ATTEMPTS: u32 = 3;
    for attempt in 1..=ATTEMPTS {
        let (mut gateway, mut sender) = (Confusion::default(), Confusion::default());
        for (seed, link) in links.iter().enumerate() {
            bench.put("link.toml", &scenario(link));
            let lab = "lab link.toml --schemes E2E-CUBIC --runs 1 --set lab.lateness=500ms --pcapng captures";
            bench.stdout(&format!("{lab} --seed {}", seed as u32 * 10 + attempt));
            let file = "captures/E2E-CUBIC-0.pcapng";
            let truth = sent(&bench, file, Some("tower:radio"));
            let said = |point: &str| bench.json(&format!("diagnose {file} --interface {point} --json"));
            gateway.add(&said("tower:radio"), &truth, &truth);
            sender.add(&said("server"), &sent(&bench, file, Some("server")), &truth);
        }
        let right = |confusion: &Confusion, least: f64| {
            [("channel", "corruption"), ("queue", "congestion")]
                .iter()
                .all(|(fate, said)| confusion.share(fate, said).0 >= least)
        };
        if attempt == ATTEMPTS || right(&gateway, 0.95) && right(&sender, 0.9) {
            gateway.check(0.95, 15, "gateway");
            sender.check(0.9, 15, "sender");
            return;
        }
    }
}

/// Matching the packets of two capture points finds all packets that the emulator dropped between them, and no others.
#[test]
fn two_captures_locate_every_loss() {
    let bench = Bench::new();
    let burst = "errors_down = { model = \"two-state-packet\", good_to_bad = 0.01, bad_to_good = 0.3 }";
    let overflowing = ("", "8 Mbps", 20);
    for (number, (errors, rate, queue)) in [(burst, "10 Mbps", 60), overflowing].into_iter().enumerate() {
        let link = Link { rate, delay: "15 ms", queue, errors, size: "3 MB", limit: "" };
        let name = format!("link{number}");
        bench.put(&format!("{name}.toml"), &scenario(&link));
        for (place, point) in [("near", "tower:radio"), ("far", "phone")] {
            bench.stdout(&format!(
                "trace {name}.toml --scheme E2E-CUBIC --pcapng {name}-{place}.pcapng --point {point}"
            ));
        }
        let truth: HashMap<u64, String> = sent(&bench, &format!("{name}-near.pcapng"), None)
            .into_iter()
            .filter_map(|(number, _, fate)| Some((number, fate?)))
            .collect();
        assert!(truth.len() > 5, "{name}: {truth:?}");
        for order in ["near far", "far near"] {
            let files: Vec<String> = order.split(' ').map(|place| format!("{name}-{place}.pcapng")).collect();
            let found = bench.json(&format!("diagnose --between --json {}", files.join(" ")));
            let flow = &found["between"]["flows"][0];
            assert_eq!(flow["near"], if order == "near far" { 1 } else { 2 });
            let losses = flow["losses"].as_array().unwrap();
            let mut missed: Vec<u64> = truth.keys().copied().collect();
            let mut right = 0;
            for loss in losses {
                let packet = loss["packet"].as_u64().unwrap();
                let fate = truth.get(&packet).unwrap_or_else(|| panic!("{name}: {packet} was not lost: {loss}"));
                missed.retain(|number| *number != packet);
                right += u32::from(loss["cause"] == if fate == "queue" { "congestion" } else { "corruption" });
            }
            assert!(missed.is_empty(), "{name}: not found: {missed:?}");
            assert!(f64::from(right) >= 0.95 * truth.len() as f64, "{name}: {right} of {}", truth.len());
        }
    }
    let said = bench.stdout("diagnose --between link0-near.pcapng link0-far.pcapng");
    assert!(said.contains("from link0-near.pcapng to link0-far.pcapng") && said.contains(" lost: "), "{said}");
    for (arguments, expected) in [
        ("diagnose --between link0-near.pcapng", "--between requires two captures, not 1"),
        ("diagnose --between link0-near.pcapng tiny.toml", "tiny.toml: not a capture"),
    ] {
        let output = bench.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(expected), "{error}");
    }
}
