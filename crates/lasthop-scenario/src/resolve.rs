//! Conversion of a scenario and a scheme to the network that the simulator runs.

use std::sync::Arc;

use lasthop_proto::packet::FlowId;
use lasthop_proto::pep::eln::ElnKnowledge;
use lasthop_proto::pep::snoop::SnoopConfig;
use lasthop_proto::pep::split::Handover;
use lasthop_proto::scheme::{self, BaseStation, Scheme};
use lasthop_proto::tcp::config::{Recovery, TcpConfig};
use lasthop_sim::element::{AnyElement, Ends};
use lasthop_sim::network::{
    App, DamagedFrames, DirectionSpec, ElementSpec, FlowSpec, LinkId, LinkSpec, Network, NodeId, NodeKind, NodeSpec,
    SessionSpec,
};

use crate::elements::{Arq, Beyond, Duty, ElnMarker, Part, QuicSnoop, RelayPart, Snoop, Split, SrpPart};
use crate::flow_names::FlowNames;
use crate::flows::Flow;
use crate::mobility::Mobility;
use crate::nodes::{Host, Link};
use crate::sessions::Session;
use crate::spec::Spec;
use crate::stations::{GatewaySplit, Port};
use crate::values::ElnSource;

/// Error: the scheme has a part at the base station, but the scenario has none.
pub(crate) struct NoBaseStation;

/// An element on a port under the scheme.
struct Placed<'s> {
    port: &'s Port,
    element: AnyElement,
}

/// Returns the network under `scheme`.
pub(crate) fn network<'s>(spec: &'s Spec, scheme: &Scheme) -> Result<Network, NoBaseStation> {
    let mut duties = vec![Duty::of(scheme.recovery); spec.nodes.hosts.len()];
    let mut placed = Vec::new();
    match (scheme.base_station, &spec.base_station) {
        (BaseStation::Forward, _) => {}
        (_, None) => return Err(NoBaseStation),
        (BaseStation::Local { detection, awareness }, Some(station)) => {
            let part = Snoop(SnoopConfig { detection, awareness, ..station.snoop.clone() });
            placed.push(Placed::new(scheme, &mut duties, &station.port, &part));
        }
        (BaseStation::Split { wireless }, Some(station)) => {
            let part = RelayPart { relay: station.relay.clone(), recovery: wireless };
            placed.push(Placed::new(scheme, &mut duties, &station.port, &part));
        }
        (BaseStation::SplitSrp, Some(station)) => {
            let part = SrpPart::new(&station.srp, &station.relay);
            placed.push(Placed::new(scheme, &mut duties, &station.port, &part));
        }
        (BaseStation::SelectiveRepeat, Some(station)) => {
            placed.push(Placed::new(scheme, &mut duties, &station.port, &Arq(station.arq.clone())));
        }
        (BaseStation::TwoEnded(repair), Some(station)) => {
            placed.push(Placed::new(scheme, &mut duties, &station.port, &station.two_ended.with(repair)));
        }
        // It reads selective acknowledgments, which need no change of endpoints.
        (BaseStation::GatewaySnoop, Some(station)) => {
            placed.push(Placed { port: &station.port, element: AnyElement::new(Snoop(station.gateway_snoop.clone())) });
        }
        (BaseStation::QuicSnoop, Some(station)) => {
            placed.push(Placed { port: &station.port, element: AnyElement::new(QuicSnoop::DEFAULT) });
        }
        (BaseStation::GatewaySplit { .. }, Some(station)) => {
            let GatewaySplit { wired, wireless, repair } = station.gateway_split.clone();
            let (wired, wireless) = (Arc::new(wired), Arc::new(wireless));
            let element = AnyElement::new(Split { handover: Handover::Moved, wired, wireless, repair });
            placed.push(Placed { port: &station.port, element });
            if repair.is_on() {
                let element = AnyElement::new(Snoop(SnoopConfig::beneath_relay()));
                placed.push(Placed { port: &station.port, element });
            }
        }
    }
    // The scheme's part is at each station of a moving host.
    let stations =
        |port: &Port| spec.mobility.as_ref().filter(|mobility| mobility.ports.iter().any(|own| own.link == port.link));
    let everywhere = |placed: Placed<'s>| match stations(placed.port) {
        Some(mobility) => mobility.ports.iter().map(|port| Placed { port, element: placed.element.clone() }).collect(),
        None => vec![placed],
    };
    placed = placed.into_iter().flat_map(everywhere).collect();
    placed.extend(
        spec.elements.iter().map(|element| Placed::new(scheme, &mut duties, &element.port, element.part.get())),
    );
    let endpoint = |(host, duty): (&Host, Duty)| Arc::new(duty.apply(&host.tcp));
    let hosts: Vec<Arc<TcpConfig>> = spec.nodes.hosts.iter().zip(duties).map(endpoint).collect();

    let heeds_eln = hosts.iter().any(|host| heeds_eln(host)) || placed.iter().any(Placed::heeds_eln);
    let marker = match spec.eln_source {
        ElnSource::Receiver => None,
        ElnSource::BaseStation => Some(ElnMarker(ElnKnowledge::Own)),
        ElnSource::Radios => Some(ElnMarker(ElnKnowledge::Told)),
    };
    if let Some(marker) = marker.filter(|_| heeds_eln && scheme.base_station == BaseStation::Forward) {
        let station = spec.base_station.as_ref().ok_or(NoBaseStation)?;
        // As the base station's part it is nearest to the router.
        let marker = Placed { port: &station.port, element: AnyElement::new(marker) };
        placed.splice(0..0, everywhere(marker));
    }
    let damaged = match spec.eln_source {
        ElnSource::Receiver if heeds_eln => DamagedFrames::Deliver,
        ElnSource::Receiver | ElnSource::BaseStation | ElnSource::Radios => DamagedFrames::Drop,
    };
    let mut flows: Vec<FlowSpec> = spec.flows.iter().flat_map(|flow| copies(spec, flow, &hosts)).collect();
    let sessions = spec.sessions.iter().flat_map(|session| web_sessions(spec, session, &hosts, &mut flows)).collect();
    Ok(Network {
        nodes: nodes(spec),
        links: spec.links.iter().map(|link| link_spec(link, damaged)).collect(),
        bundles: spec.bundles.clone(),
        elements: placed.into_iter().flat_map(|placed| placed.specs(spec)).collect(),
        flows,
        sessions,
        mobility: spec.mobility.as_ref().map(Mobility::network),
        limit: spec.limit,
    })
}

