//! Tests of calls: the meaning of their keys, and their limits.

use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;
use lasthop_sim::apps::{CallConfig, Codec};
use lasthop_sim::network::App;

const NETWORK: &str = r#"
[hosts.source]
[hosts.mobile]
[links.wireless]
between = ["source", "mobile"]
rate = "2 Mbps"
delay = "1 ms"
[flows.talk]
from = "source"
to = "mobile"
app = "call"
"#;

#[track_caller]
fn call(lines: &str) -> CallConfig {
    let scenario = Scenario::parse("test.toml", &format!("{NETWORK}{lines}")).unwrap_or_else(|error| panic!("{error}"));
    let network = scenario.network(scenario.scheme()).unwrap();
    let App::Call(config) = network.flows[0].app else { panic!("{:?}", network.flows[0].app) };
    config
}

#[track_caller]
fn error(lines: &str) -> String {
    Scenario::parse("test.toml", &format!("{NETWORK}{lines}")).expect_err("a mistake to be found").to_string()
}

const SPEECH: CallConfig = CallConfig {
    interval: Duration::from_millis(20),
    frame: 160,
    packet: 160,
    deadline: Duration::from_millis(150),
    codec: Some(Codec { ie: 0.0, bpl: 25.1 }),
};

#[test]
fn speech_is_that_of_its_codec() {
    assert_eq!(call(""), SPEECH);
    assert_eq!(call("codec = \"g711\"").codec, Some(Codec { ie: 0.0, bpl: 4.3 }));
    let codec = Some(Codec { ie: 15.0, bpl: 16.1 });
    let slow = CallConfig { interval: Duration::from_millis(30), frame: 24, packet: 24, codec, ..SPEECH };
    assert_eq!(call("codec = \"g723.1\""), slow);
    let codec = Some(Codec { ie: 2.5, bpl: 7.0 });
    let (interval, deadline) = (Duration::from_millis(40), Duration::from_millis(80));
    let own = "codec = \"g729a\"\ninterval = \"40 ms\"\npayload = 40\nie = 2.5\nbpl = 7\ndeadline = \"80 ms\"";
    assert_eq!(call(own), CallConfig { interval, frame: 40, packet: 40, deadline, codec });
}

#[test]
fn frames_take_several_packets() {
    let frames = call("frame_rate = 25\nframe = \"10 kB\"");
    let interval = Duration::from_millis(40);
    assert_eq!(frames, CallConfig { interval, frame: 10_000, packet: 1200, codec: None, ..SPEECH });
    assert_eq!(frames.packets(), 9);
    assert_eq!(call("frame_rate = 25\nframe = 10000\npacket = 1000").packets(), 10);
}

#[test]
fn mistakes_are_named() {
    for (lines, words) in [
        ("size = 1", &["flows.talk.size", "never ends"][..]),
        ("rate = \"1 Mbps\"", &["flows.talk.rate", "sends all the time"]),
        ("codec = \"g712\"", &["flows.talk.codec", "g711", "g729a"]),
        ("interval = \"0 ms\"", &["flows.talk.interval"]),
        ("interval = \"11 s\"", &["flows.talk.interval", "1 ms to 10 s"]),
        ("payload = 0", &["flows.talk.payload", "1 to 65495"]),
        ("payload = 65496", &["flows.talk.payload", "1 to 65495"]),
        ("ie = 96", &["flows.talk.ie", "0 to 95"]),
        ("bpl = 0", &["flows.talk.bpl", "1 to 1000"]),
        ("bpl = nan", &["flows.talk.bpl", "1 to 1000"]),
        ("deadline = \"0 s\"", &["flows.talk.deadline"]),
        ("frame = 100", &["flows.talk.frame_rate"]),
        ("frame_rate = 30", &["flows.talk.frame"]),
        ("frame_rate = 1001\nframe = 100", &["flows.talk.frame_rate", "1 to 1000"]),
        ("frame_rate = 30\nframe = \"2 MB\"", &["flows.talk.frame", "1 to 1048576"]),
        ("frame_rate = 30\nframe = 1000\npayload = 160", &["flows.talk.payload", "frame_rate", "remove one of them"]),
        ("frame_rate = 1000\nframe = \"1 MiB\"\npacket = 1", &["flows.talk.frame_rate", "at most 100000000"]),
    ] {
        let message = error(lines);
        assert!(words.iter().all(|word| message.contains(word)), "{lines}: {message}");
    }
    let other = NETWORK.replace("app = \"call\"", "size = 1\ndeadline = \"1 s\"");
    let message = Scenario::parse("test.toml", &other).expect_err("a mistake to be found").to_string();
    assert!(
        message.contains("flows.talk.deadline") && message.contains("only app = \"call\" supports it"),
        "{message}"
    );
}
