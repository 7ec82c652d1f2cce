//! Tests of queues in front of links: a size, or a table with their management.

use lasthop_proto::queue::{AckAwareConfig, CoDelConfig, FqCoDelConfig, QueueLimit, QueueSpec};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Duration;
use lasthop_scenario::Scenario;

fn text(queue: &str) -> String {
    format!(
        r#"
hosts = {{ a = {{}}, b = {{}} }}
flows.f = {{ from = "a", to = "b", size = "1 MiB" }}
[links.l]
between = ["a", "b"]
rate = "1 Mbps"
delay = "10 ms"
{queue}
"#
    )
}

#[track_caller]
fn queues(queue: &str) -> [QueueSpec; 2] {
    let scenario = Scenario::parse("test.toml", &text(queue)).unwrap();
    let network = scenario.network(scenario.scheme()).unwrap();
    // The text of `explain` has the same meaning.
    let again = Scenario::parse("explained.toml", &scenario.explain()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again, scenario);
    network.links[0].directions.each_ref().map(|direction| direction.queue)
}

#[track_caller]
fn error(queue: &str) -> String {
    Scenario::parse("test.toml", &text(queue)).expect_err("a mistake to be found").to_string()
}

#[test]
fn a_size_is_a_fifo() {
    let fifo = |limit| [QueueSpec::Fifo(limit); 2];
    assert_eq!(queues(""), fifo(QueueLimit::Packets(50)));
    assert_eq!(queues("queue = \"7 packets\""), fifo(QueueLimit::Packets(7)));
    assert_eq!(queues("queue = { kind = \"fifo\", limit = \"64 KiB\" }"), fifo(QueueLimit::Bytes(65_536)));
}

#[test]
fn managed_queues_have_the_values_of_linux() {
    let codel =
        CoDelConfig { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: Switch::Off };
    assert_eq!(queues("queue = { kind = \"codel\" }"), [QueueSpec::CoDel(QueueLimit::Packets(1000), codel); 2]);
    let fq = FqCoDelConfig {
        codel: CoDelConfig { ecn: Switch::On, ..codel },
        flows: 1024,
        quantum: 1514,
        limit: 10_240,
        memory_limit: 32 << 20,
        drop_batch: 64,
    };
    assert_eq!(queues("queue = { kind = \"fq-codel\" }"), [QueueSpec::FqCoDel(fq); 2]);
    let given = "queue = { kind = \"fq-codel\", limit = \"600 packets\", target = \"20 ms\", interval = \"200 ms\", ecn = false, \
                 flows = 8, quantum = 300, memory_limit = \"1 MiB\", drop_batch = 1 }\nqueue_up = \"9 packets\"";
    let codel =
        CoDelConfig { target: Duration::from_millis(20), interval: Duration::from_millis(200), ecn: Switch::Off };
    let fq = FqCoDelConfig { codel, flows: 8, quantum: 300, limit: 600, memory_limit: 1 << 20, drop_batch: 1 };
    assert_eq!(queues(given), [QueueSpec::FqCoDel(fq), QueueSpec::Fifo(QueueLimit::Packets(9))]);
    // A single direction.
    let [down, up] = queues("queue_up = { kind = \"codel\", limit = \"30 KiB\", ecn = true }");
    assert_eq!(down, QueueSpec::Fifo(QueueLimit::Packets(50)));
    assert!(matches!(up, QueueSpec::CoDel(QueueLimit::Bytes(30_720), CoDelConfig { ecn: Switch::On, .. })));
}

#[test]
fn a_queue_that_knows_acknowledgments() {
    let config = AckAwareConfig { limit: QueueLimit::Packets(50), filter: Switch::On, first: Switch::Off };
    assert_eq!(queues("queue = { kind = \"ack-aware\" }"), [QueueSpec::AckAware(config); 2]);
    let bytes = AckAwareConfig { limit: QueueLimit::Bytes(8192), filter: Switch::Off, first: Switch::On };
    let given = "queue_up = { kind = \"ack-aware\", limit = \"8 KiB\", filter = \"off\", first = \"on\" }";
    assert_eq!(queues(given), [QueueSpec::Fifo(QueueLimit::Packets(50)), QueueSpec::AckAware(bytes)]);
    assert_eq!(
        error("queue = { kind = \"ack-aware\", quantum = 300 }"),
        "test.toml:8: links.l.queue.quantum: kind = \"ack-aware\" does not take this key; it takes limit, filter, first"
    );
    assert!(error("queue = { kind = \"codel\", filter = \"on\" }").contains("links.l.queue.filter"));
    assert!(error("queue = { kind = \"ack-aware\", limit = \"1 kB\" }").contains("is smaller than a full packet"));
}

#[test]
fn mistakes_are_told() {
    assert_eq!(
        error("queue = { kind = \"fqcodel\" }"),
        "test.toml:8: links.l.queue.kind: cannot be \"fqcodel\" (did you mean \"fq-codel\"?); give one of \"fifo\", \"codel\", \
         \"fq-codel\", \"ack-aware\""
    );
    let missing = error("queue = { limit = \"5 packets\" }");
    assert!(missing.contains("links.l.queue.kind: missing"), "{missing}");
    assert_eq!(
        error("queue = { kind = \"codel\", quantum = 300 }"),
        "test.toml:8: links.l.queue.quantum: kind = \"codel\" does not take this key; it takes limit, target, interval, ecn"
    );
    assert!(error("queue = { kind = \"codel\", traget = \"5 ms\" }").contains("did you mean \"target\"?"));
    assert_eq!(
        error("queue = { kind = \"fq-codel\", limit = \"1 MiB\" }"),
        "test.toml:8: links.l.queue.limit: this kind's limit is in packets, e.g. \"1000 packets\"; memory_limit bounds the bytes"
    );
    assert!(
        error("queue = { kind = \"codel\", target = \"200 ms\" }").contains("target = \"200 ms\" is above interval")
    );
    assert!(error("queue = { kind = \"codel\", interval = \"61 s\" }").contains("at most 60 s"));
    assert!(error("queue_up = { kind = \"codel\", limit = \"1 kB\" }").contains("links.l.queue_up.limit"));
    assert!(
        error("queue = { kind = \"fq-codel\", memory_limit = \"1 kB\" }").contains("is smaller than a full packet")
    );
    assert!(error("queue = 5").contains("the unit is missing"));
}
