//! lasthop's own TCP as the end of flows: a [`Host`] on a device in the node's namespace, whose kernel forwards between
//! that device and the links.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::tcp::config::{Switch, TcpConfig};
use lasthop_proto::time::Duration;
use lasthop_sim::network::NodeId;

use super::error::LabError;
use super::plan::Plan;
use super::transfer::{Accepted, Acceptor, End, Initiator, Received, Run, STEP, Sent, Transfer};
use crate::host::{self, Device, Ending, Host, HostConfig, HostError, Outcome, Payload, Receiving, Sending};

/// Longer than any run; the end of the run ends the remaining transfers.
const NO_LIMIT: Duration = Duration::from_secs(1_000_000_000);

/// Creates the device of `node` in the calling thread's namespace.
///
/// # Errors
///
/// Returns errors of the kernel.
pub fn open_device(plan: &Plan<'_>, node: NodeId, seed: u64) -> Result<Device, LabError> {
    let config = HostConfig {
        name: plan.network.nodes[node.0].name.clone(),
        device: Plan::OWN_DEVICE.to_owned(),
        kernel_v4: None,
        kernel_v6: None,
        addresses: vec![Plan::address(node).into()],
        // The plan rejects segments near this limit.
        mtu: plan.mtu().try_into().unwrap_or(u16::MAX),
        seed,
        errors: [ErrorSpec::None, ErrorSpec::None],
        watch: Switch::Off,
    };
    Device::open(config).map_err(failed(plan, node))
}

/// Returns a function that wraps a host's error at `node`.
pub fn failed(plan: &Plan<'_>, node: NodeId) -> impl FnOnce(HostError) -> LabError {
    let host = plan.network.nodes[node.0].name.clone();
    move |error| LabError::OwnTcp { host, error }
}

/// Sending end of a flow.
pub struct OwnInitiator {
    /// Host of this end.
    pub host: Arc<Host>,
    /// TCP configuration.
    pub config: Arc<TcpConfig>,
    /// Local and remote address.
    pub sockets: [SocketAddr; 2],
}

impl Initiator for OwnInitiator {
    fn send(self: Box<Self>, run: &Run, transfer: Transfer) -> Sent {
        run.wait_until(transfer.start);
        let Self { host, config, sockets: [local, remote] } = *self;
        let close = if transfer.end == End::Close { Switch::On } else { Switch::Off };
        let sending = Sending { config, local, remote, bytes: transfer.bytes, close, limit: NO_LIMIT };
        match host.start_sending(sending).and_then(|sending| finish(run, &sending)) {
            Ok(outcome) => Sent {
                start: outcome.start,
                retransmissions: outcome.sender.source_retransmissions,
                timeouts: Some(outcome.sender.timeouts),
                recoveries: Some(outcome.sender.recoveries),
                complete: outcome.ending == Ending::Complete,
                aborted: is_broken(&outcome),
                received: None,
                tcp_info: outcome.tcp_info,
            },
            Err(error) => {
                tracing::warn!(%error, "cannot start a flow, or its host has stopped");
                Sent {
                    start: transfer.start,
                    retransmissions: 0,
                    timeouts: Some(0),
                    recoveries: Some(0),
                    complete: false,
                    aborted: true,
                    received: None,
                    tcp_info: None,
                }
            }
        }
    }
}

/// A host that waits for its flows.
pub struct OwnAcceptor(Vec<(usize, host::Transfer)>);

impl OwnAcceptor {
    /// Starts to wait for `flows`: index, local and remote address, configuration, and transfer of each.
    ///
    /// # Errors
    ///
    /// Returns an error if the host has too many connections, or has ended.
    pub fn listen(
        host: &Host,
        run: &Run,
        flows: impl IntoIterator<Item = (usize, [SocketAddr; 2], Arc<TcpConfig>, Transfer)>,
    ) -> Result<Self, HostError> {
        let listen = |(flow, [local, remote], config, transfer): (usize, [SocketAddr; 2], _, Transfer)| {
            let receiving = Receiving {
                config,
                local,
                remote: Some(remote),
                bytes: (transfer.end == End::Acknowledged).then_some(transfer.bytes),
                payload: Payload::Pattern,
                meter: Some(run.received.clone()),
                limit: NO_LIMIT,
            };
            Ok((flow, host.start_receiving(receiving)?))
        };
        Ok(Self(flows.into_iter().map(listen).collect::<Result<_, _>>()?))
    }
}

impl Acceptor for OwnAcceptor {
    fn accept_all(self: Box<Self>, run: &Run, flows: &[(usize, u16, Transfer)]) -> io::Result<Accepted> {
        let mut accepted = Vec::new();
        // All transfers are in progress: outcomes of others are kept while waiting for one.
        for (flow, receiving) in self.0 {
            let outcome = finish(run, &receiving).map_err(io::Error::other)?;
            let Some((.., transfer)) = flows.iter().find(|(index, ..)| *index == flow) else { continue };
            let all = outcome.ending == Ending::Complete && outcome.received == transfer.bytes;
            let received = Received {
                bytes: outcome.received,
                end: outcome.end,
                complete: all,
                aborted: is_broken(&outcome),
                altered: outcome.mismatch,
                call: None,
            };
            accepted.push((flow, received));
        }
        Ok(accepted)
    }
}

/// Waits for the outcome. Aborts transfers in progress when the run ends.
fn finish(run: &Run, transfer: &host::Transfer) -> Result<Outcome, HostError> {
    loop {
        if let Some(outcome) = transfer.wait_for(STEP)? {
            return Ok(outcome);
        }
        if run.over.load(Ordering::Relaxed) {
            transfer.abort();
        }
    }
}

fn is_broken(outcome: &Outcome) -> bool {
    matches!(outcome.ending, Ending::Reset | Ending::GaveUp)
}
