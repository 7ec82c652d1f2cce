//! Web sessions at work: which transfer goes over which flow, and the fresh connection that each one gets.

use std::sync::Arc;

use lasthop_proto::packet::{FlowId, Side};
use lasthop_proto::random::{Root, Stream};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::Setup;
use lasthop_proto::tcp::config::TcpConfig;
use lasthop_proto::time::Instant;

use crate::apps::{Leg, Transfer, WebSession};
use crate::measure::SessionReport;
use crate::network::{Network, SessionSpec};

/// A transfer to start: the flow, fresh set-ups for its two ends, and its size.
pub struct Fresh {
    /// The flow.
    pub flow: FlowId,
    /// Initiator, acceptor.
    pub setups: [Setup; 2],
    /// Bytes that the initiator sends.
    pub bytes: u64,
}

/// All sessions of a network.
pub struct Sessions {
    sessions: Vec<Session>,
    /// For each flow, the session that it belongs to, and what it does there.
    places: Vec<Option<Place>>,
}

#[derive(Clone, Copy)]
struct Place {
    session: usize,
    pair: usize,
    leg: Leg,
}

struct Session {
    spec: SessionSpec,
    web: WebSession,
    begun: bool,
    /// Initial sequence numbers: a new connection must not take old segments for its own.
    iss: Stream,
    /// Per pair: the set-ups of requests and of replies.
    setups: Vec<[[Setup; 2]; 2]>,
}

impl Sessions {
    /// The sessions of `network`; `setup` makes the set-up of an end of a flow.
    pub fn new(network: &Network, root: Root, setup: impl Fn(FlowId, Side) -> Setup) -> Self {
        let mut places = vec![None; network.flows.len()];
        let ends = |flow| [setup(flow, Side::Initiator), setup(flow, Side::Acceptor)];
        let sessions = network.sessions.iter().enumerate().map(|(session, spec)| {
            for (pair, flows) in spec.pairs.iter().enumerate() {
                for (leg, flow) in [Leg::Request, Leg::Reply].into_iter().zip(flows) {
                    places[flow.0 as usize] = Some(Place { session, pair, leg });
                }
            }
            Session {
                web: WebSession::new(spec.web, root.stream(&format!("sessions/{}/web", spec.name))),
                iss: root.stream(&format!("sessions/{}/iss", spec.name)),
                setups: spec.pairs.iter().map(|flows| flows.map(ends)).collect(),
                spec: spec.clone(),
                begun: false,
            }
        });
        let sessions = sessions.collect();
        Self { sessions, places }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// When each session starts, and the flow that its first transfer goes over.
    pub fn starts(&self) -> impl Iterator<Item = (Instant, FlowId)> {
        self.sessions.iter().map(|session| (session.spec.start, session.spec.pairs[0][0]))
    }

    /// The first transfer of the session whose requests begin on `flow`, when its time has come and it has not begun.
    pub fn begin(&mut self, flow: FlowId, now: Instant) -> Option<Fresh> {
        let place = self.places[flow.0 as usize]?;
        let session = &mut self.sessions[place.session];
        if session.begun || flow != session.spec.pairs[0][0] || now < session.spec.start {
            return None;
        }
        session.begun = true;
        let transfer = session.web.start();
        Some(session.fresh(transfer))
    }

    /// A SYN on `flow` had to be sent again.
    pub fn syn_lost(&mut self, flow: FlowId) {
        if let Some(place) = self.places[flow.0 as usize] {
            self.sessions[place.session].remember(place);
        }
    }

    /// The transfer over `flow` is over at `now`: what starts next, at the same instant. `None` for a flow of no session.
    pub fn next(&mut self, now: Instant, flow: FlowId) -> Option<Vec<Fresh>> {
        let place = self.places[flow.0 as usize]?;
        let session = &mut self.sessions[place.session];
        let transfers = session.web.on_complete(now, place.pair, place.leg);
        Some(transfers.into_iter().map(|transfer| session.fresh(transfer)).collect())
    }

    /// What became of each session.
    pub fn reports(&self) -> Vec<SessionReport> {
        let report = |session: &Session| SessionReport { start: session.spec.start, web: session.web.done() };
        self.sessions.iter().map(report).collect()
    }
}

impl Session {
    fn remember(&mut self, place: Place) {
        if self.spec.syn_loss_memory.is_on() {
            let setup = &mut self.setups[place.pair][leg_index(place.leg)][Side::Initiator.index()];
            setup.config = Arc::new(TcpConfig { initial_window: 1, ..TcpConfig::clone(&setup.config) });
        }
    }

    fn fresh(&mut self, transfer: Transfer) -> Fresh {
        let leg = leg_index(transfer.leg);
        let mut setups = self.setups[transfer.pair][leg].clone();
        for setup in &mut setups {
            setup.iss = Seq(self.iss.below(1 << 32) as u32);
        }
        Fresh { flow: self.spec.pairs[transfer.pair][leg], setups, bytes: transfer.bytes }
    }
}

const fn leg_index(leg: Leg) -> usize {
    match leg {
        Leg::Request => 0,
        Leg::Reply => 1,
    }
}
