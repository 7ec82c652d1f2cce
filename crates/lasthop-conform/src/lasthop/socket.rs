//! Sockets of a host: what lies between socket calls and a connection.

use std::collections::VecDeque;

use lasthop_proto::packet::Side;
use lasthop_proto::tcp::config::{Nagle, Switch, TcpConfig};
use lasthop_proto::tcp::{Connection, Keepalive, State};
use lasthop_proto::time::{Duration, Instant};

use crate::stack::{Errno, Readiness, Shutdown, WriteFlags};

/// Options that a socket passes to its connection.
#[derive(Clone, Copy, Default)]
pub(super) struct Options {
    /// Seconds of `SO_LINGER`; negative if it is off.
    pub(super) linger: Option<i64>,
    no_delay: bool,
    is_corked: bool,
    send_buffer: Option<u32>,
    receive_buffer: Option<u32>,
    /// Limit of unsent data; `None` for the host's.
    unsent: Option<u32>,
    /// Milliseconds of `TCP_USER_TIMEOUT`.
    user_timeout: Option<u32>,
    keepalive: Option<Keepalive>,
    is_kept_alive: bool,
}

/// Times of Linux's keepalive, unless an option changes them.
const KEEPALIVE: Keepalive =
    Keepalive { idle: Duration::from_secs(7200), interval: Duration::from_secs(75), probes: 9 };

impl Options {
    /// Sets the options of a connection that can change while it lives. `unsent` is the host's limit of unsent data.
    pub(super) fn set_on(&self, now: Instant, connection: &mut Connection, unsent: Option<u32>) {
        let switch = |is_on| if is_on { Switch::On } else { Switch::Off };
        if self.no_delay {
            connection.set_nodelay(Switch::On);
        }
        connection.set_cork(switch(self.is_corked));
        connection.set_notsent_lowat(self.unsent.or(unsent));
        connection.set_user_timeout(self.user_timeout.map(|millis| Duration::from_millis(millis.into())));
        let keepalive = self.keepalive.unwrap_or(KEEPALIVE);
        connection.set_keepalive(now, self.is_kept_alive.then_some(keepalive));
    }

    /// Changes an option that a connection may have while it lives; returns whether it is one.
    fn change(&mut self, name: &str, value: i64) -> bool {
        let number = u32::try_from(value).unwrap_or(u32::MAX);
        let seconds = Duration::from_secs(number.into());
        let keepalive = self.keepalive.unwrap_or(KEEPALIVE);
        match name {
            "TCP_NODELAY" => self.no_delay = value != 0,
            "TCP_CORK" => self.is_corked = value != 0,
            "TCP_NOTSENT_LOWAT" => self.unsent = Some(number).filter(|bytes| *bytes > 0),
            "TCP_USER_TIMEOUT" => self.user_timeout = Some(number).filter(|millis| *millis > 0),
            "SO_KEEPALIVE" => self.is_kept_alive = value != 0,
            "TCP_KEEPIDLE" => self.keepalive = Some(Keepalive { idle: seconds, ..keepalive }),
            "TCP_KEEPINTVL" => self.keepalive = Some(Keepalive { interval: seconds, ..keepalive }),
            "TCP_KEEPCNT" => self.keepalive = Some(Keepalive { probes: number, ..keepalive }),
            _ => return false,
        }
        true
    }

    /// Changes the settings of a connection.
    pub(super) fn apply(&self, config: &mut TcpConfig) {
        if self.no_delay {
            config.common.nagle = Nagle::Off;
        }
        if let Some(bytes) = self.send_buffer {
            config.common.send_buffer = bytes;
        }
        if let Some(bytes) = self.receive_buffer {
            config.receiver.receive_buffer = bytes;
        }
    }
}

/// A socket.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) port: Option<u16>,
    pub(super) options: Options,
    pub(super) is_closed: bool,
}

#[derive(Default)]
pub(super) enum Kind {
    /// Neither connected nor listening.
    #[default]
    Fresh,
    /// Listens; the connections that wait for `accept`.
    Listener(VecDeque<usize>),
    Connection(Box<Live>),
}

