//! Tests that each error has one clear message: the place, the given value, and the correct form.

use lasthop_scenario::{Error, Scenario, Spot, builtin_names};

const NETWORK: &str = r#"
[hosts.source]
[hosts.mobile]
[routers.base]
[links.wired]
between = ["source", "base"]
rate = "10 Mbps"
delay = "5 ms"
[links.wireless]
between = ["base", "mobile"]
rate = "2 Mbps"
delay = "1 ms"
[flows.bulk]
from = "source"
to = "mobile"
size = "8 MiB"
"#;

#[track_caller]
fn error(text: &str) -> Error {
    Scenario::parse("test.toml", text).expect_err("a mistake to be found")
}

/// Replaces `old` in the sample network.
#[track_caller]
fn slip(old: &str, new: &str) -> String {
    assert!(NETWORK.contains(old), "{old}");
    error(&NETWORK.replacen(old, new, 1)).to_string()
}

/// Adds lines at the end of the sample network.
#[track_caller]
fn added(lines: &str) -> String {
    error(&format!("{NETWORK}{lines}")).to_string()
}

#[test]
fn the_sample_network_is_right() {
    Scenario::parse("test.toml", NETWORK).unwrap();
}

#[test]
fn a_wrong_unit() {
    assert_eq!(
        slip("2 Mbps", "2 Mbs"),
        "test.toml:11: links.wireless.rate: cannot be \"2 Mbs\" (there is no unit \"Mbs\"; did you mean \"Mbps\"?); \
         give a rate, e.g. \"1.5 Mbps\" (bps, kbps, Mbps, Gbps, Tbps)"
    );
}

#[test]
fn a_missing_unit() {
    assert_eq!(
        slip("\"1 ms\"", "1"),
        "test.toml:12: links.wireless.delay: cannot be 1 (the unit is missing); give a time, e.g. \"135 ms\" (ns, us, ms, s, min, h)"
    );
}

#[test]
fn missing_quotes() {
    assert_eq!(
        slip("\"2 Mbps\"", "2 Mbps"),
        "test.toml:11: not valid TOML: string values must be quoted, expected literal string: `rate = 2 Mbps`; \
         values with units are quoted: rate = \"2 Mbps\""
    );
}

#[test]
fn a_misspelt_key() {
    assert_eq!(
        slip("delay = \"1", "dealy = \"1"),
        "test.toml:12: links.wireless.dealy: unknown key; did you mean \"delay\"?"
    );
}

#[test]
fn a_key_that_is_like_no_other() {
    assert_eq!(slip("[routers.base]", "[routers.base]\ncolour = 3"), "test.toml:5: routers.base.colour: unknown key");
    assert!(
        added("start_time = 3").starts_with("test.toml:17: flows.bulk.start_time: unknown key; known here: from, to,")
    );
}

#[test]
fn a_missing_key_is_reported_at_its_table() {
    assert!(
        slip("rate = \"2 Mbps\"\n", "").starts_with("test.toml:9: links.wireless.rate: missing; give a rate, e.g.")
    );
}

#[test]
fn a_misspelt_name() {
    assert_eq!(
        slip("\"base\", \"mobile\"", "\"base\", \"moblie\""),
        "test.toml:10: links.wireless.between: there is no host or router \"moblie\"; did you mean \"mobile\"?"
    );
    assert_eq!(
        slip("to = \"mobile\"", "to = \"nobody-else\""),
        "test.toml:15: flows.bulk.to: there is no host \"nobody-else\"; expected one of: source, mobile"
    );
}

#[test]
fn a_misspelt_choice() {
    assert_eq!(
        added("[tcp]\npreset = \"bsdlite\""),
        "test.toml:18: tcp.preset: cannot be \"bsdlite\" (did you mean \"bsd-lite\"?); give one of \"bsd-lite\", \"ns2\", \"rfc\", \"linux-6.18\", \"linux-6.18-bbr\", \"rfc-2026\""
    );
}

#[test]
fn a_misspelt_scheme() {
    let text = format!("scheme = \"ll-tcp-aware\"{NETWORK}");
    assert!(error(&text).to_string().contains("did you mean \"LL-TCP-AWARE\"?"), "{}", error(&text));
}

