//! Lines to the other end: interfaces by which the tunnel's frames leave and arrive. The first is the interface towards
//! the hop, at which the programs are attached. The others are no ports of a bridge.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use lasthop_daemon::bridge::{Port, Received};
use lasthop_proto::packet::Ecn;
use lasthop_proto::time::Instant;
use lasthop_sys::bpf::Program;
use lasthop_sys::packet_socket::frame::{ETHERNET, LinkHeader, Offload, Outgoing};
use lasthop_tunnel::{Mac, Origin, SocketId};

use super::{BridgeError, at};
use crate::engine::{Datagram, Engine};
use crate::ethernet;
use crate::plan::HopInterface;
use crate::readiness;

/// One line.
struct Line {
    /// State of the interface, or the reason why it cannot be used.
    interface: Result<HopInterface, String>,
    port: Port,
    /// Frames to be sent with the next flush.
    out: Vec<Vec<u8>>,
}

impl Line {
    /// Opens the socket of an interface, which receives nothing before the interface is found.
    fn open(name: &str, filter: &Program, mark: u32) -> Result<Self, BridgeError> {
        let port = Port::unbound(name, filter).map_err(at(name))?;
        port.set_mark(mark).map_err(at(name))?;
        Ok(Self { interface: Err(String::new()), port, out: Vec::new() })
    }

    /// Passes one batch of datagrams to the engine, through `datagram`. Returns whether there may be more.
    fn take(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        socket: SocketId,
        datagram: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let is_usable = self.interface.is_ok();
        let received = self.port.receive(|arrival| {
            if let Some((from, bytes)) = ethernet::unwrap(arrival.bytes).filter(|_| is_usable) {
                datagram.clear();
                datagram.extend_from_slice(bytes);
                let from = Origin { address: from.address(), socket };
                engine.handle_datagram(now, from, None, Ecn::NotEct, datagram);
            }
        })?;
        Ok(received != Received::All)
    }

    /// Sends the waiting frames. Returns the number of frames that the kernel refused.
    fn flush(&mut self) -> u64 {
        let outgoing = self.out.iter().filter_map(|frame| {
            let (link, packet) = (LinkHeader::new(frame, None)?, Cow::Borrowed(&frame[ETHERNET..]));
            Some(Outgoing { offload: Offload::default(), link, packet })
        });
        let outgoing: Vec<_> = outgoing.collect();
        let refused = if outgoing.is_empty() { 0 } else { self.port.send(&outgoing) };
        drop(outgoing);
        self.out.clear();
        refused
    }

    /// Updates the state of the interface of a path after the first. Returns whether it can be used anew, or has another
    /// MTU.
    fn look_up(&mut self, hop: &str) -> Option<&HopInterface> {
        let name = self.port.name().to_owned();
        let found = HopInterface::find_line(&name, hop);
        let found = found.and_then(|found| found.ok_or_else(|| format!("interface {name} does not exist")));
        if found == self.interface {
            return None;
        }
        let index = self.interface.as_ref().map_or(0, |before| before.index);
        self.interface = found.and_then(|found| {
            let is_same = found.index == index;
            let bound = if is_same { Ok(()) } else { self.port.bind(found.index) };
            bound.map(|()| found).map_err(|error| format!("interface {name}: {error}"))
        });
        match &self.interface {
            Ok(HopInterface { mtu, .. }) => tracing::info!(interface = name, mtu, "interface of a path found"),
            Err(reason) => tracing::warn!(reason, "the interface of a path cannot be used; the path waits for it"),
        }
        self.interface.as_ref().ok()
    }
}

/// All lines.
pub(super) struct Lines {
    /// By socket.
    lines: Vec<Line>,
    /// Descriptor that waits for frames on all lines, if there are several.
    any: Option<OwnedFd>,
    datagram: Vec<u8>,
    /// Number of frames that were not sent.
    pub(super) unsent: u64,
}

impl Lines {
    /// Opens the interface towards the hop, and sockets for those of other paths, which need not exist yet. Sent frames
    /// have the mark.
    pub(super) fn open(
        hop: &HopInterface,
        others: &[String],
        filter: &Program,
        mark: u32,
    ) -> Result<Self, BridgeError> {
        let mut first = Line::open(&hop.name, filter, mark)?;
        first.port.bind(hop.index).map_err(at(&hop.name))?;
        first.interface = Ok(hop.clone());
        let mut lines = vec![first];
        for name in others {
            lines.push(Line::open(name, filter, mark)?);
        }
        let any =
            readiness::any_of(lines.iter().map(|line| line.port.as_fd())).map_err(super::kernel(&hop.name, "epoll"))?;
        Ok(Self { lines, any, datagram: Vec::new(), unsent: 0 })
    }

    /// Returns the descriptor to wait on for frames of the tunnel.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.any.as_ref().map_or_else(|| self.lines[0].port.as_fd(), AsFd::as_fd)
    }

    /// Passes one batch of datagrams of each line to the engine. Returns whether there may be more.
    pub(super) fn take(&mut self, now: Instant, engine: &mut Engine) -> io::Result<bool> {
        let Self { lines, datagram, .. } = self;
        let mut more = false;
        for (line, socket) in lines.iter_mut().zip(0..) {
            more |= line.take(now, engine, SocketId(socket), datagram)?;
        }
        Ok(more)
    }

    /// Adds a datagram of the tunnel to the frames to be sent.
    pub(super) fn put(&mut self, datagram: Datagram<'_>) {
        let line = self.lines.get_mut(usize::from(datagram.socket.0));
        match (line, Mac::of(datagram.to)) {
            (Some(Line { interface: Ok(interface), out, .. }), Some(to)) => {
                out.push(ethernet::wrap(to, Mac(interface.mac), datagram.bytes));
            }
            _ => self.unsent += 1,
        }
    }

    /// Adds a frame that bypasses the tunnel to those to be sent by the interface towards the hop.
    pub(super) fn put_plain(&mut self, frame: Vec<u8>) {
        self.lines[0].out.push(frame);
    }

    /// Sends the waiting frames.
    pub(super) fn flush(&mut self) {
        self.unsent += self.lines.iter_mut().map(Line::flush).sum::<u64>();
    }

    /// Finds the interfaces of the paths after the first, which may appear, disappear, or change.
    pub(super) fn look_up(&mut self, now: Instant, engine: &mut Engine, hop: &str) {
        for (line, socket) in self.lines.iter_mut().zip(0..).skip(1) {
            if let Some(found) = line.look_up(hop) {
                engine.set_link_mtu(now, SocketId(socket), found.mtu);
            }
        }
    }
}
