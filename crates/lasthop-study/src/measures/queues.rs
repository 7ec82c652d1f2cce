//! Remarks on queues that determine a result: a host that drops its own packets, and a default queue that overflowed.

use lasthop_proto::queue::{QueueLimit, QueueSpec};
use lasthop_scenario::Scenario;
use lasthop_sim::network::Network;

use super::find;
use super::links::LinkRow;

/// Results of the links under one scheme.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// Name of the scheme.
    pub scheme: &'a str,
    /// Rows of [`links`](super::links::links): both directions of each link, in the network's order.
    pub links: &'a [LinkRow],
}

/// Returns a remark for each direction of a link that needs one, in the network's order. `network` is that of any of
/// the schemes, which have the same links.
pub fn remarks(scenario: &Scenario, network: &Network, schemes: &[Measured<'_>]) -> Vec<String> {
    let directions = (0..network.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
    directions.filter_map(|(link, direction)| remark(scenario, network, schemes, (link, direction))).collect()
}

fn remark(
    scenario: &Scenario,
    network: &Network,
    schemes: &[Measured<'_>],
    (link, direction): (usize, usize),
) -> Option<String> {
    let dropped = |measured: &Measured<'_>| {
        let drops = find(&measured.links.get(2 * link + direction)?.measures, "queue_full_drops")?.mean;
        (drops > 0.0).then(|| format!("{} {drops:.1}", measured.scheme))
    };
    let dropped: Vec<String> = schemes.iter().filter_map(dropped).collect();
    if dropped.is_empty() {
        return None;
    }
    let first = schemes.first()?.links.get(2 * link + direction)?;
    let (spec, dropped) = (&network.links[link], dropped.join(", "));
    let key = format!("links.{}.queue", spec.name);
    let own_key = format!("{key}_up");
    // `queue` applies to both directions unless `queue_up` is given.
    let is_given = scenario.gives(&key) || direction == 1 && scenario.gives(&own_key);
    let key = if direction == 1 && scenario.gives(&own_key) { own_key } else { key };
    let queue = describe(&spec.directions[direction].queue);
    if first.from_host {
        let default = if is_given { "" } else { ", the default" };
        return Some(format!(
            "{}: host {} drops its own packets in front of this link (queue drops per run: {dropped}); its queue is {queue}{default}. A \
             modern host holds TCP data back instead (tcp.small_queues = \"on\"); otherwise give a larger {key}",
            spec.name, first.from
        ));
    }
    (!is_given).then(|| {
        format!(
            "{}: the default queue of {queue} from {} to {} overflowed (queue drops per run: {dropped}); give {key} as on your link",
            spec.name, first.from, first.to
        )
    })
}

fn describe(queue: &QueueSpec) -> String {
    let limit = |limit: &QueueLimit| match limit {
        QueueLimit::Packets(packets) => format!("{packets} packets"),
        QueueLimit::Bytes(bytes) => format!("{bytes} B"),
    };
    match queue {
        QueueSpec::Fifo(size) => limit(size),
        QueueSpec::CoDel(size, _) => format!("CoDel with {}", limit(size)),
        QueueSpec::FqCoDel(config) => format!("FQ-CoDel with {} packets", config.limit),
        QueueSpec::AckAware(config) => limit(&config.limit),
        QueueSpec::Pie(config) => format!("PIE with {}", limit(&config.limit)),
        QueueSpec::DualPi2(config) => format!("DualPI2 with {}", limit(&config.limit)),
        QueueSpec::Cake(config) => format!("CAKE with {} B", config.memory()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::links::links;
    use crate::replicate::{Silent, Task, run_all};

    const HOP: &str = r#"
limit = "20 s"
[tcp]
preset = "linux-6.18"
[hosts.server]
[hosts.client]
[routers.base]
[links.wire]
between = ["server", "base"]
rate = "50 Mbps"
delay = "5 ms"
[links.hop]
between = ["base", "client"]
rate = "10 Mbps"
delay = "20 ms"
[flows.download]
from = "server"
to = "client"
size = "4 MB"
"#;

    fn remarks_of(overrides: &[(&str, &str)]) -> Vec<String> {
        let scenario = Scenario::parse("hop.toml", HOP).unwrap().with_overrides(overrides).unwrap();
        let task = Task::new(&scenario, scenario.scheme(), 1, 1).unwrap();
        let reports = run_all(std::slice::from_ref(&task), 1, &Silent).unwrap().remove(0);
        let rows = links(&task.network, &reports);
        remarks(&scenario, &task.network, &[Measured { scheme: scenario.scheme().name, links: &rows }])
    }

    /// CUBIC fills a queue of 50 packets; a remark states that this size is the default.
    #[test]
    fn a_default_queue_that_overflows_is_remarked() {
        let [remark] = &remarks_of(&[])[..] else { panic!("one remark") };
        assert!(remark.starts_with("hop: the default queue of 50 packets from base to client overflowed"), "{remark}");
        assert!(remark.contains("E2E-CUBIC") && remark.contains("links.hop.queue"), "{remark}");
        assert_eq!(remarks_of(&[("links.hop.queue", "50 packets")]), [""; 0]);
    }

    /// Without small queues the initial window of ten segments overflows the host's own queue, whether given or
    /// default.
    #[test]
    fn a_host_that_drops_its_own_packets_is_remarked() {
        let hosts =
            [("tcp.small_queues", "off"), ("links.wire.queue", "6 packets"), ("links.hop.queue", "1000 packets")];
        let [remark] = &remarks_of(&hosts)[..] else { panic!("one remark") };
        assert!(remark.starts_with("wire: host server drops its own packets"), "{remark}");
        assert_eq!(remarks_of(&hosts[1..]), [""; 0]);
    }
}
