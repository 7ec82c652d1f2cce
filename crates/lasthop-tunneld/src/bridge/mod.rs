//! End between an interface towards the hop and the sender of its frames, usually a bridge.
//!
//! | module | contents |
//! |---|---|
//! | `lines` | interfaces by which the tunnel's frames leave and arrive |
//! | `stand_in` | the device as port of the bridge in place of a disabled interface |
//! | [`programs`] | BPF programs that redirect frames to the device and back, and let them pass without a heartbeat |
//! | [`check`] | checks of the machine |

pub mod check;
mod lines;
pub mod programs;
mod stand_in;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use lasthop_daemon::bridge::{self, KernelError};
use lasthop_daemon::heartbeat::Heartbeat;
use lasthop_daemon::interfaces;
use lasthop_proto::time::Instant;
use lasthop_sys::bpf::Link;
use lasthop_sys::packet_socket::frame::ETHERNET;
use rustix::io::Errno;
use tun_rs::{DeviceBuilder, Layer};

use self::lines::Lines;
use self::programs::Ends;
use self::stand_in::StandIn;
use crate::engine::{Datagram, Engine, Outbox};
use crate::inner::frame::LENGTH;
use crate::plan::HopInterface;

/// Overhead of an IP packet on the hop beyond its own size, after the Ethernet header there, in bytes: length of the
/// datagram, session, link, length of the frame, its header and one VLAN tag.
pub const ADDED: usize = 2 + crate::plan::ADDED as usize + LENGTH + ETHERNET + 4;
/// Length of the device's queue, in frames.
const QUEUE: u32 = 1_000;
/// Maximum length of a frame from the device, in bytes: the kernel segments super-segments first.
const LONGEST: usize = 65_550;
/// Lower bound of the device's file descriptor. The programs' descriptors are below it: when the process ends, the
/// kernel closes lower ones first, so that no frame is redirected to a closed device.
const HIGH: i32 = 256;

/// Reason why frames cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// An interface of that name exists.
    #[error("device {0}: an interface with this name already exists; set `device` to another name")]
    Exists(String),
    /// The interface is unsuitable.
    #[error("{0}")]
    Interface(String),
    /// Another tunnel uses the interface.
    #[error("interface {0}: another tunnel already intercepts its frames; frames would loop between the two")]
    Taken(String),
    /// The kernel refused an operation.
    #[error("interface {interface}: {error}")]
    Kernel {
        /// The interface.
        interface: String,
        /// The operation and its error.
        error: KernelError,
    },
}

/// Returns a closure for `map_err` that adds the interface.
fn at(interface: &str) -> impl FnOnce(KernelError) -> BridgeError {
    move |error| BridgeError::Kernel { interface: interface.to_owned(), error }
}

/// Returns a closure for `map_err` that adds the operation and the interface.
fn kernel(interface: &str, what: &'static str) -> impl FnOnce(io::Error) -> BridgeError {
    move |error| at(interface)(bridge::kernel(what)(error))
}

/// Frames of the inner network from a device, and the tunnel's frames at the interface towards the hop.
pub struct Bridge {
    hop: HopInterface,
    _claims: Vec<UnixDatagram>,
    heartbeat: Heartbeat,
    _links: Vec<Link>,
    lines: Lines,
    /// With several lines.
    stand_in: Option<StandIn>,
    device: OwnedFd,
    /// Frame from the device.
    buffer: Vec<u8>,
    /// Number of frames that the device refused.
    refused: u64,
}

