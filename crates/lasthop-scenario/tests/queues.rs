//! Tests of queues in front of links: a size, or a table with their management.

use lasthop_proto::queue::{
    AckAwareConfig, CakeConfig, CoDelConfig, DualPi2Config, FqCoDelConfig, Isolation, Overload, PieConfig, QueueLimit,
    QueueSpec, Tins,
};
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
fn pie_dualpi2_and_cake_have_the_values_of_linux() {
    let ms = Duration::from_millis;
    let pie = PieConfig {
        limit: QueueLimit::Packets(1000),
        target: ms(15),
        update: ms(15),
        alpha: 2,
        beta: 20,
        ecn: Switch::Off,
    };
    assert_eq!(queues("queue = { kind = \"pie\" }"), [QueueSpec::Pie(pie); 2]);
    let given = PieConfig { target: ms(5), update: ms(30), ecn: Switch::On, limit: QueueLimit::Bytes(65_536), ..pie };
    let text = "queue = { kind = \"pie\", target = \"5 ms\", update = \"30 ms\", ecn = \"on\", limit = \"64 KiB\" }";
    assert_eq!(queues(text), [QueueSpec::Pie(given); 2]);

    let dual = DualPi2Config {
        limit: QueueLimit::Packets(10_000),
        target: ms(15),
        update: ms(16),
        alpha: 41,
        beta: 819,
        coupling: 2,
        step: ms(1),
        step_queue: 0,
        classic_share: 10,
        overload: Overload::Drop,
    };
    assert_eq!(queues("queue = { kind = \"dualpi2\" }"), [QueueSpec::DualPi2(dual); 2]);
    let given = DualPi2Config {
        coupling: 3,
        step: ms(2),
        step_queue: 2,
        classic_share: 50,
        overload: Overload::Overflow,
        ..dual
    };
    let text = "queue = { kind = \"dualpi2\", coupling = 3, step = \"2 ms\", step_queue = 2, classic_share = 50, \
                overload = \"overflow\" }";
    assert_eq!(queues(text), [QueueSpec::DualPi2(given); 2]);

    let cake = CakeConfig { memory: Some(15_503_360), ..CakeConfig::default() };
    assert_eq!((cake.target, cake.interval, cake.tins), (ms(5), ms(100), Tins::Diffserv3));
    assert_eq!((cake.isolation, cake.ack_filter), (Isolation::Triple, Switch::Off));
    assert_eq!(queues("queue = { kind = \"cake\" }"), [QueueSpec::Cake(cake); 2]);
    let given = CakeConfig {
        rate: Some(950_000),
        memory: Some(4 << 20),
        tins: Tins::Diffserv4,
        isolation: Isolation::Sources,
        ack_filter: Switch::On,
        ..cake
    };
    let text = "queue = { kind = \"cake\", rate = \"950 kbps\", tins = \"diffserv4\", isolation = \"sources\", ack_filter = \"on\" }";
    assert_eq!(queues(text), [QueueSpec::Cake(given); 2]);
}

#[test]
fn mistakes_with_pie_dualpi2_and_cake_are_told() {
    assert_eq!(
        error("queue = { kind = \"pie\", interval = \"100 ms\" }"),
        "test.toml:8: links.l.queue.interval: kind = \"pie\" does not take this key; it takes limit, target, update, alpha, beta, \
         ecn"
    );
    assert!(error("queue = { kind = \"pie\", update = \"10 us\" }").contains("a time of 1 ms to 1 s"));
    assert!(error("queue = { kind = \"dualpi2\", ecn = \"on\" }").contains("does not take this key"));
    assert!(error("queue = { kind = \"dualpi2\", step = \"61 s\" }").contains("at most 60 s"));
    assert!(error("queue = { kind = \"dualpi2\", classic_share = 101 }").contains("from 0 to 100"));
    assert!(error("queue = { kind = \"dualpi2\", limit = \"1 kB\" }").contains("is smaller than a full packet"));
    assert!(error("queue = { kind = \"cake\", limit = \"100 packets\" }").contains("this kind's limit is in bytes"));
    assert!(error("queue = { kind = \"cake\", limit = \"1 kB\" }").contains("is smaller than a full packet"));
    assert_eq!(
        error("medium = \"half-duplex\"\nqueue = { kind = \"cake\", rate = \"500 kbps\" }"),
        "test.toml:9: links.l.queue.rate: a queue shapes on links with medium = \"duplex\" only; remove this key, or give the \
         link a shaper"
    );
}

