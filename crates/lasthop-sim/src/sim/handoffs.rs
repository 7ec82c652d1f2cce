//! The moves of a host: when each step of a handoff is due, and what becomes of the state of elements.

use std::collections::BTreeMap;

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Instant;

use super::Simulation;
use crate::element::{AnyElement, Site, StateAtHandoff};
use crate::endpoint::index as endpoint;
use crate::network::{HandoffKind, LinkSession, Mobility, Moves, Network, NodeId, Rate, SoftState};
use crate::scheduler::NEVER;

/// What is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The host leaves its station, or turns elsewhere.
    Leave,
    /// The new station has taken it on, unless it has turned elsewhere since.
    Register { turn: u64 },
    /// The state that it depends on is there, unless it has turned elsewhere since.
    Attach { turn: u64 },
    /// The old station hears of the new one.
    Tell { old: usize, new: usize, left: u64 },
    /// Routes have changed.
    Reroute { to: usize },
}

/// An element beside one of the host's links, and what it takes to build it anew.
struct Kept {
    index: usize,
    element: AnyElement,
    node: String,
    rate: Rate,
}

/// What is to come of the moves of a host.
pub(super) struct Itinerary {
    plan: Mobility,
    /// By time, and in the order in which it was entered.
    agenda: BTreeMap<(Instant, u64), Step>,
    entered: u64,
    draws: Stream,
    /// How many of a timetable's moves have been.
    moved: usize,
    /// Where the host is or goes.
    heading: usize,
    /// How often it has turned to another station.
    turn: u64,
    /// By station, the elements of its link: those at the station, and those at the host, nearest their node first.
    elements: Vec<[Vec<Kept>; 2]>,
    root: Root,
    watch: Switch,
    /// Per flow, the bytes that are booked with the links which they crossed.
    credited: Vec<(FlowId, Side, u64)>,
}

impl Itinerary {
    pub(super) fn new(network: &Network, root: Root, watch: Switch, flows: Vec<FlowId>) -> Option<Box<Self>> {
        let plan = network.mobility.clone()?;
        let elements_at = |node: NodeId, link| {
            let here = network.elements.iter().enumerate();
            let here = here.filter(|(_, spec)| spec.node == node && spec.link == link);
            let kept = here.map(|(index, spec)| Kept {
                index,
                element: spec.element.clone(),
                node: network.nodes[node.0].name.clone(),
                rate: network.rate_from(node, link),
            });
            kept.collect::<Vec<_>>()
        };
        let stations = plan.stations.iter().zip(plan.routers(network));
        let elements =
            stations.map(|(link, router)| [elements_at(router, *link), elements_at(plan.host, *link)]).collect();
        let side = |flow: &FlowId| network.flows[flow.0 as usize].app.counted_at();
        let mut itinerary = Self {
            draws: root.stream("mobility/moves"),
            agenda: BTreeMap::new(),
            entered: 0,
            moved: 0,
            heading: 0,
            turn: 0,
            elements,
            root,
            watch,
            credited: flows.iter().map(|flow| (*flow, side(flow), 0)).collect(),
            plan,
        };
        itinerary.plan_move(Instant::ZERO);
        Some(Box::new(itinerary))
    }

    fn enter(&mut self, at: Instant, step: Step) {
        self.agenda.insert((at, self.entered), step);
        self.entered += 1;
    }

    /// Enters the next move after `now`.
    fn plan_move(&mut self, now: Instant) {
        let at = match &self.plan.moves {
            Moves::At(times) => times.get(self.moved).copied(),
            Moves::Every(period) => Some(now + *period),
            Moves::Mean(mean) => {
                let seconds = self.draws.exponential(mean.as_secs_f64());
                Some(now + lasthop_proto::time::Duration::from_secs_f64(seconds))
            }
        };
        self.moved += 1;
        if let Some(at) = at.filter(|_| self.plan.stations.len() > 1) {
            self.enter(at, Step::Leave);
        }
    }

    /// Where the host goes next.
    fn choose(&mut self) -> usize {
        let stations = self.plan.stations.len();
        let ahead = match self.plan.moves {
            Moves::At(_) | Moves::Every(_) => 1,
            Moves::Mean(_) => 1 + self.draws.below(stations as u64 - 1) as usize,
        };
        (self.heading + ahead) % stations
    }

    /// When the next step is due.
    pub(super) fn next(&self) -> Instant {
        self.agenda.first_key_value().map_or(NEVER, |((at, _), _)| *at)
    }
}

