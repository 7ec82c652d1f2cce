//! Actual losses of a run, with which its senders' and elements' judgements are compared.

use lasthop_proto::event::LossCause;
use lasthop_proto::packet::{FlowId, Packet, Side};
use lasthop_proto::seq::Seq;
use lasthop_proto::tcp::config::Switch;

use crate::leg::LegId;
use crate::measure::{FlowReport, LossLedger, LossTruth};
use crate::network::Network;
use crate::trace::DropReason;

/// Losses and retransmissions of all flows.
pub struct Losses {
    ledger: LossLedger,
    /// Indicates whether timeouts are checked against actual losses.
    judges_timeouts: Switch,
    /// Place of each segment's last loss, if an element reports causes of losses.
    truth: Option<LossTruth>,
}

impl Losses {
    pub fn new(network: &Network) -> Self {
        Self {
            ledger: LossLedger::default(),
            judges_timeouts: if network.varies() { Switch::On } else { Switch::Off },
            truth: network.judges_losses().then(LossTruth::default),
        }
    }

    /// Records a drop on a leg.
    pub fn lose(&mut self, leg: LegId, packet: &Packet, reason: DropReason) {
        if let Some(truth) = &mut self.truth {
            truth.lose(leg, packet, reason);
        }
        if reason == DropReason::Channel {
            self.ledger.lose(packet);
        }
        if self.judges_timeouts.is_on() {
            self.ledger.miss(packet);
        }
    }

    /// Records a retransmission.
    pub fn resend(&mut self, packet: &Packet) {
        self.ledger.resend(packet);
        if self.judges_timeouts.is_on() {
            self.ledger.send_again(packet);
        }
    }

    /// Returns whether timeouts are checked and none of the data from `seq` on was lost, so that a timeout that
    /// retransmits it is spurious.
    pub fn is_spurious(&self, flow: FlowId, side: Side, seq: Seq) -> bool {
        self.judges_timeouts.is_on() && !self.ledger.is_missing(flow, side, seq)
    }

    /// Returns whether `cause` is the cause of a segment's last loss, reported for the leg `leg`.
    pub fn is_right(&self, leg: LegId, flow: FlowId, lost: (Side, Seq), cause: LossCause) -> bool {
        self.truth.as_ref().is_some_and(|truth| truth.says(leg, flow, lost, cause))
    }

    /// Writes the losses into the reports of the flows.
    pub fn settle(&mut self, flows: &mut [FlowReport]) {
        self.ledger.settle(flows);
    }
}
