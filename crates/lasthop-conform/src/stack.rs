//! Contract of a stack under test.
//!
//! A [`Stack`] is a host with sockets: a state machine without I/O, driven in virtual time like the
//! [nodes](lasthop_proto::node::Node) of lasthop. The runner makes the socket calls of a script and passes the script's
//! segments to the stack; then it drains [`Stack::poll_transmit`] and reads [`Stack::poll_deadline`]. Calls never
//! block: a call that would, returns [`Errno::Again`], and the runner repeats it after the next event if the script's
//! socket blocks.

use std::collections::BTreeMap;

use lasthop_proto::packet::{Ecn, Flags};
use lasthop_proto::time::Instant;

use crate::script::{EcnSpec, OptionsSpec, SegmentSpec, TcpOption};

/// Host that a script requires.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// True for IPv6.
    pub is_ipv6: bool,
    /// Maximum length of a packet, IP header included.
    pub mtu: u32,
    /// Variables, by the name that `sysctl` has for them, as the script sets them in front of its events.
    pub settings: BTreeMap<String, String>,
}

impl Default for Host {
    fn default() -> Self {
        Self { is_ipv6: false, mtu: 1500, settings: BTreeMap::new() }
    }
}

/// Something that a script requires of a stack beyond plain transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need<'a> {
    /// A variable of the host that the script sets: name and value.
    Setting(&'a str, &'a str),
    /// A socket option that the script sets, by name.
    SetOption(&'a str),
    /// A socket option that the script reads, by name.
    GetOption(&'a str),
    /// A field of `tcp_info`, by its name in the kernel, such as `tcpi_snd_cwnd`.
    Info(&'a str),
    /// A TCP option in a segment.
    TcpOption(&'a TcpOption),
    /// A flag of `send` or `recv`, by name.
    CallFlag(&'a str),
    /// The number of connections in a state: its name in `sockstat`.
    State(&'a str),
}

/// Number of a socket. The stack chooses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Socket(pub usize);

/// Errors of socket calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Errno {
    Again,
    Already,
    BadFile,
    ConnAborted,
    ConnRefused,
    ConnReset,
    InProgress,
    Invalid,
    IsConnected,
    NoProtocolOption,
    NotConnected,
    NotSupported,
    Pipe,
    TimedOut,
}

impl Errno {
    /// Returns the symbol, such as `EAGAIN`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Again => "EAGAIN",
            Self::Already => "EALREADY",
            Self::BadFile => "EBADF",
            Self::ConnAborted => "ECONNABORTED",
            Self::ConnRefused => "ECONNREFUSED",
            Self::ConnReset => "ECONNRESET",
            Self::InProgress => "EINPROGRESS",
            Self::Invalid => "EINVAL",
            Self::IsConnected => "EISCONN",
            Self::NoProtocolOption => "ENOPROTOOPT",
            Self::NotConnected => "ENOTCONN",
            Self::NotSupported => "EOPNOTSUPP",
            Self::Pipe => "EPIPE",
            Self::TimedOut => "ETIMEDOUT",
        }
    }

    /// Returns the number on Linux.
    pub const fn number(self) -> i64 {
        match self {
            Self::Again => 11,
            Self::Already => 114,
            Self::BadFile => 9,
            Self::ConnAborted => 103,
            Self::ConnRefused => 111,
            Self::ConnReset => 104,
            Self::InProgress => 115,
            Self::Invalid => 22,
            Self::IsConnected => 106,
            Self::NoProtocolOption => 92,
            Self::NotConnected => 107,
            Self::NotSupported => 95,
            Self::Pipe => 32,
            Self::TimedOut => 110,
        }
    }
}

/// Directions that `shutdown` ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both.
    Both,
}

/// Options of a write.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WriteFlags {
    /// More data follows at once (`MSG_MORE`).
    pub more: bool,
    /// The last byte ends a record (`MSG_EOR`).
    pub end_of_record: bool,
}

/// Events that `poll` reports of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Readiness {
    /// `POLLIN`.
    pub readable: bool,
    /// `POLLOUT`.
    pub writable: bool,
    /// `POLLRDHUP`.
    pub read_closed: bool,
    /// `POLLHUP`.
    pub closed: bool,
    /// `POLLERR`.
    pub error: bool,
}

/// A segment between the runner and a stack. Its payload has a length only.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Port of the stack under test.
    pub local_port: u16,
    /// Port of the script.
    pub remote_port: u16,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Flags of the TCP header, nine bits.
    pub flags: u16,
    /// First sequence number.
    pub seq: u32,
    /// Acknowledgment number; zero without the flag.
    pub ack: u32,
    /// Window field.
    pub window: u16,
    /// Bytes of payload.
    pub len: u32,
    /// Options without padding, in any order.
    pub options: Vec<TcpOption>,
}

