//! Answers of daemons as readings for the page: states as JSON, and the measurements that are kept.

use lasthop_gateway::daemon::control::{OfRule, Status as Gateway};
use lasthop_gateway::daemon::snapshot::RuleSnapshot;
use lasthop_serve::status::{Chart, Line, Measure, Reading, Source};
use lasthop_tunneld::daemon::control::Status as Tunnel;
use lasthop_tunneld::daemon::snapshot::PeerSnapshot;
use serde::Serialize;
use serde_json::json;

use super::{Kind, Place};
use crate::commands::{answers, gateway, tunnel};
use crate::error::Error;

impl Source for Place {
    fn kind(&self) -> &'static str {
        self.kind.name()
    }

    fn place(&self) -> String {
        self.control.display().to_string()
    }

    fn read(&self) -> Result<Reading, String> {
        let read = || {
            let answer = self.ask()?;
            Ok::<_, Error>(match self.kind {
                Kind::Gateway => of_gateway(answers::read(&answer)?),
                Kind::Tunnel => of_tunnel(&answers::read(&answer)?),
            })
        };
        read().map_err(|error| error.to_string())
    }
}

/// Creates a reading. The page gets the answer as this version of lasthop knows it: without keys that it does not have.
fn reading<T: Serialize>(
    answer: &lasthop_daemon::status::Status<T>,
    remarks: Vec<String>,
    lines: Vec<Line>,
) -> Reading {
    let worker = answer.worker;
    Reading {
        status: json!(answer),
        remarks,
        uptime_seconds: answer.uptime_seconds,
        counted_by: worker.restarts << 32 | u64::from(worker.pid.unwrap_or(0)),
        lines,
    }
}

fn line(group: &str, chart: Chart, name: impl Into<String>, measure: Measure) -> Line {
    Line { group: group.to_owned(), chart, name: name.into(), measure }
}

fn of_tunnel(answer: &Tunnel) -> Reading {
    let lines = answer.more.snapshot.peers.iter().flat_map(of_peer).collect();
    reading(answer, tunnel::words::remarks(answer), lines)
}

fn of_peer(peer: &PeerSnapshot) -> Vec<Line> {
    let group = &peer.name;
    let mut lines = vec![
        line(group, Chart::Throughput, "to it", Measure::Bytes(peer.traffic.sent.bytes)),
        line(group, Chart::Throughput, "from it", Measure::Bytes(peer.traffic.received.bytes)),
    ];
    for path in &peer.paths {
        let name = if path.name.is_empty() { group } else { &path.name };
        let loss = (peer.up && path.works()).then_some(path.loss);
        lines.extend([
            line(group, Chart::Paths, name, Measure::Bytes(path.frames.bytes)),
            line(group, Chart::RoundTrip, name, Measure::Value(path.rtt_seconds)),
            line(group, Chart::Loss, name, Measure::Value(loss)),
        ]);
    }
    lines
}

/// Group of the gateway's lines: its page has one part.
const ALL: &str = "";

fn of_gateway(mut answer: Gateway) -> Reading {
    for rule in &mut answer.more.rules {
        // A split rule has no figures of its own. Those of others repeat the rule's name, which reading leaves empty.
        rule.figures = rule.figures.take().filter(|_| rule.mode != "split");
        if let Some(figures) = &mut rule.figures {
            figures.name.clone_from(&rule.name);
        }
    }
    let packets = &answer.more.packets;
    let mut lines = vec![
        line(ALL, Chart::Throughput, "towards the hop", Measure::Bytes(packets.towards_wireless_bytes)),
        line(ALL, Chart::Throughput, "from the hop", Measure::Bytes(packets.from_wireless_bytes)),
    ];
    lines.extend(answer.more.rules.iter().flat_map(of_rule));
    if let Some(split) = &answer.more.split {
        let trip = Measure::Value(split.wireless.mean_rtt_seconds);
        lines.push(line(ALL, Chart::RoundTrip, "split connections, over the hop", trip));
        lines.push(line(ALL, Chart::Packets, "split connections: retransmitted", Measure::Events(split.repairs)));
    }
    reading(&answer, gateway::words::remarks(&answer), lines)
}

fn of_rule(OfRule { name, figures, .. }: &OfRule<RuleSnapshot>) -> Vec<Line> {
    let Some(figures) = figures else { return Vec::new() };
    let repairs = figures.repairs_duplicate + figures.repairs_hole + figures.repairs_timer;
    let trips = Measure::Samples { sum: figures.rtt_wireless.sum_seconds, count: figures.rtt_wireless.samples };
    vec![
        line(ALL, Chart::Packets, format!("{name}: lost on the hop"), Measure::Events(figures.wireless_losses)),
        line(ALL, Chart::Packets, format!("{name}: retransmitted"), Measure::Events(repairs)),
        line(ALL, Chart::RoundTrip, format!("{name}, over the hop"), trips),
    ]
}