/// Place where a scenario contradicts the name of a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FixedAt {
    /// Loss recovery at the host with this index.
    Recovery(usize),
    /// Congestion control at the host with this index.
    Congestion(usize),
    /// Loss recovery of the relay on the lossy link.
    RelayRecovery,
    /// Congestion control of the gateway's relay on the lossy link.
    RelayCongestion,
}

/// Returns the place where the scenario gives a data sender a property that differs from `scheme`. Endpoints of `spec`
/// were read for that scheme. The names of schemes at the base station imply nothing about hosts.
pub(crate) fn fixed(spec: &Spec, scheme: &Scheme) -> Option<FixedAt> {
    let differs = |given: Option<Recovery>, said: Recovery| given.is_some_and(|given| given != said);
    let tcp = |host: usize| Some(&spec.nodes.hosts.get(host)?.tcp);
    match (scheme.base_station, scheme.ends) {
        (BaseStation::Forward | BaseStation::SelectiveRepeat, ends) => senders(spec).find_map(|host| {
            let tcp = tcp(host)?;
            if differs(tcp.recovery, scheme.recovery) {
                return Some(FixedAt::Recovery(host));
            }
            let scheme::Ends::Modern(Some(said)) = ends else { return None };
            (!said.is(tcp.modern.congestion)).then_some(FixedAt::Congestion(host))
        }),
        (BaseStation::Split { wireless }, _) if wireless != scheme.recovery => {
            let relay = &spec.base_station.as_ref()?.relay;
            differs(relay.wireless.recovery, wireless).then_some(FixedAt::RelayRecovery)
        }
        (BaseStation::GatewaySplit { wireless }, _) => {
            let given = &spec.base_station.as_ref()?.gateway_split.wireless;
            (!given.sender.modern().is_some_and(|modern| wireless.is(modern.congestion)))
                .then_some(FixedAt::RelayCongestion)
        }
        (
            BaseStation::Split { .. }
            | BaseStation::SplitSrp
            | BaseStation::Local { .. }
            | BaseStation::GatewaySnoop
            | BaseStation::QuicSnoop
            | BaseStation::TwoEnded(_),
            _,
        ) => None,
    }
}

/// Returns the indices of the hosts that send data, some more than once.
pub(crate) fn senders(spec: &Spec) -> impl Iterator<Item = usize> + '_ {
    let transfers = spec.flows.iter().filter(|flow| matches!(flow.app, App::Transfer { .. }));
    let sessions = spec.sessions.iter().flat_map(|session| [session.server, session.client]);
    transfers.map(|flow| flow.from).chain(sessions)
}

/// Returns whether the endpoint uses ELN.
fn heeds_eln(config: &TcpConfig) -> bool {
    match config.sender.recovery() {
        Recovery::ELN | Recovery::ELN_RXMT => true,
        Recovery::SACK => config.common.sack_eln.is_on(),
        Recovery::RENO | Recovery::NEW_RENO | Recovery::SMART | Recovery::Rack => false,
    }
}

impl<'s> Placed<'s> {
    fn new(scheme: &Scheme, duties: &mut [Duty], port: &'s Port, part: &dyn Part) -> Self {
        Self { port, element: part.place(scheme, &mut Beyond { duties, hosts: &port.beyond }) }
    }

    fn heeds_eln(&self) -> bool {
        self.element.endpoints().is_some_and(|ends| ends.into_iter().any(|end| heeds_eln(end)))
    }

    /// Returns one element, or one for each end of the link.
    fn specs(self, spec: &Spec) -> Vec<ElementSpec> {
        let Port { router, link, .. } = *self.port;
        let at = |node: usize| ElementSpec { node: NodeId(node), link: LinkId(link), element: self.element.clone() };
        match self.element.ends() {
            Ends::One => vec![at(router)],
            Ends::Both => {
                let other = spec.links[link].between.into_iter().find(|end| *end != router).unwrap_or(router);
                let element = self.element.at_other_end().unwrap_or_else(|| self.element.clone());
                vec![at(router), ElementSpec { element, ..at(other) }]
            }
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
        variation: direction.variation.clone(),
        impairments: direction.impairments.clone(),
    });
    LinkSpec {
        name: link.name.clone(),
        ends: link.between.map(NodeId),
        medium: link.medium.clone(),
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
            // QUIC ignores the scheme's settings of TCP.
            App::Quic(_) => [flow.from, flow.to].map(|end| Arc::new(spec.nodes.hosts[end].tcp.without_scheme())),
            // Datagrams can end at a router, which has no keys of its own.
            _ => [flow.from, flow.to].map(|end| Arc::clone(hosts.get(end).unwrap_or(&hosts[flow.from]))),
        },
        iss: [flow.from, flow.to].map(|end| spec.nodes.hosts.get(end).map_or(0, |host| host.iss)),
        dscp: flow.dscp,
    })
}

/// Returns the copies of a session, and adds their flows to `flows`.
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
                dscp: 0,
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
