//! From a scenario and a scheme to the network that the simulator runs.

use std::sync::Arc;

use lasthop_proto::link::hybrid::{HopConfig, RateRule};
use lasthop_proto::packet::FlowId;
use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::pep::split::Handover;
use lasthop_proto::scheme::{BaseStation, Ends, LocalDetection, Scheme};
use lasthop_proto::tcp::config::{ControlRule, Recovery, Switch, TcpConfig};
use lasthop_sim::network::{
    App, DamagedFrames, DirectionSpec, Element, ElementSpec, FlowSpec, LinkId, LinkSpec, Network, NodeId, NodeKind,
    NodeSpec, SessionSpec,
};

use crate::flow_names::FlowNames;
use crate::flows::Flow;
use crate::nodes::{Direction, Host, Link};
use crate::sessions::Session;
use crate::spec::Spec;
use crate::stations::{ElementKind, Port, Relay};
use crate::tcp::TcpSpec;
use crate::values::ElnSource;

/// The scheme has a part at the base station, but the scenario has none.
pub(crate) struct NoBaseStation;

/// What the scheme leaves an endpoint to do, where the scenario does not say otherwise.
#[derive(Clone, Copy)]
struct Duty {
    recovery: Recovery,
    /// Whether someone on the way reads the SMART number, besides a peer with [`Recovery::Smart`].
    smart_acks: Switch,
}

impl Duty {
    const fn of(recovery: Recovery) -> Self {
        Self { recovery, smart_acks: Switch::Off }
    }

    fn apply(self, spec: &TcpSpec) -> TcpConfig {
        let recovery = spec.recovery.unwrap_or(self.recovery);
        let smart = recovery == Recovery::Smart || self.smart_acks.is_on();
        let smart_acks = spec.smart_acks.unwrap_or(if smart { Switch::On } else { Switch::Off });
        TcpConfig { recovery, smart_acks, ..spec.config.clone() }
    }
}

/// What sits on a port under the scheme.
struct Placed<'s> {
    port: &'s Port,
    element: Element,
}

/// The network under `scheme`.
pub(crate) fn network(spec: &Spec, scheme: &Scheme) -> Result<Network, NoBaseStation> {
    let mut duties = vec![Duty::of(scheme.recovery); spec.nodes.hosts.len()];
    let mut placed = Vec::new();
    match (scheme.base_station, &spec.base_station) {
        (BaseStation::Forward, _) => {}
        (_, None) => return Err(NoBaseStation),
        (BaseStation::Local { detection, awareness }, Some(station)) => {
            let config = SnoopConfig { detection, awareness, ..station.snoop.clone() };
            placed.push(snoop(&mut duties, &station.port, config));
        }
        (BaseStation::Split { wireless }, Some(station)) => {
            placed.push(split(&mut duties, &station.port, &station.relay, scheme, wireless));
        }
        (BaseStation::SelectiveRepeat, Some(station)) => {
            placed.push(Placed { port: &station.port, element: Element::Arq(station.arq.clone()) });
        }
        (BaseStation::TwoEnded(repair), Some(station)) => {
            placed.push(Placed { port: &station.port, element: Element::TwoEnded(station.two_ended.config(repair)) });
        }
        // It reads selective acknowledgments; no endpoint has to say more.
        (BaseStation::GatewaySnoop, Some(station)) => {
            placed.push(Placed { port: &station.port, element: Element::Snoop(station.gateway_snoop.clone()) });
        }
        (BaseStation::GatewaySplit { .. }, Some(station)) => {
            let [wired, wireless] = station.gateway_split.clone().map(Arc::new);
            let element = Element::Split { handover: Handover::Moved, wired, wireless };
            placed.push(Placed { port: &station.port, element });
        }
    }
    for element in &spec.elements {
        placed.push(match &element.kind {
            ElementKind::Snoop(config) => snoop(&mut duties, &element.port, config.clone()),
            ElementKind::ElnMarker => Placed { port: &element.port, element: Element::ElnMarker },
            ElementKind::Split(relay, wireless) => split(&mut duties, &element.port, relay, scheme, *wireless),
            ElementKind::Arq(config) => Placed { port: &element.port, element: Element::Arq(config.clone()) },
            ElementKind::TwoEnded(keys, repair) => {
                Placed { port: &element.port, element: Element::TwoEnded(keys.config(*repair)) }
            }
        });
    }
    let endpoint = |(host, duty): (&Host, Duty)| {
        let mut tcp = duty.apply(&host.tcp);
        if scheme.ends != Ends::Scenario && tcp.recovery != Recovery::Rack {
            // Other recoveries have windows of their own: schemes named after a congestion control are then the same run.
            tcp.congestion = ControlRule::Reno;
        }
        Arc::new(tcp)
    };
    let hosts: Vec<Arc<TcpConfig>> = spec.nodes.hosts.iter().zip(duties).map(endpoint).collect();

    let heeds_eln = hosts.iter().any(|host| heeds_eln(host)) || placed.iter().any(Placed::heeds_eln);
    if heeds_eln && spec.eln_source == ElnSource::BaseStation && scheme.base_station == BaseStation::Forward {
        let station = spec.base_station.as_ref().ok_or(NoBaseStation)?;
        placed.push(Placed { port: &station.port, element: Element::ElnMarker });
    }
    let damaged = match spec.eln_source {
        ElnSource::Receiver if heeds_eln => DamagedFrames::Deliver,
        ElnSource::Receiver | ElnSource::BaseStation => DamagedFrames::Drop,
    };
    let mut flows: Vec<FlowSpec> = spec.flows.iter().flat_map(|flow| copies(spec, flow, &hosts)).collect();
    let sessions = spec.sessions.iter().flat_map(|session| web_sessions(spec, session, &hosts, &mut flows)).collect();
    Ok(Network {
        nodes: nodes(spec),
        links: spec.links.iter().map(|link| link_spec(link, damaged)).collect(),
        elements: placed.into_iter().flat_map(|placed| placed.specs(spec)).collect(),
        flows,
        sessions,
        limit: spec.limit,
    })
}