/// A connection with its socket's state.
pub(super) struct Live {
    pub(super) connection: Connection,
    pub(super) ports: (u16, u16),
    pub(super) side: Side,
    /// Socket that accepts it.
    pub(super) listener: Option<usize>,
    pub(super) is_established: bool,
    /// True after `connect` has reported the result.
    is_reported: bool,
    /// True if the script has ended reading.
    ends_reading: bool,
    /// True if the script has ended writing.
    ends_writing: bool,
    /// Error that the next call reports.
    error: Option<Errno>,
    /// State before the last event.
    last_state: State,
    /// True after a reset or timeout.
    is_aborted: bool,
}

impl Live {
    pub(super) fn new(connection: Connection, ports: (u16, u16)) -> Self {
        let last_state = connection.state();
        Self {
            side: if last_state == State::SynSent { Side::Initiator } else { Side::Acceptor },
            connection,
            ports,
            listener: None,
            is_established: false,
            is_reported: false,
            ends_reading: false,
            ends_writing: false,
            error: None,
            last_state,
            is_aborted: false,
        }
    }

    /// Records the state, from which a later abort is explained.
    pub(super) fn note_state(&mut self) {
        if self.connection.state() != State::Closed {
            self.last_state = self.connection.state();
        }
    }

    /// Records that the connection was reset or given up.
    pub(super) fn on_abort(&mut self, by_timer: bool, is_linux: bool) {
        self.is_aborted = true;
        self.error = Some(match self.last_state {
            _ if by_timer => Errno::TimedOut,
            State::SynSent => Errno::ConnRefused,
            State::SynReceived if !is_linux => Errno::ConnRefused,
            State::CloseWait if is_linux => Errno::Pipe,
            _ => Errno::ConnReset,
        });
    }

    /// Answers a repeated `connect`.
    pub(super) fn connect_again(&mut self) -> Result<(), Errno> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if !self.is_established {
            return Err(Errno::Already);
        }
        if std::mem::replace(&mut self.is_reported, true) { Err(Errno::IsConnected) } else { Ok(()) }
    }

    pub(super) fn write(&mut self, now: Instant, bytes: u64, flags: WriteFlags) -> Result<u64, Errno> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.ends_writing || self.is_aborted {
            return Err(Errno::Pipe);
        }
        if !self.is_established {
            return Err(Errno::Again);
        }
        if flags.more {
            self.connection.write_more(bytes);
            return Ok(bytes);
        }
        if flags.end_of_record {
            self.connection.write_record(bytes);
            return Ok(bytes);
        }
        match self.connection.offer(now, bytes) {
            0 if bytes > 0 => Err(Errno::Again),
            taken => Ok(taken),
        }
    }

    pub(super) fn read(&mut self, bytes: u64, peek: bool) -> Result<u64, Errno> {
        let taken = self.connection.readable().min(bytes);
        if taken > 0 {
            if !peek {
                self.connection.read(taken);
            }
            return Ok(taken);
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.connection.peer_closed() || self.ends_reading || self.is_aborted {
            return Ok(0);
        }
        if self.is_established { Err(Errno::Again) } else { Err(Errno::NotConnected) }
    }

    pub(super) fn shutdown(&mut self, how: Shutdown) -> Result<(), Errno> {
        if self.is_aborted || self.last_state == State::TimeWait {
            return Err(Errno::NotConnected);
        }
        if !self.is_established && self.connection.state() == State::SynSent {
            return Err(Errno::NotConnected);
        }
        if how != Shutdown::Write {
            self.ends_reading = true;
        }
        if how != Shutdown::Read && !std::mem::replace(&mut self.ends_writing, true) {
            self.connection.close();
        }
        Ok(())
    }

    /// Closes the connection. Linux resets it if data was not read (RFC 2525 §2.17), or if more arrives.
    pub(super) fn close(&mut self, now: Instant, linger: Option<i64>, is_linux: bool) {
        if linger == Some(0) {
            self.connection.abort();
        } else if is_linux {
            self.ends_writing = true;
            self.connection.release(now);
        } else if !std::mem::replace(&mut self.ends_writing, true) {
            self.connection.close();
        }
    }
}