#[test]
fn percent_without_its_sign() {
    assert_eq!(
        slip("delay = \"1 ms\"", "delay = \"1 ms\"\nerrors = { model = \"uniform\", frame_loss = 2.25 }"),
        "test.toml:13: links.wireless.errors.frame_loss: cannot be 2.25 (if it is in percent, write \"2.25 %\"); \
         give a probability from 0 to 1, e.g. 0.0225 or \"2.25 %\""
    );
}

#[test]
fn a_line_of_a_script() {
    let script = |lists: &str| {
        let text = slip("delay = \"1 ms\"", &format!("delay = \"1 ms\"\nerrors = {{ model = \"script\", {lists} }}"));
        text.trim_start_matches("test.toml:13: links.wireless.").to_owned()
    };
    for (lists, expected) in [
        (
            "lose = [{ byte = 1, ack = 1 }]",
            "errors.lose[1]: give byte = B (the segment with that byte of the stream, from 0), ack = N (the Nth acknowledgment) \
             or syn = N (the Nth SYN)",
        ),
        (
            "mark = [{ byte = -1 }]",
            "errors.mark[1].byte: cannot be -1; give a whole number from 0 to 18446744073709551615",
        ),
        ("lose = [{ ack = 0 }]", "errors.lose[1].ack: cannot be 0; give a whole number of at least 1"),
        (
            "lose = [{ syn = 1, transmission = 2 }]",
            "errors.lose[1].transmission: only data has transmissions; ack = 5 is the fifth acknowledgment that passes",
        ),
        ("late = [{ byte = 1 }]", "errors.late[1].by: missing; give a time, e.g. \"135 ms\" (ns, us, ms, s, min, h)"),
        (
            "late = [{ byte = 1, by = \"1 ms\", behind = \"waits\" }]",
            "errors.late[1].behind: cannot be \"waits\" (did you mean \"wait\"?); give \"overtake\" or \"wait\"",
        ),
        (
            "lose = [{ byte = 1, by = \"1 ms\" }]",
            "errors.lose[1].by: unknown key; known here: byte, transmission, ack, syn, flow",
        ),
        ("drop = [{ data = 1 }]", "errors.drop: model = \"script\" does not take this key; it takes lose, late, mark"),
        (
            "",
            "errors.lose: missing; give frames to lose, e.g. [{ byte = 14600, transmission = 2 }, { ack = 5 }]; or give `late` or \
             `mark`",
        ),
        ("late = 7", "errors.late: cannot be 7; give an array of tables, e.g. [{ byte = 14600, by = \"10 ms\" }]"),
    ] {
        assert_eq!(script(lists), expected);
    }
    assert!(script("lose = [{ byte = 1, flow = \"bluk\" }]").contains("did you mean"));
}

#[test]
fn a_key_of_another_error_model() {
    assert_eq!(
        slip(
            "delay = \"1 ms\"",
            "delay = \"1 ms\"\nerrors = { model = \"uniform\", frame_loss = 0.1, mean_bytes = 5 }"
        ),
        "test.toml:13: links.wireless.errors.mean_bytes: model = \"uniform\" does not take this key; it takes frame_loss, frames, unit"
    );
}

#[test]
fn networks_that_cannot_be() {
    assert_eq!(
        added("[links.loop]\nbetween = [\"base\", \"base\"]\nrate = \"1 bps\"\ndelay = \"0 s\""),
        "test.toml:18: links.loop.between: a link needs two different ends"
    );
    let beyond =
        "[hosts.island]\n[links.second]\nbetween = [\"mobile\", \"island\"]\nrate = \"1 bps\"\ndelay = \"0 s\"";
    assert_eq!(
        added(beyond),
        "test.toml:17: hosts.island: no chain of links connects it to \"source\"; hosts do not forward"
    );
    let cycle = "[routers.other]\n[links.x]\nbetween = [\"base\", \"other\"]\nrate = \"1 bps\"\ndelay = \"0 s\"\n\
                 [links.y]\nbetween = [\"other\", \"base\"]\nrate = \"1 bps\"\ndelay = \"0 s\"";
    assert_eq!(
        added(cycle),
        "test.toml:23: links.y.between: \"other\" and \"base\" are already connected by \"x\", which all packets would take; put \
         both links into a bundle"
    );
    assert_eq!(
        added("[hosts.island]"),
        "test.toml:17: hosts.island: no chain of links connects it to \"source\"; hosts do not forward"
    );
    assert_eq!(
        added("[routers.source]"),
        "test.toml:17: routers.source: \"source\" is also the name of a host; names of nodes must be unique"
    );
}

