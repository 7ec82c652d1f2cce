//! Flows over QUIC through the command: metrics, remarks, captures, and identical bytes every time.

use crate::common::Bench;

/// Bulk transfer and requests over one lossy hop.
const QUIC: &str = r#"
title = "QUIC over a lossy hop"
scheme = "E2E"
runs = 2

[hosts.source]
[hosts.mobile]
[routers.base]
[links.wired]
between = ["source", "base"]
rate = "10 Mbps"
delay = "5 ms"
[links.radio]
between = ["base", "mobile"]
rate = "2 Mbps"
delay = "10 ms"
errors = { model = "uniform", frame_loss = 0.03 }
[base_station]
router = "base"
link = "radio"
[flows.bulk]
from = "source"
to = "mobile"
app = "quic"
size = "200 kB"
[flows.pages]
from = "mobile"
to = "source"
app = "quic"
request = 300
response = "8 kB"
requests = 10
parallel = 2
"#;

fn bench() -> Bench {
    let bench = Bench::new();
    bench.put("quic.toml", QUIC);
    bench
}

#[test]
fn the_same_bytes_on_any_number_of_threads() {
    let bench = bench();
    for arguments in [
        "run quic.toml --runs 6 --json",
        "compare quic.toml --schemes E2E,LL-TCP-AWARE,SPLIT --runs 4",
        "sweep quic.toml --vary flows.bulk.congestion=cubic,new-reno --runs 3 --json",
    ] {
        let [one, two, again] = [1, 2, 1].map(|jobs| bench.stdout(&format!("{arguments} --jobs {jobs}")));
        assert_eq!(one, two, "{arguments}");
        assert_eq!(one, again, "{arguments}");
    }
    let [one, other] = [1, 2].map(|seed| bench.stdout(&format!("trace quic.toml --csv --seed {seed}")));
    assert_eq!(one, bench.stdout("trace quic.toml --csv --seed 1"));
    assert_ne!(one, other);
}

#[test]
fn what_was_resent_is_measured() {
    let bench = bench();
    let json = bench.json("run quic.toml --json");
    let mean = |name: &str| json["measures"][name]["mean"].as_f64().unwrap_or_else(|| panic!("{name}: {json}"));
    assert!(mean("throughput") > 0.1 && mean("segments_lost") > 1.0 && mean("source_retransmissions") > 1.0);
    assert!(mean("quic_resent_bytes") > 1000.0);
    assert_eq!((mean("incomplete"), mean("local_retransmissions")), (0.0, 0.0));
    // Without QUIC flows the metric is absent.
    assert!(bench.json("run tiny.toml --json")["measures"]["quic_resent_bytes"].is_null());
}

/// The remark says that a base station that reads TCP does not help.
#[test]
fn the_user_sees_that_no_base_station_helps() {
    let bench = bench();
    let json = bench.json("compare quic.toml --schemes E2E,LL-TCP-AWARE,SPLIT,Reno/SR --runs 2 --json");
    let measures = |row: usize| json["schemes"][row]["measures"].clone();
    assert_eq!(measures(0), measures(1));
    assert_eq!(measures(0), measures(2));
    assert_ne!(measures(0), measures(3));
    let text = bench.stdout("compare quic.toml --schemes E2E,LL-TCP-AWARE,SPLIT --runs 1");
    let remark = "bulk, pages: QUIC is encrypted; the base station of LL-TCP-AWARE, SPLIT cannot repair it";
    assert!(text.contains(remark), "{text}");
    assert!(
        bench.stdout("run quic.toml --runs 1 --scheme SPLIT").contains("the base station of SPLIT cannot repair it")
    );
    // The same applies to the gateway.
    let text = bench.stdout("compare quic.toml --schemes E2E-CUBIC,SNOOP,SPLIT-BBR --runs 1");
    assert!(text.contains("the base station of SNOOP, SPLIT-BBR cannot repair it"), "{text}");
    assert!(!bench.stdout("run quic.toml --runs 1 --scheme E2E").contains("QUIC, which"));
}

/// Ethernet, IPv4 and UDP headers have the right lengths; payloads are not in the file.
#[test]
fn captures_show_datagrams_of_udp() {
    let bench = bench();
    bench.stdout("trace quic.toml --pcapng quic.pcapng");
    let bytes = bench.bytes("quic.pcapng");
    let mut rest = &bytes[..];
    let mut full = 0;
    // Blocks of pcapng: type, length, content, and the length again.
    while let [kind, len, ..] = *rest.as_chunks::<4>().0 {
        let (block, behind) = rest.split_at(u32::from_le_bytes(len) as usize);
        rest = behind;
        // An enhanced packet block: its interface, two words of time, both lengths, then the bytes.
        if u32::from_le_bytes(kind) != 6 {
            continue;
        }
        let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
        let (captured, original) = (word(20), word(24));
        let data = &block[28..];
        let field = |at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
        assert_eq!((captured, data[23]), (42, 17));
        assert!(field(34) == 443 || field(36) == 443);
        // The lengths in IPv4, UDP and the frame agree.
        assert_eq!((u32::from(field(16)) + 14, field(38) + 20), (original, field(16)));
        // Packets of the preset `rfc` have 1460 bytes of payload behind 52 of headers.
        full += u32::from(field(16) == 1512);
    }
    assert!(full > 400, "{full}");
}

#[test]
fn traces_name_datagrams() {
    let bench = bench();
    let text = bench.stdout("trace quic.toml");
    assert!(text.contains("quic 0, length 1484, 0 bytes of streams"), "{}", &text[..2000]);
    assert!(text.contains("rtx sack-hole"));
    let csv = bench.stdout("trace quic.toml --csv");
    assert!(csv.lines().any(|line| line.contains(",handshake,")), "{}", &csv[..1000]);
}
