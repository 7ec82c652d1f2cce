//! Moves of a host. The fabric changes links and routes; this module moves the state of elements.

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::{Duration, Instant};

use super::Simulation;
use crate::element::{AnyElement, Site, StateAtHandoff};
use crate::endpoint::index as endpoint;
use crate::handoff::{Course, Ground, Itinerary};
use crate::network::{Medium, Mobility, Network, NodeId, Rate};
use crate::scheduler::NEVER;

/// An element on one of the host's links, with the parameters to rebuild it.
struct Kept {
    index: usize,
    element: AnyElement,
    node: String,
    rate: Rate,
    medium: Medium,
}

/// The moving host.
pub(super) struct Mover {
    itinerary: Itinerary,
    baggage: Baggage,
}

/// State that accompanies the host from station to station.
struct Baggage {
    plan: Mobility,
    /// Elements of each station's link: those at the station, and those at the host, nearest to their node first.
    elements: Vec<[Vec<Kept>; 2]>,
    root: Root,
    watch: Switch,
    /// Bytes of each flow already credited to the links that they crossed.
    credited: Vec<(FlowId, Side, u64)>,
}

impl Mover {
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
                medium: network.links[link.0].medium.clone(),
            });
            kept.collect::<Vec<_>>()
        };
        let stations = plan.stations.iter().zip(plan.routers(network));
        let elements =
            stations.map(|(link, router)| [elements_at(router, *link), elements_at(plan.host, *link)]).collect();
        let side = |flow: &FlowId| network.flows[flow.0 as usize].app.counted_at();
        Some(Box::new(Self {
            itinerary: Itinerary::new(plan.clone(), root),
            baggage: Baggage {
                elements,
                root,
                watch,
                credited: flows.iter().map(|flow| (*flow, side(flow), 0)).collect(),
                plan,
            },
        }))
    }

    /// Returns the time of the next step.
    pub(super) fn next(&self) -> Instant {
        self.itinerary.next().unwrap_or(NEVER)
    }
}

/// The simulation as environment of the host.
struct Here<'s> {
    simulation: &'s mut Simulation,
    baggage: &'s mut Baggage,
}

impl Ground for Here<'_> {
    fn leave(&mut self, now: Instant, heading: usize) {
        self.simulation.book(self.baggage);
        self.simulation.fabric.leave(now, heading);
    }

    fn served(&self) -> usize {
        self.simulation.fabric.served()
    }

    fn times_left(&self, station: usize) -> u64 {
        self.simulation.fabric.times_left(station)
    }

    fn hard_state(&self, station: usize) -> u64 {
        let hard = |kept: &&Kept| kept.element.at_handoff() == StateAtHandoff::Hard;
        let movable = self.baggage.elements[station].iter().flatten().filter(hard);
        movable.map(|kept| self.simulation.elements[kept.index].hard_state()).sum()
    }

    fn wire_time(&self, course: Course, bytes: u64) -> Duration {
        self.simulation.fabric.wire_time(course, bytes)
    }

    fn route_update(&self, course: Course) -> Duration {
        self.simulation.fabric.route_update(course)
    }

    fn attach(&mut self, now: Instant) {
        self.simulation.fabric.attach(now);
    }

    fn move_state(&mut self, now: Instant, course: Course) {
        self.simulation.move_state(now, self.baggage, course);
    }

    fn send_kept(&mut self, now: Instant) {
        self.simulation.fabric.send_kept(now);
    }

    fn tell(&mut self, now: Instant, course: Course, left: u64) {
        self.simulation.fabric.tell(now, course, left);
    }

    fn reroute(&mut self, _: Instant, to: usize) {
        self.simulation.fabric.reroute(to);
    }
}

impl Simulation {
    /// Carries out the steps that are due.
    #[cold]
    pub(super) fn move_host(&mut self, now: Instant) {
        let Some(mut mover) = self.mover.take() else { return };
        let Mover { itinerary, baggage } = &mut *mover;
        itinerary.act(now, &mut Here { simulation: self, baggage });
        self.alarms.set(self.last_alarm(), mover.next());
        self.mover = Some(mover);
    }

    /// Returns the alarm of the moving host, which follows those of sources.
    pub(super) fn last_alarm(&self) -> u32 {
        (self.endpoints.len() + self.elements.len() + self.sources.len()) as u32
    }

    /// Moves the state of elements from the old station to the new one, or discards it.
    fn move_state(&mut self, now: Instant, baggage: &Baggage, course: Course) {
        let anew = |kept: &Kept| {
            let Kept { node, rate, medium, .. } = kept;
            // Moving hosts have no bundles.
            kept.element.build(&Site {
                node,
                rate: *rate,
                more: &[],
                terms: &[],
                medium,
                root: baggage.root,
                watch: baggage.watch,
            })
        };
        let mut touched = Vec::new();
        for (from, to) in baggage.elements[course.from].iter().zip(&baggage.elements[course.to]) {
            for (place, kept) in to.iter().enumerate() {
                let counterpart = from.get(place).filter(|from| from.element.kind() == kept.element.kind());
                match counterpart {
                    Some(from) if baggage.plan.moves_state(kept.element.at_handoff()) => {
                        self.elements.swap(from.index, kept.index);
                    }
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

    /// Credits the bytes that the host's flows have delivered so far to the links to its current station.
    fn book(&mut self, baggage: &mut Baggage) {
        for (flow, side, booked) in &mut baggage.credited {
            let received = self.endpoints[endpoint(*flow, *side)].received();
            self.fabric.credit_path(*flow, *side, received - *booked);
            *booked = received;
        }
    }

    /// Returns the bytes of a flow that are already credited.
    pub(super) fn booked(&self, flow: FlowId) -> u64 {
        let booked = self.mover.iter().flat_map(|mover| &mover.baggage.credited);
        booked.filter(|(of, ..)| *of == flow).map(|(.., bytes)| *bytes).next().unwrap_or(0)
    }
}