impl Simulation {
    /// Acts on the steps that are due.
    #[cold]
    pub(super) fn move_host(&mut self, now: Instant) {
        let Some(mut plan) = self.itinerary.take() else { return };
        while let Some(first) = plan.agenda.first_entry().filter(|first| first.key().0 <= now) {
            let step = first.remove();
            self.act(now, &mut plan, step);
        }
        self.alarms.set(self.last_alarm(), plan.next());
        self.itinerary = Some(plan);
    }

    /// The alarm of the host that moves, behind those of sources.
    pub(super) fn last_alarm(&self) -> u32 {
        (self.endpoints.len() + self.elements.len() + self.sources.len()) as u32
    }

    fn act(&mut self, now: Instant, plan: &mut Itinerary, step: Step) {
        match step {
            Step::Leave => {
                plan.heading = plan.choose();
                plan.turn += 1;
                self.book(plan);
                self.fabric.leave(now, plan.heading);
                let at = now + plan.plan.detection + plan.plan.registration;
                plan.enter(at, Step::Register { turn: plan.turn });
                plan.plan_move(now);
            }
            Step::Register { turn } if turn == plan.turn => {
                let (old, new) = (self.fabric.served(), plan.heading);
                let hard = |kept: &&Kept| kept.element.at_handoff() == StateAtHandoff::Hard;
                let movable = plan.elements[old].iter().flatten().filter(hard).map(|kept| kept.index);
                let bytes = movable.map(|index| self.elements[index].hard_state()).sum::<u64>();
                if old == new || bytes == 0 {
                    return self.act(now, plan, Step::Attach { turn });
                }
                let at = now + plan.plan.state_setup + self.fabric.wire_time(old, new, bytes);
                plan.enter(at, Step::Attach { turn });
            }
            Step::Attach { turn } if turn == plan.turn => {
                let (old, new) = (self.fabric.served(), plan.heading);
                let left = self.fabric.times_left(old);
                self.fabric.attach(now);
                if old != new {
                    self.move_state(now, plan, old, new);
                }
                self.fabric.send_kept(now);
                if old == new {
                    return;
                }
                match plan.plan.kind {
                    HandoffKind::Multicast => return,
                    HandoffKind::Forwarding => {
                        let at = now + self.fabric.wire_time(new, old, 0);
                        plan.enter(at, Step::Tell { old, new, left });
                    }
                    HandoffKind::Hard | HandoffKind::Hierarchical => {}
                }
                plan.enter(now + self.fabric.route_update(old, new), Step::Reroute { to: new });
            }
            Step::Register { .. } | Step::Attach { .. } => {}
            Step::Tell { old, new, left } => self.fabric.tell(now, old, new, left),
            Step::Reroute { to } => self.fabric.reroute(to),
        }
    }

    /// What the elements of the station `old` know is at `new` now, or nowhere.
    fn move_state(&mut self, now: Instant, plan: &Itinerary, old: usize, new: usize) {
        let anew = |kept: &Kept| {
            kept.element.build(&Site { node: &kept.node, rate: kept.rate, root: plan.root, watch: plan.watch })
        };
        let mut touched = Vec::new();
        for (from, to) in plan.elements[old].iter().zip(&plan.elements[new]) {
            for (place, kept) in to.iter().enumerate() {
                let counterpart = from.get(place).filter(|from| from.element.kind() == kept.element.kind());
                let moves = match kept.element.at_handoff() {
                    StateAtHandoff::Hard => true,
                    StateAtHandoff::Soft => plan.plan.soft_state == SoftState::Mirrored,
                    StateAtHandoff::Session => plan.plan.link_session == LinkSession::Moved,
                    StateAtHandoff::Anew => false,
                };
                match counterpart {
                    Some(from) if moves => self.elements.swap(from.index, kept.index),
                    _ => self.elements[kept.index] = anew(kept),
                }
                touched.push(kept.index);
            }
            for kept in from {
                self.elements[kept.index] = anew(kept);
                touched.push(kept.index);
            }
        }
        for index in touched {
            self.alarms.set((self.endpoints.len() + index) as u32, NEVER);
            self.pump_element(now, index);
        }
    }

    /// Books what the host's flows delivered so far with the links to the station that it is at.
    fn book(&mut self, plan: &mut Itinerary) {
        for (flow, side, booked) in &mut plan.credited {
            let received = self.endpoints[endpoint(*flow, *side)].received();
            self.fabric.credit_path(*flow, *side, received - *booked);
            *booked = received;
        }
    }

    /// Bytes of a flow that are booked already.
    pub(super) fn booked(&self, flow: FlowId) -> u64 {
        let booked = self.itinerary.iter().flat_map(|plan| &plan.credited);
        booked.filter(|(of, ..)| *of == flow).map(|(.., bytes)| *bytes).next().unwrap_or(0)
    }
}
