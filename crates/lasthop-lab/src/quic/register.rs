//! State shared by the QUIC flows of a lab.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::tally::Tally;
use super::tls::Tls;
use crate::plan::Plan;

/// The tallies of all QUIC flows of a lab, by flow, and their TLS configuration.
#[derive(Default)]
pub struct Register {
    tallies: BTreeMap<usize, Arc<Tally>>,
    tls: Option<Arc<Tls>>,
}

impl Register {
    /// Creates the register for `plan`.
    pub fn new(plan: &Plan<'_>) -> Self {
        let flows = plan.network.flows.iter().enumerate().filter(|(_, spec)| spec.app.quic().is_some());
        let tallies: BTreeMap<_, _> = flows.map(|(flow, _)| (flow, Arc::default())).collect();
        let tls = (!tallies.is_empty()).then(Arc::default);
        Self { tallies, tls }
    }

    /// Returns the tally of a flow; `None` if it is not QUIC.
    pub fn tally(&self, flow: usize) -> Option<Arc<Tally>> {
        self.tallies.get(&flow).cloned()
    }

    /// Returns certificate and configurations, if there are QUIC flows.
    pub fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }
}