/// Where a scenario fixes what the name of a scheme says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FixedAt {
    /// At the host of that index: the loss recovery.
    Recovery(usize),
    /// At the host of that index: the congestion control.
    Congestion(usize),
    /// At the relay, on the lossy link: the loss recovery.
    RelayRecovery,
    /// At the gateway's relay, on the lossy link: the congestion control.
    RelayCongestion,
}

/// Where the scenario gives a sender of data something else than the name of `scheme` says. Of `spec`, endpoints were read for that
/// scheme. Schemes named after what the base station does say nothing of the hosts.
pub(crate) fn fixed(spec: &Spec, scheme: &Scheme) -> Option<FixedAt> {
    let differs = |given: Option<Recovery>, said: Recovery| given.is_some_and(|given| given != said);
    let tcp = |host: usize| Some(&spec.nodes.hosts.get(host)?.tcp);
    match (scheme.base_station, scheme.ends) {
        (BaseStation::Forward | BaseStation::SelectiveRepeat, ends) => senders(spec).find_map(|host| {
            let tcp = tcp(host)?;
            if differs(tcp.recovery, scheme.recovery) {
                return Some(FixedAt::Recovery(host));
            }
            let Ends::Today(Some(said)) = ends else { return None };
            (!said.is(tcp.config.congestion)).then_some(FixedAt::Congestion(host))
        }),
        (BaseStation::Split { wireless }, _) if wireless != scheme.recovery => {
            let relay = &spec.base_station.as_ref()?.relay;
            differs(relay.wireless.recovery, wireless).then_some(FixedAt::RelayRecovery)
        }
        (BaseStation::GatewaySplit { wireless }, _) => {
            let [_, given] = &spec.base_station.as_ref()?.gateway_split;
            (!wireless.is(given.congestion)).then_some(FixedAt::RelayCongestion)
        }
        (
            BaseStation::Split { .. }
            | BaseStation::Local { .. }
            | BaseStation::GatewaySnoop
            | BaseStation::TwoEnded(_),
            _,
        ) => None,
    }
}

/// The hosts that send data: their indices, some more than once.
pub(crate) fn senders(spec: &Spec) -> impl Iterator<Item = usize> + '_ {
    let transfers = spec.flows.iter().filter(|flow| matches!(flow.app, App::Transfer { .. }));
    let sessions = spec.sessions.iter().flat_map(|session| [session.server, session.client]);
    transfers.map(|flow| flow.from).chain(sessions)
}

/// A cache on `port`; endpoints beyond one that finds losses by SMART numbers must send them.
fn snoop<'s>(duties: &mut [Duty], port: &'s Port, config: SnoopConfig) -> Placed<'s> {
    if config.detection == LocalDetection::Smart {
        port.beyond.iter().for_each(|host| duties[*host].smart_acks = Switch::On);
    }
    Placed { port, element: Element::Snoop(config) }
}

/// A relay on `port`; endpoints beyond it are the peers of its wireless endpoint.
fn split<'s>(duties: &mut [Duty], port: &'s Port, relay: &Relay, scheme: &Scheme, wireless: Recovery) -> Placed<'s> {
    port.beyond.iter().for_each(|host| duties[*host].recovery = wireless);
    let element = Element::Split {
        handover: Handover::Shared(relay.buffer),
        wired: Arc::new(Duty::of(scheme.recovery).apply(&relay.wired)),
        wireless: Arc::new(Duty::of(wireless).apply(&relay.wireless)),
    };
    Placed { port, element }
}