impl Entry {
    pub(super) fn set_option(
        &mut self,
        now: Instant,
        name: &str,
        value: i64,
        unsent: Option<u32>,
    ) -> Result<(), Errno> {
        if self.options.change(name, value) {
            if let Kind::Connection(live) = &mut self.kind {
                let is_set = name == "TCP_NODELAY" && value == 0;
                if is_set {
                    live.connection.set_nodelay(Switch::Off);
                }
                self.options.set_on(now, &mut live.connection, unsent);
            }
            return Ok(());
        }
        let bytes = || u32::try_from(value).ok();
        match name {
            "SO_LINGER" => self.options.linger = Some(value),
            "SO_SNDBUF" => self.options.send_buffer = bytes().map(|bytes| bytes.max(2048)),
            "SO_RCVBUF" => self.options.receive_buffer = bytes().map(|bytes| bytes.max(2048)),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn option(&mut self, name: &str) -> Result<Option<i64>, Errno> {
        match (name, &mut self.kind) {
            ("SO_ERROR", Kind::Connection(live)) => Ok(Some(live.error.take().map_or(0, Errno::number))),
            ("SO_ERROR", _) => Ok(Some(0)),
            ("SIOCINQ", Kind::Connection(live)) => Ok(Some(live.connection.readable() as i64)),
            ("SIOCOUTQ", Kind::Connection(live)) => Ok(Some(live.connection.unacked() as i64)),
            ("TCP_MAXSEG", Kind::Connection(live)) => Ok(Some(live.connection.info().snd_mss.into())),
            ("TCP_NODELAY", _) => Ok(Some(self.options.no_delay.into())),
            ("TCP_NOTSENT_LOWAT", _) => Ok(Some(self.options.unsent.unwrap_or(0).into())),
            ("TCP_USER_TIMEOUT", _) => Ok(Some(self.options.user_timeout.unwrap_or(0).into())),
            _ => Ok(None),
        }
    }

    pub(super) fn readiness(&self) -> Readiness {
        match &self.kind {
            Kind::Fresh => Readiness { writable: true, closed: true, ..Readiness::default() },
            Kind::Listener(ready) => Readiness { readable: !ready.is_empty(), ..Readiness::default() },
            Kind::Connection(live) => {
                let ended = live.connection.peer_closed() || live.is_aborted || live.ends_reading;
                let both = ended && (live.ends_writing || live.is_aborted);
                Readiness {
                    readable: live.connection.readable() > 0 || ended,
                    writable: live.is_established || live.is_aborted,
                    read_closed: ended,
                    closed: both,
                    error: live.error.is_some(),
                }
            }
        }
    }
}

/// Returns the reason why an option cannot be set.
pub(super) fn lacks_set(name: &str) -> Option<String> {
    const SUPPORTED: [&str; 16] = [
        "SO_REUSEADDR",
        "SO_REUSEPORT",
        "SO_LINGER",
        "SO_KEEPALIVE",
        "SO_SNDBUF",
        "SO_RCVBUF",
        "SO_PRIORITY",
        "IPV6_V6ONLY",
        "TCP_QUICKACK",
        "TCP_NODELAY",
        "TCP_CORK",
        "TCP_NOTSENT_LOWAT",
        "TCP_USER_TIMEOUT",
        "TCP_KEEPIDLE",
        "TCP_KEEPINTVL",
        "TCP_KEEPCNT",
    ];
    (!SUPPORTED.contains(&name)).then(|| format!("socket option {name}"))
}

/// Returns the reason why an option cannot be read.
pub(super) fn lacks_get(name: &str) -> Option<String> {
    const SUPPORTED: [&str; 8] = [
        "SO_ERROR",
        "SO_RCVBUF",
        "SO_SNDBUF",
        "SO_REUSEADDR",
        "TCP_MAXSEG",
        "TCP_NODELAY",
        "TCP_NOTSENT_LOWAT",
        "TCP_USER_TIMEOUT",
    ];
    (!SUPPORTED.contains(&name)).then(|| format!("reading of socket option {name}"))
}

/// Returns the states of RFC 9293 that `sockstat` has under a name.
pub(super) fn state(name: &str) -> Option<&'static [State]> {
    Some(match name {
        "CLOSED" => &[State::Closed],
        "LISTEN" => &[State::Listen],
        "SYN_SENT" => &[State::SynSent],
        "SYN_RCVD" => &[State::SynReceived],
        "ESTABLISHED" => &[State::Established],
        "FIN_WAIT_1" => &[State::FinWait1],
        "FIN_WAIT_2" => &[State::FinWait2],
        "CLOSE_WAIT" => &[State::CloseWait],
        "CLOSING" => &[State::Closing],
        "LAST_ACK" => &[State::LastAck],
        "TIME_WAIT" => &[State::TimeWait],
        _ => return None,
    })
}
