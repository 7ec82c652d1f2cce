//! State that both ends of a session have: keys, numbers, a source and a sink.

use std::collections::VecDeque;
use std::net::SocketAddr;

use lasthop_proto::time::Instant;

use crate::key::Key;
use crate::sink::Sink;
use crate::source::{Sent, Source};
use crate::wire::{Cookie, Header, Kind, Nonce, Reader, open, overhead, seal};

/// Received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'b> {
    /// Time at which the kernel received it, by this end's clock.
    pub at: Instant,
    /// Address of the sender.
    pub from: SocketAddr,
    /// DSCP on arrival.
    pub dscp: u8,
    /// UDP payload.
    pub bytes: &'b [u8],
}

/// Datagram to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Destination.
    pub to: SocketAddr,
    /// DSCP.
    pub dscp: u8,
    /// UDP payload.
    pub bytes: Vec<u8>,
}

/// Counts that one end reports to the other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Totals {
    pub sent: u32,
    pub received: u32,
    pub duplicates: u32,
    /// Datagrams that this end's kernel dropped because the receive buffer was full.
    pub overruns: u32,
    /// Number of the latest order.
    pub order: u16,
}

/// Encoded size of [`Totals`], in bytes.
pub(crate) const TOTALS: usize = 18;

impl Totals {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = [self.sent, self.received, self.duplicates, self.overruns].map(u32::to_be_bytes).concat();
        bytes.extend(self.order.to_be_bytes());
        bytes
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            sent: reader.u32()?,
            received: reader.u32()?,
            duplicates: reader.u32()?,
            overruns: reader.u32()?,
            order: reader.u16()?,
        })
    }
}

/// Role of this end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Caller,
    Called,
}

/// Protocol message that waits to be sent.
struct Message {
    kind: Kind,
    body: Vec<u8>,
    len: usize,
}

/// One end of a session.
pub(crate) struct End {
    pub peer: SocketAddr,
    pub id: u32,
    send: Key,
    receive: Key,
    pub source: Source,
    pub sink: Sink,
    messages: VecDeque<Message>,
}

/// Maximum number of waiting messages; the other end repeats its request for those that are dropped.
const MOST_MESSAGES: usize = 64;

impl End {
    /// Creates the end of the session that `nonce` and `cookie` identify.
    pub(crate) fn new(key: &Key, side: Side, peer: SocketAddr, nonce: &Nonce, cookie: &Cookie, rate: u64) -> Self {
        let derive = |label: &[u8]| key.derive(&[b"lasthop probe ", label, nonce, cookie]);
        let (caller, called) = (derive(b"caller"), derive(b"called"));
        let id = Reader(&key.tag(&[b"lasthop probe session", nonce, cookie])).u32().unwrap_or_default();
        let (send, receive) = match side {
            Side::Caller => (caller, called),
            Side::Called => (called, caller),
        };
        Self { peer, id, send, receive, source: Source::new(rate), sink: Sink::default(), messages: VecDeque::new() }
    }

    /// Returns the key that authenticates the called end's acceptance.
    pub(crate) fn acceptance(key: &Key, cookie: &Cookie) -> Key {
        key.derive(&[b"lasthop probe accept", cookie])
    }

    /// Authenticates a datagram. Returns `None` if it is not from the peer or is a duplicate.
    pub(crate) fn receive<'b>(&mut self, datagram: &Datagram<'b>) -> Option<(Header, &'b [u8])> {
        if datagram.from != self.peer {
            return None;
        }
        let (header, body) = open(&self.receive, datagram.bytes).filter(|(header, _)| header.session == self.id)?;
        let size = u16::try_from(datagram.bytes.len()).ok()?.checked_add(overhead(&self.peer))?;
        self.sink.take(datagram.at, &header, size, datagram.dscp).then_some((header, body))
    }

    /// Queues a message, padded to `len` bytes.
    pub(crate) fn post(&mut self, kind: Kind, body: Vec<u8>, len: usize) {
        if self.messages.len() < MOST_MESSAGES {
            self.messages.push_back(Message { kind, body, len });
        }
    }

    pub(crate) fn totals(&self, overruns: u32) -> Totals {
        Totals {
            sent: self.source.log().len() as u32,
            received: self.sink.arrivals().len() as u32,
            duplicates: self.sink.duplicates,
            overruns,
            order: self.source.latest(),
        }
    }

    pub(crate) fn poll_deadline(&self) -> Option<Instant> {
        if self.messages.is_empty() { self.source.poll_deadline() } else { Some(Instant::ZERO) }
    }

    /// Returns the next packet that is due; messages have priority.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Transmit> {
        if self.source.is_full() {
            self.messages.clear();
            return None;
        }
        let overhead = overhead(&self.peer);
        let (kind, sent, body, len) = match self.messages.pop_front() {
            Some(Message { kind, body, len }) => {
                let len = len.max(crate::wire::HEADER + body.len());
                let size = (len as u16).saturating_add(overhead);
                (kind, Sent { at: now, size, order: 0, index: 0, dscp: 0 }, body, len)
            }
            None => {
                let sent = self.source.poll(now)?;
                (Kind::Data, sent, Vec::new(), usize::from(sent.size.saturating_sub(overhead)))
            }
        };
        let seq = self.source.number(sent);
        let header = Header {
            kind,
            session: self.id,
            seq,
            order: sent.order,
            index: sent.index,
            dscp: sent.dscp,
            sent: now.as_nanos(),
        };
        Some(Transmit { to: self.peer, dscp: sent.dscp, bytes: seal(&self.send, &header, &body, len) })
    }
}