#[test]
fn flows_have_a_dscp() {
    let with = |key: &str| text("").replace("size = \"1 MiB\"", &format!("size = \"1 MiB\"{key}"));
    let dscp = |key: &str| {
        let scenario = Scenario::parse("test.toml", &with(key)).unwrap();
        assert_eq!(Scenario::parse("explained.toml", &scenario.explain()).unwrap(), scenario);
        scenario.network(scenario.scheme()).unwrap().flows[0].dscp
    };
    assert_eq!((dscp(""), dscp(", dscp = 8")), (0, 8));
    let error = Scenario::parse("test.toml", &with(", dscp = 64")).unwrap_err().to_string();
    assert!(error.contains("flows.f.dscp") && error.contains("from 0 to 63"), "{error}");
}

#[test]
fn mistakes_are_told() {
    assert_eq!(
        error("queue = { kind = \"fqcodel\" }"),
        "test.toml:8: links.l.queue.kind: cannot be \"fqcodel\" (did you mean \"fq-codel\"?); give one of \"fifo\", \"codel\", \
         \"fq-codel\", \"ack-aware\", \"pie\", \"dualpi2\", \"cake\""
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

/// Two hosts with one and three flows to servers of their own, through a router with `queue` in front of 10 Mbps.
/// Returns each flow's delivered bytes in percent of all, and the report of the link.
fn shared(queue: &str, keys: [&str; 4]) -> (Vec<u64>, lasthop_sim::measure::PathReport) {
    let flows = keys.into_iter().enumerate().map(|(number, keys)| {
        let from = if number == 0 { "a" } else { "b" };
        format!("flows.f{number} = {{ from = \"{from}\", to = \"s{number}\", size = \"100 MiB\"{keys} }}\n")
    });
    let text = format!(
        r#"
limit = "20 s"
tcp.preset = "linux-6.18"
hosts = {{ a = {{}}, b = {{}}, s0 = {{}}, s1 = {{}}, s2 = {{}}, s3 = {{}} }}
routers = {{ near = {{}}, far = {{}} }}
{}
links.neck = {{ between = ["near", "far"], rate = "10 Mbps", delay = "10 ms", queue = {queue} }}
links.la = {{ between = ["a", "near"], rate = "1 Gbps", delay = "1 us" }}
links.lb = {{ between = ["b", "near"], rate = "1 Gbps", delay = "1 us" }}
links.l0 = {{ between = ["far", "s0"], rate = "1 Gbps", delay = "1 us" }}
links.l1 = {{ between = ["far", "s1"], rate = "1 Gbps", delay = "1 us" }}
links.l2 = {{ between = ["far", "s2"], rate = "1 Gbps", delay = "1 us" }}
links.l3 = {{ between = ["far", "s3"], rate = "1 Gbps", delay = "1 us" }}
"#,
        flows.collect::<String>()
    );
    let scenario = Scenario::parse("shared.toml", &text).unwrap();
    let network = scenario.network(scenario.scheme()).unwrap();
    let outcome = lasthop_sim::run(&network, 1, lasthop_sim::Recording::Off);
    let bytes: Vec<u64> = outcome.report.flows.iter().map(|flow| flow.received).collect();
    let all: u64 = bytes.iter().sum();
    (bytes.into_iter().map(|bytes| (100 * bytes + all / 2) / all).collect(), outcome.report.links[0][0])
}

/// CAKE knows the hosts of flows: host `a` gets half.
#[test]
fn cake_isolates_hosts() {
    let near = |shares: Vec<u64>, expected: [u64; 4]| {
        assert!(shares.iter().zip(expected).all(|(share, expected)| share.abs_diff(expected) <= 6), "{shares:?}");
    };
    near(shared("{ kind = \"cake\" }", [""; 4]).0, [50, 17, 17, 17]);
    near(shared("{ kind = \"cake\", isolation = \"flows\" }", [""; 4]).0, [25; 4]);
    // Bulk (CS1) has a sixteenth beside best effort.
    let keys = ["", ", dscp = 8", ", dscp = 8", ", dscp = 8"];
    near(shared("{ kind = \"cake\", tins = \"diffserv4\" }", keys).0, [94, 2, 2, 2]);
}

/// PIE and DualPI2 drop long before their limits of 1000 and 10,000 packets are reached, from all flows.
#[test]
fn pie_and_dualpi2_drop_early() {
    for kind in ["pie", "dualpi2"] {
        let (shares, report) = shared(&format!("{{ kind = \"{kind}\" }}"), [""; 4]);
        assert!(
            report.queue_drops > 50 && report.aqm_drops == report.queue_drops && report.marks == 0,
            "{kind}: {report:?}"
        );
        assert!(shares.iter().all(|share| *share > 8), "{kind}: {shares:?}");
    }
}