impl Bridge {
    /// Creates the device and attaches the programs, or fails without effect. `lines` are the interfaces of paths after
    /// the first; `entropy` selects the mark.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn open(
        device: &str,
        (hop, lines): (&HopInterface, &[String]),
        silence: Duration,
        entropy: u32,
    ) -> Result<Self, BridgeError> {
        if interfaces::folder(device).exists() {
            return Err(BridgeError::Exists(device.to_owned()));
        }
        let claims = reserve(hop, lines)?;
        let mark = (entropy >> 1).max(1);
        let heartbeat = Heartbeat::new(silence).map_err(kernel(&hop.name, "BPF maps"))?;
        let filter = programs::filter().map_err(kernel(&hop.name, "socket filter"))?;
        let mut stand_in =
            (!lines.is_empty()).then(|| StandIn::new(&hop.name).map_err(kernel(&hop.name, "BPF maps"))).transpose()?;
        let lines = Lines::open(hop, lines, &filter, mark)?;
        let (tap, index) = open_device(device, stand_in.is_some().then_some(hop)).map_err(kernel(device, "device"))?;
        let ends = Ends { hop: hop.index, device: index, mark };
        let map = stand_in.as_mut().map(|stand_in| {
            stand_in.set_device(index);
            stand_in.map()
        });
        let links = programs::attach(ends, &heartbeat, map).map_err(kernel(&hop.name, "BPF programs (tcx)"))?;
        Ok(Self {
            hop: hop.clone(),
            _claims: claims,
            heartbeat,
            _links: links,
            lines,
            stand_in,
            device: tap,
            buffer: vec![0; LONGEST],
            refused: 0,
        })
    }

    /// Returns the descriptor to wait on for frames of the inner network.
    pub fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Returns the descriptor to wait on for frames of the tunnel.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.lines.descriptor()
    }

    /// Returns the number of frames that the system refused, or that belong to an unusable interface.
    pub fn unsent(&self) -> u64 {
        self.refused + self.lines.unsent
    }

    /// Passes one waiting frame of the inner network to the engine. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// Returns an error if the device was removed.
    pub fn take_frame(&mut self, now: Instant, engine: &mut Engine) -> io::Result<bool> {
        match rustix::io::read(&self.device, &mut self.buffer[..]) {
            Ok(length) => {
                engine.handle_packet(now, &mut self.buffer[..length]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes one batch of datagrams of each line to the engine. Returns whether there may be more.
    ///
    /// # Errors
    ///
    /// Returns an error if the socket cannot be read.
    pub fn take_datagrams(&mut self, now: Instant, engine: &mut Engine) -> io::Result<bool> {
        self.lines.take(now, engine)
    }

    /// Sends the engine's frames for the hop and for the device.
    pub fn give(&mut self, now: Instant, engine: &mut Engine) {
        engine.send(now, self);
        while let Some(frame) = engine.poll_plain() {
            self.lines.put_plain(frame);
        }
        self.lines.flush();
        let Self { device, refused, .. } = self;
        let mut write = |frame: &[u8]| {
            if let Err(error) = rustix::io::write(&*device, frame) {
                tracing::debug!(%error, "cannot write a frame to the device");
                *refused += 1;
            }
        };
        while engine.poll_packet(&mut write) {}
    }

    /// Updates the heartbeat, on which the redirection of frames depends.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn beat(&mut self, takes: bool) -> io::Result<()> {
        if !takes {
            return self.heartbeat.rest();
        }
        if let Some(silence) = self.heartbeat.beat()? {
            let silence_ms = silence.as_millis() as u64;
            tracing::debug!(silence_ms, "the packet loop stalled; frames passed unrepaired");
        }
        Ok(())
    }

    /// Uses the device as port of the bridge while the bridge has disabled the interface towards the hop.
    pub fn look_after_port(&mut self) {
        if let Some(Err(error)) = self.stand_in.as_mut().map(StandIn::look_after) {
            tracing::error!(%error, interface = self.hop.name, "cannot remove the device from the bridge");
        }
    }

    /// Checks the interface towards the hop, and finds those of other paths.
    ///
    /// # Errors
    ///
    /// Returns an error if the former was replaced, or its MTU or address changed: a new worker can use it.
    pub fn look_up(&mut self, now: Instant, engine: &mut Engine) -> io::Result<()> {
        self.lines.look_up(now, engine, &self.hop.name);
        match HopInterface::find(&self.hop.name) {
            Ok(hop) if hop != self.hop => {
                Err(io::Error::other(format!("interface {} was replaced, or its MTU or address changed", hop.name)))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Outbox for Bridge {
    fn put(&mut self, datagram: Datagram<'_>) {
        self.lines.put(datagram);
    }
}

/// Creates a TAP device in state up and returns it with its index. It has no offloads, so its frames are segmented and
/// have checksums. If it is to stand in for an interface at a bridge, it has the address and MTU of that interface, from
/// which the bridge derives its own.
fn open_device(name: &str, like: Option<&HopInterface>) -> io::Result<(OwnedFd, u32)> {
    let mut builder = DeviceBuilder::new().name(name).layer(Layer::L2).tx_queue_len(QUEUE);
    if let Some(HopInterface { mtu, mac, .. }) = like {
        builder = builder.mtu(*mtu).mac_addr(*mac);
    }
    let tap = builder.build_sync()?;
    tap.set_nonblocking(true)?;
    let index = tap.if_index()?;
    Ok((rustix::io::fcntl_dupfd_cloexec(tap.as_fd(), HIGH)?, index))
}

/// Reserves the interface towards the hop, and those of other paths that exist.
fn reserve(hop: &HopInterface, lines: &[String]) -> Result<Vec<UnixDatagram>, BridgeError> {
    let others = lines.iter().filter_map(|name| HopInterface::find(name).ok());
    let reserve = |interface: HopInterface| {
        claim(&interface).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => BridgeError::Taken(interface.name),
            _ => kernel(&interface.name, "claim")(error),
        })
    };
    std::iter::once(hop.clone()).chain(others).map(reserve).collect()
}

/// Reserves the interface towards the hop for one tunnel until the returned value is dropped. Abstract socket names
/// belong to a network namespace, as interface indices do, and disappear with the process.
///
/// # Errors
///
/// Returns `AddrInUse` if another tunnel uses it.
pub(crate) fn claim(hop: &HopInterface) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("lasthop tunnel at interface {}", hop.index))?)
}
