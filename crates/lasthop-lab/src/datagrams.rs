//! Flows of datagrams: the simulator's on-off sources and calls, on UDP sockets of the hosts' kernels.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::thread;

use lasthop_proto::packet::{Body, FlowId};
use lasthop_proto::random::Root;
use lasthop_proto::tcp::config::HeaderAccounting;
use lasthop_sim::apps::{CallConfig, CallLog};
use lasthop_sim::datagrams::Source;
use lasthop_sim::network::{App, FlowSpec, NodeId};
use rustix::event::PollFlags;

use super::ends::join;
use super::error::LabError;
use super::namespace::Namespace;
use super::plan::Plan;
use super::transfer::{Accepted, Acceptor, Initiator, Received, Run, Sent, Transfer};
use super::udp;

/// Bytes of IPv4 and UDP header.
const BELOW: u32 = 28;
/// Maximum bytes of a datagram, without these.
const LONGEST: usize = 65_507;
/// Purpose of the sockets, for errors.
const PURPOSE: &str = "datagrams";

/// Format of a flow's datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The datagram's number, if it fits, and zeros.
    Plain,
    /// RTP (RFC 3550). The timestamp is the packet's number.
    Rtp,
}

impl Format {
    /// Returns the format of an application's datagrams; `None` if it sends none.
    pub const fn of(app: &App) -> Option<Self> {
        match app {
            App::OnOff(_) => Some(Self::Plain),
            App::Call(_) => Some(Self::Rtp),
            App::Transfer { .. } | App::Idle | App::Web | App::Quic(_) => None,
        }
    }

    /// Returns the number of bytes before the payload.
    pub const fn header_len(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Rtp => 12,
        }
    }

    /// Returns the position of the number.
    const fn at(self) -> std::ops::Range<usize> {
        match self {
            Self::Plain => 0..4,
            Self::Rtp => 4..8,
        }
    }

    /// Returns the description of a datagram with these bytes for the mechanisms.
    pub fn body(self, bytes: &[u8]) -> Body {
        let number = bytes.get(self.at()).and_then(|field| field.try_into().ok()).map_or(0, u32::from_be_bytes);
        match self {
            Self::Plain => Body::Datagram { number },
            Self::Rtp => Body::Media { number },
        }
    }

    /// Writes the fields before the payload.
    fn write(self, number: u32, flow: FlowId, bytes: &mut [u8]) {
        let bits = number.to_be_bytes();
        if let Some(field) = bytes.get_mut(self.at()) {
            field.copy_from_slice(&bits);
        }
        if let (Self::Rtp, [version, kind, high, low, _, _, _, _, source @ ..]) = (self, bytes) {
            // Version 2; the first dynamic payload type.
            (*version, *kind, *high, *low) = (0x80, 96, bits[2], bits[3]);
            if let Some(source) = source.first_chunk_mut() {
                *source = flow.0.to_be_bytes();
            }
        }
    }
}

/// Returns the maximum number of bytes of a flow's IP packets; 0 if it sends no datagrams.
pub fn longest(app: &App) -> u32 {
    match app {
        App::OnOff(config) => config.bytes.max(BELOW + 1),
        App::Call(CallConfig { frame, packet, .. }) => {
            let header = BELOW + Format::Rtp.header_len() as u32;
            header.saturating_add(*frame.min(packet))
        }
        App::Transfer { .. } | App::Idle | App::Web | App::Quic(_) => 0,
    }
}

/// Ends of datagram flows at one host.
pub struct HostEnds {
    /// Initiators with their flows.
    pub initiators: Vec<(usize, Box<dyn Initiator>)>,
    /// Acceptor, with the flows that it accepts.
    pub acceptor: Option<(Box<dyn Acceptor>, Vec<usize>)>,
}