/// Whether the endpoint acts on ELN.
fn heeds_eln(config: &TcpConfig) -> bool {
    match config.recovery {
        Recovery::Eln | Recovery::ElnRxmt => true,
        Recovery::Sack => config.sack_eln.is_on(),
        Recovery::Reno | Recovery::NewReno | Recovery::Smart | Recovery::Rack => false,
    }
}

impl Placed<'_> {
    fn heeds_eln(&self) -> bool {
        match &self.element {
            Element::Split { wired, wireless, .. } => heeds_eln(wired) || heeds_eln(wireless),
            Element::Snoop(_) | Element::ElnMarker | Element::Arq(_) | Element::TwoEnded(_) => false,
        }
    }

    /// One, or for a link protocol one at each end of the link.
    fn specs(self, spec: &Spec) -> Vec<ElementSpec> {
        let Port { router, link, .. } = *self.port;
        let at = |node: usize, element: Element| ElementSpec { node: NodeId(node), link: LinkId(link), element };
        match self.element {
            Element::Arq(config) => {
                let other = spec.links[link].between.into_iter().find(|end| *end != router).unwrap_or(router);
                vec![at(router, Element::Arq(config.clone())), at(other, Element::Arq(config))]
            }
            Element::TwoEnded(config) => {
                let ends = spec.links[link].between;
                // Each end sends in its own direction: down from the first end, up from the second.
                let end = |(node, direction): (usize, &Direction)| {
                    let rate = match config.rate {
                        RateRule::Fixed(0) => RateRule::Fixed(direction.rate.0),
                        given => given,
                    };
                    at(node, Element::TwoEnded(HopConfig { rate, ..config.clone() }))
                };
                ends.into_iter().zip(&spec.links[link].directions).map(end).collect()
            }
            element => vec![at(router, element)],
        }
    }
}

fn nodes(spec: &Spec) -> Vec<NodeSpec> {
    let node = |(index, name): (usize, &str)| {
        let kind = if spec.nodes.is_host(index) { NodeKind::Host } else { NodeKind::Router };
        NodeSpec { name: name.to_owned(), kind }
    };
    spec.nodes.names().enumerate().map(node).collect()
}

fn link_spec(link: &Link, damaged: DamagedFrames) -> LinkSpec {
    let damaged = link.damaged.unwrap_or(damaged);
    let directions = link.directions.each_ref().map(|direction| DirectionSpec {
        rate: direction.rate,
        queue: direction.queue,
        errors: direction.errors.clone(),
        damaged,
    });
    LinkSpec {
        name: link.name.clone(),
        ends: link.between.map(NodeId),
        medium: link.medium,
        delay: link.delay,
        directions,
    }
}

fn copies<'s>(spec: &'s Spec, flow: &'s Flow, hosts: &'s [Arc<TcpConfig>]) -> impl Iterator<Item = FlowSpec> + 's {
    (0..flow.count).map(|copy| FlowSpec {
        name: FlowNames::copy_name(&flow.name, copy, flow.count),
        from: NodeId(flow.from),
        to: NodeId(flow.to),
        start: flow.start + flow.spacing * u64::from(copy),
        app: flow.app,
        tcp: match flow.app {
            // What QUIC reads of it is the same under every scheme.
            App::Quic(_) => [flow.from, flow.to].map(|end| Arc::new(spec.nodes.hosts[end].tcp.config.clone())),
            // Datagrams can end at a router, which has no keys of its own.
            _ => [flow.from, flow.to].map(|end| Arc::clone(hosts.get(end).unwrap_or(&hosts[flow.from]))),
        },
        iss: [flow.from, flow.to].map(|end| spec.nodes.hosts.get(end).map_or(0, |host| host.iss)),
    })
}

/// The copies of a session; their flows are added to `flows`.
fn web_sessions(
    spec: &Spec,
    session: &Session,
    hosts: &[Arc<TcpConfig>],
    flows: &mut Vec<FlowSpec>,
) -> Vec<SessionSpec> {
    let copy = |copy: u32| {
        let name = FlowNames::copy_name(&session.name, copy, session.count);
        let start = session.start + session.spacing * u64::from(copy);
        let mut add = |name: String, from: usize, to: usize| {
            flows.push(FlowSpec {
                name,
                from: NodeId(from),
                to: NodeId(to),
                start,
                app: App::Web,
                tcp: [Arc::clone(&hosts[from]), Arc::clone(&hosts[to])],
                iss: [spec.nodes.hosts[from].iss, spec.nodes.hosts[to].iss],
            });
            FlowId(flows.len() as u32 - 1)
        };
        let pairs = (1..=session.web.parallel).map(|pair| {
            let request = add(format!("{name}/request-{pair}"), session.client, session.server);
            let reply = add(format!("{name}/reply-{pair}"), session.server, session.client);
            [request, reply]
        });
        let pairs = pairs.collect();
        SessionSpec { name, start, web: session.web, syn_loss_memory: session.syn_loss_memory, pairs }
    };
    (0..session.count).map(copy).collect()
}