impl Segment {
    /// Returns a segment of a script to a stack whose initial sequence number is `offset`. `ports` are those of the stack
    /// and of the script; `echo` returns the stack's timestamp for one that the script echoes.
    pub(crate) fn of(spec: &SegmentSpec, ports: (u16, u16), offset: u32, echo: impl Fn(u32) -> u32) -> Self {
        let has_ack = Flags(spec.flags).has(Flags::ACK);
        let mut options = match &spec.options {
            OptionsSpec::Any => Vec::new(),
            OptionsSpec::List(list) => list.clone(),
        };
        for option in &mut options {
            match option {
                TcpOption::Sack(blocks) => {
                    for (left, right) in blocks {
                        *left = left.wrapping_add(offset);
                        *right = right.wrapping_add(offset);
                    }
                }
                TcpOption::Timestamps(_, echoed) if has_ack => *echoed = echo(*echoed),
                _ => {}
            }
        }
        Self {
            local_port: ports.0,
            remote_port: ports.1,
            ecn: match spec.ecn {
                Some(EcnSpec::Is(ecn)) => ecn,
                Some(EcnSpec::Capable) => Ecn::Ect0,
                None => Ecn::NotEct,
            },
            flags: spec.flags,
            seq: spec.seq,
            ack: if has_ack { spec.ack.unwrap_or(0).wrapping_add(offset) } else { 0 },
            window: spec.window.unwrap_or(0),
            len: spec.len,
            options,
        }
    }
}

/// A TCP under test. See the [module](self) for the order of calls.
pub trait Stack {
    /// Returns the name of the stack for reports.
    fn name(&self) -> String;

    /// Returns the reason why the stack does not support something; `None` if it does. A script that needs it is then
    /// reported as not applicable.
    fn lacks(&self, _need: &Need<'_>) -> Option<String> {
        None
    }

    /// Discards all sockets and starts a host for a script.
    fn start(&mut self, host: &Host);

    /// Changes a variable of the host while the script runs.
    fn change_setting(&mut self, _name: &str, _value: &str) {}

    /// Opens a socket.
    fn open(&mut self) -> Socket;

    /// Binds a socket to a local port.
    fn bind(&mut self, _socket: Socket, _port: u16) -> Result<(), Errno> {
        Ok(())
    }

    /// Waits for connections.
    fn listen(&mut self, now: Instant, socket: Socket) -> Result<(), Errno>;

    /// Returns the socket of the next established connection of a listening socket, or [`Errno::Again`].
    fn accept(&mut self, now: Instant, socket: Socket) -> Result<Socket, Errno>;

    /// Starts to connect from and to a port. Returns [`Errno::InProgress`] after the start, and [`Errno::Already`]
    /// while the connection is not established.
    fn connect(&mut self, now: Instant, socket: Socket, ports: (u16, u16)) -> Result<(), Errno>;

    /// Writes up to `bytes` and returns the number taken, or [`Errno::Again`] if the buffer is full.
    fn write(&mut self, now: Instant, socket: Socket, bytes: u64, flags: WriteFlags) -> Result<u64, Errno>;

    /// Reads up to `bytes`, which stay with `peek`, and returns the number read; zero at the end of the stream.
    fn read(&mut self, now: Instant, socket: Socket, bytes: u64, peek: bool) -> Result<u64, Errno>;

    /// Ends directions of a connection.
    fn shutdown(&mut self, now: Instant, socket: Socket, how: Shutdown) -> Result<(), Errno>;

    /// Closes a socket.
    fn close(&mut self, now: Instant, socket: Socket) -> Result<(), Errno>;

    /// Sets an option. `SO_LINGER` has the seconds as value, or -1 if it is off.
    fn set_option(&mut self, _now: Instant, _socket: Socket, _name: &str, _value: i64) -> Result<(), Errno> {
        Ok(())
    }

    /// Returns the value of an option; `None` if the value is not modelled and is not to be compared.
    fn option(&mut self, _now: Instant, _socket: Socket, _name: &str) -> Result<Option<i64>, Errno> {
        Ok(None)
    }

    /// Returns the events that `poll` reports.
    fn readiness(&self, _socket: Socket) -> Readiness {
        Readiness::default()
    }

    /// Returns a field of `tcp_info`.
    fn info(&self, _now: Instant, _socket: Socket, _field: &str) -> Option<i64> {
        None
    }

    /// Returns the number of connections in a state of `sockstat`.
    fn count(&self, _state: &str) -> usize {
        0
    }

    /// Drops the connections in a state of `sockstat`.
    fn drop_connections(&mut self, _state: &str) {}

    /// Processes a segment that arrived.
    fn handle_segment(&mut self, now: Instant, segment: &Segment);

    /// Handles deadlines that have passed.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns the next segment to send.
    fn poll_transmit(&mut self, now: Instant) -> Option<Segment>;

    /// Returns the time at which to call [`Stack::handle_timeout`] next.
    fn poll_deadline(&self) -> Option<Instant>;
}
