//! Web sessions: the flow of each transfer, and its new connection.

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

/// A transfer to start.
pub struct Fresh {
    /// Flow of the transfer.
    pub flow: FlowId,
    /// New setups of the flow's ends: initiator, acceptor.
    pub setups: [Setup; 2],
    /// Bytes that the initiator sends.
    pub bytes: u64,
}

/// All web sessions of a network.
pub struct Sessions {
    sessions: Vec<Session>,
    /// Session of each flow, and the flow's place in it.
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
    /// Stream of initial sequence numbers, so that a new connection does not accept old segments.
    iss: Stream,
    /// Setups of requests and of replies, per pair.
    setups: Vec<[[Setup; 2]; 2]>,
}

impl Sessions {
    /// Creates the sessions of `network`. `setup` returns the setup of an end of a flow.
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

    /// Returns whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Returns the start of each session, and the flow of its first transfer.
    pub fn starts(&self) -> impl Iterator<Item = (Instant, FlowId)> {
        self.sessions.iter().map(|session| (session.spec.start, session.spec.pairs[0][0]))
    }

    /// Returns the first transfer of the session whose requests start on `flow`, if it is due and has not begun.
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

    /// Records that a SYN on `flow` was retransmitted.
    pub fn syn_lost(&mut self, flow: FlowId) {
        if let Some(place) = self.places[flow.0 as usize] {
            self.sessions[place.session].remember(place);
        }
    }

    /// Records that the transfer over `flow` ended at `now`. Returns the transfers that start at the same instant;
    /// `None` for a flow without a session.
    pub fn next(&mut self, now: Instant, flow: FlowId) -> Option<Vec<Fresh>> {
        let place = self.places[flow.0 as usize]?;
        let session = &mut self.sessions[place.session];
        let transfers = session.web.on_complete(now, place.pair, place.leg);
        Some(transfers.into_iter().map(|transfer| session.fresh(transfer)).collect())
    }

    /// Returns the result of each session.
    pub fn reports(&self) -> Vec<SessionReport> {
        let report = |session: &Session| SessionReport { start: session.spec.start, web: session.web.done() };
        self.sessions.iter().map(report).collect()
    }
}

impl Session {
    fn remember(&mut self, place: Place) {
        if self.spec.syn_loss_memory.is_on() {
            let setup = &mut self.setups[place.pair][leg_index(place.leg)][Side::Initiator.index()];
            setup.config = Arc::new(TcpConfig::clone(&setup.config).with(|c| c.common.initial_window = 1));
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