#[test]
fn flows_that_cannot_be() {
    assert!(slip("to = \"mobile\"", "to = \"base\"").contains("it is a router; flows begin and end at hosts"));
    assert!(slip("to = \"mobile\"", "to = \"source\"").contains("give a host other than from"));
    assert!(added("app = \"idle\"").starts_with("test.toml:16: flows.bulk.size: app = \"idle\" sends nothing"));
    assert!(slip("size = \"8 MiB\"", "app = \"idle\"\nclose = false").contains("app = \"idle\" stays open"));
    assert!(added("start = \"1000 s\"").contains("the run ends at limit = 1000 s"));
    assert!(added("count = 100001").contains("give a whole number from 1 to 100000"));
    assert!(slip("size = \"8 MiB\"", "size = 0").contains("cannot be 0"));
}

#[test]
fn values_that_do_not_go_together() {
    assert_eq!(
        added("[tcp]\nsocket_buffer = 1000"),
        "test.toml:18: tcp.socket_buffer: send_buffer = 1 kB is smaller than one segment (mss = 1460 B)"
    );
    assert_eq!(
        added("[tcp]\nrto_min = \"2 min\""),
        "test.toml:18: tcp.rto_min: rto_min = 120 s is above rto_max = 60 s"
    );
    assert!(added("[tcp]\nsack_blocks = 4").contains("timestamps leave space for 3 SACK blocks"));
    assert!(added("[tcp]\nslow_tick = \"500 ms\"").contains("requires clock = \"ticks\""));
    assert!(
        added("[hosts.mobile.tcp]\nmss = 9000\nsend_buffer = 8000")
            .starts_with("test.toml:19: hosts.mobile.tcp.send_buffer")
    );
    assert_eq!(
        slip("delay = \"1 ms\"", "delay = \"1 ms\"\nqueue = \"1 kB\""),
        "test.toml:13: links.wireless.queue: a queue of 1 kB is smaller than a full packet (1500 B)"
    );
    assert!(
        slip("delay = \"1 ms\"", "delay = \"1 ms\"\nframe_overhead = \"1 ms\"").contains("medium = \"half-duplex\"")
    );
}

#[test]
fn a_scheme_without_its_base_station() {
    let scenario = Scenario::parse("test.toml", NETWORK).unwrap();
    for (name, needs) in [("E2E", false), ("E2E-ELN", false), ("LL", true), ("SPLIT", true)] {
        let scheme = lasthop_proto::scheme::Scheme::by_name(name).unwrap();
        assert_eq!(scenario.network(scheme).is_err(), needs, "{name}");
    }
    let text = format!("scheme = \"LL\"{NETWORK}");
    assert_eq!(
        error(&text).to_string(),
        "test.toml: base_station: missing; give [base_station] with router and link, where LL runs"
    );
    let text = format!("scheme = \"E2E-ELN\"\neln_source = \"base-station\"{NETWORK}");
    assert!(error(&text).to_string().contains("base_station: missing"));
}

#[test]
fn ports_that_cannot_be() {
    let base = "[base_station]\nrouter = \"base\"\nlink = \"wireless\"\n";
    assert!(added("[base_station]\nrouter = \"source\"\nlink = \"wired\"").contains("it is a host"));
    assert!(added("[base_station]\nrouter = \"base\"\nlink = \"wire\"").contains("did you mean \"wired\"?"));
    let unknown = added(&format!("{base}[elements.x]\nkind = \"snop\"\nrouter = \"base\"\nlink = \"wireless\""));
    assert!(unknown.contains("did you mean \"snoop\"?"), "{unknown}");
    assert!(
        added(&format!("{base}[base_station.wired_tcp]\nsocket_buffer = 5000")).contains("give split_buffer instead")
    );
}