impl HostEnds {
    /// Creates the sockets of `node` in its namespace. Sources draw from the streams of the simulator under `root`.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses a socket.
    pub fn open(node: NodeId, namespace: &Namespace, plan: &Plan<'_>, root: Root) -> Result<Self, LabError> {
        let mut ends = Self { initiators: Vec::new(), acceptor: None };
        let mut sinks = Vec::new();
        for (index, spec) in plan.network.flows.iter().enumerate() {
            let id = FlowId(index as u32);
            let (Some(format), Some(source)) = (Format::of(&spec.app), Source::of(spec, id, root)) else { continue };
            let [from, to] = plan.flow_sockets(id, spec);
            let open = |own, peer| {
                namespace.within(|| {
                    let socket = udp::socket(own, PURPOSE)?;
                    socket.connect(peer).map_err(LabError::system(format!("cannot send datagrams to {peer}")))?;
                    Ok(socket)
                })
            };
            if spec.to == node {
                sinks.push(Sink { socket: open(to, from)?, flow: index, spec: spec.clone() });
            }
            if spec.from == node {
                let speaker = Speaker { socket: open(from, to)?, source, format, flow: id };
                ends.initiators.push((index, Box::new(speaker)));
            }
        }
        let flows: Vec<_> = sinks.iter().map(|sink| sink.flow).collect();
        ends.acceptor = (!flows.is_empty()).then(|| (Box::new(Listener(sinks)) as Box<dyn Acceptor>, flows));
        Ok(ends)
    }
}

/// Sending end of a flow.
struct Speaker {
    socket: UdpSocket,
    source: Source,
    format: Format,
    flow: FlowId,
}

impl Initiator for Speaker {
    /// Sends until the run ends. Datagrams that the kernel refuses are counted by it, and void the run.
    fn send(mut self: Box<Self>, run: &Run, transfer: Transfer) -> Sent {
        let mut buffer = vec![0; LONGEST];
        loop {
            run.wait_until(self.source.poll_deadline());
            if run.over.load(Ordering::Relaxed) {
                break;
            }
            let packet = self.source.take();
            let (Body::Datagram { number } | Body::Media { number }) = packet.body else { continue };
            let len = packet.wire_len().saturating_sub(BELOW) as usize;
            let datagram = &mut buffer[..len.clamp(self.format.header_len().max(1), LONGEST)];
            self.format.write(number, self.flow, datagram);
            // An error reports an earlier datagram as unreachable, or a full buffer.
            let _ = self.socket.send(datagram);
        }
        Sent {
            start: transfer.start,
            retransmissions: 0,
            timeouts: Some(0),
            recoveries: Some(0),
            complete: true,
            aborted: false,
            received: None,
            tcp_info: None,
        }
    }
}

/// Receiving end of a flow.
struct Sink {
    socket: UdpSocket,
    flow: usize,
    spec: FlowSpec,
}

impl Sink {
    fn receive(&self, run: &Run) -> io::Result<Received> {
        let Some(format) = Format::of(&self.spec.app) else { return Ok(Received::default()) };
        let mut log = match self.spec.app {
            App::Call(config) => Some(CallLog::new(config, self.spec.start)),
            _ => None,
        };
        // As in the simulator, all bytes are payload if headers do not count.
        let (below, headers) = match self.spec.tcp[0].common.headers {
            HeaderAccounting::Full => (0, format.header_len() as u64),
            HeaderAccounting::Ns2 | HeaderAccounting::Ns2AcksOnly => (u64::from(BELOW), 0),
        };
        let mut received = Received { end: self.spec.start, complete: true, ..Received::default() };
        let mut buffer = vec![0; LONGEST];
        while let Some(len) = run.retry(&self.socket, PollFlags::IN, || self.take(&mut buffer))? {
            let now = run.clock.now();
            let bytes = buffer.get(..len).unwrap_or_default();
            if let (Some(log), Body::Media { number }) = (&mut log, format.body(bytes)) {
                log.take(now, number);
            }
            received.bytes += (len as u64 + below).saturating_sub(headers);
            received.end = now;
        }
        received.call = log.map(|log| Box::new(log.report(run.ended())));
        Ok(received)
    }

    /// Receives a datagram. Ignores reports that one of the other direction was not deliverable.
    fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.socket.recv(buffer) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(io::ErrorKind::Interrupted.into()),
            outcome => outcome,
        }
    }
}

/// Receiving ends of all datagram flows to a host.
struct Listener(Vec<Sink>);

impl Acceptor for Listener {
    fn accept_all(self: Box<Self>, run: &Run, _: &[(usize, u16, Transfer)]) -> io::Result<Accepted> {
        thread::scope(|scope| {
            let sinks: Vec<_> = self.0.iter().map(|sink| (sink.flow, scope.spawn(move || sink.receive(run)))).collect();
            sinks.into_iter().map(|(flow, sink)| Ok((flow, join(sink)?))).collect()
        })
    }
}