#[test]
fn loss_traces() {
    let directory = tempdir("loss_traces");
    let scenario = directory.join("scenario.toml");
    let with_trace = |content: Option<&str>| {
        let errors = "delay = \"1 ms\"\nerrors = { model = \"replay\", file = \"trace.txt\" }";
        std::fs::write(&scenario, NETWORK.replace("delay = \"1 ms\"", errors)).unwrap();
        if let Some(content) = content {
            std::fs::write(directory.join("trace.txt"), content).unwrap();
        }
        Scenario::load(&scenario).map_err(|error| error.to_string())
    };
    assert!(with_trace(None).unwrap_err().contains("give a readable loss trace"));
    assert!(with_trace(Some("0\n1\n2\n")).unwrap_err().contains("has '2' in line 3"));
    assert!(with_trace(Some("# only a remark")).unwrap_err().contains("has no frames"));
    with_trace(Some("0001\n1 # lost\n0, 1")).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
}

fn tempdir(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("lasthop-scenario-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn files_that_cannot_be_read() {
    let message = Scenario::load("nowhere/nothing.toml").unwrap_err().to_string();
    assert!(message.starts_with("nowhere/nothing.toml: cannot be read: "), "{message}");
    let directory = tempdir("unreadable");
    let path = directory.join("latin1.toml");
    std::fs::write(&path, b"title = \"ok\"\ndescription = \"caf\xe9\"\n").unwrap();
    let message = Scenario::load(&path).unwrap_err().to_string();
    assert!(message.ends_with("latin1.toml:2: not valid TOML: it is not UTF-8 text"), "{message}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn names_of_ready_made_scenarios() {
    assert_eq!(
        Scenario::open("wavlan-lan").unwrap_err().to_string(),
        "wavlan-lan: there is no ready-made scenario \"wavlan-lan\"; did you mean \"wavelan-lan\"?"
    );
    let message = Scenario::builtin("mine").unwrap_err().to_string();
    assert!(builtin_names().all(|name| message.contains(name)), "{message}");
}

#[test]
fn values_set_from_outside_are_named_too() {
    let scenario = Scenario::parse("test.toml", NETWORK).unwrap();
    let refused = |key: &str, value: &str| scenario.with_overrides(&[(key, value)]).unwrap_err();
    let error = refused("links.wireless.rate", "2 Mbs");
    assert_eq!((error.key(), error.spot()), (Some("links.wireless.rate"), Spot::Override));
    assert!(error.to_string().starts_with("test.toml (override): links.wireless.rate: cannot be \"2 Mbs\""));
    assert_eq!(
        refused("links.wirless.rate", "2 Mbps").to_string(),
        "test.toml (override): links.wirless.rate: there is no link \"wirless\"; did you mean \"wireless\"?"
    );
    assert!(refused("tpc.mss", "536").to_string().contains("unknown key; did you mean \"tcp\"?"));
    assert!(refused("flows.bulk.size.x", "1").to_string().contains("size is \"8 MiB\", not a table"));
    assert!(refused("", "1").to_string().contains("a key or a part of it is empty"));
}

#[test]
fn the_lab_is_checked_like_all_else() {
    assert_eq!(
        added("[lab]\ncongestion = \"re no\"\n"),
        "test.toml:18: lab.congestion: cannot be \"re no\"; give the name of a kernel's congestion control, e.g. \"reno\", \
         \"cubic\" or \"bbr\", or \"scheme\""
    );
    assert_eq!(added("[lab]\nsacks = \"on\"\n"), "test.toml:18: lab.sacks: unknown key; did you mean \"sack\"?");
    assert_eq!(
        added("[lab]\nsettings = \"linux\"\n"),
        "test.toml:18: lab.settings: cannot be \"linux\"; give \"scenario\" or \"kernel\""
    );
    assert_eq!(
        added("[lab]\nendpoints = \"ours\"\n"),
        "test.toml:18: lab.endpoints: cannot be \"ours\"; give one of \"auto\", \"kernel\", \"own\""
    );
    assert_eq!(
        added("[lab.hosts.moblie]\nendpoints = \"own\"\n"),
        "test.toml:17: lab.hosts.moblie: there is no host \"moblie\"; did you mean \"mobile\"?"
    );
    assert_eq!(
        added("[lab.hosts.mobile]\nendpoint = \"own\"\n"),
        "test.toml:18: lab.hosts.mobile.endpoint: unknown key; did you mean \"endpoints\"?"
    );
    assert!(added("[lab.hosts]\nmobile = \"own\"\n").contains("lab.hosts.mobile: cannot be \"own\"; give a table"));
}
