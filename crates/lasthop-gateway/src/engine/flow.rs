//! One connection through the gateway.

use std::net::SocketAddr;
use std::num::NonZeroU16;

use lasthop_daemon::ab::Arm;
use lasthop_daemon::flows::{Key, Standing};
use lasthop_daemon::observe::Watch;
use lasthop_proto::node::Port;
use lasthop_proto::packet::{Flags, Side};
use lasthop_proto::pep::tracking::{Take, Tracking};
use lasthop_proto::time::Instant;
use lasthop_wire::{EXPERIMENTAL_KIND, Route, View};

/// What a link takes when nothing else is known: Ethernet's MTU.
const USUAL_MTU: usize = 1500;

/// Smallest segments that a super-segment is thought to be made of (Linux: `min_adv_mss`): bounds the work it makes.
const LEAST_SEGMENT: usize = 256;

/// The fixed part of a TCP header.
const TCP_HEADER: usize = 20;

/// Options that, agreed on by both SYNs, guard every segment: TCP-MD5, TCP-AO, MPTCP.
const GUARDS: [u8; 3] = [19, 29, 30];

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Not both ends are known to take part.
    Opening,
    /// Both are.
    Established,
    /// Both have said all that they had to say.
    Closing,
}

impl Stage {
    pub const fn standing(self) -> Standing {
        match self {
            Self::Established => Standing::Established,
            Self::Opening | Self::Closing => Standing::Doubtful,
        }
    }
}

/// What must stay as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guarded {
    Nothing,
    /// This packet.
    Packet,
    /// All of the connection.
    Connection,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Flow {
    pub key: Key,
    /// The way its first packet went: from [`Side::Initiator`], as far as is known here.
    pub first: Route,
    /// Where that came in.
    port: Port,
    pub rule: usize,
    pub arm: Arm,
    pub stage: Stage,
    pub seen: Instant,
    pub watch: Watch,
    /// What both ends could have sent and would accept.
    pub tracking: Tracking,
    /// Whose acknowledgment completes the handshake.
    opener: Option<Side>,
    /// Ports at which a SYN came in that offers to guard every segment.
    guards: [bool; 2],
}

impl Flow {
    pub fn new(key: Key, first: Route, port: Port, rule: usize, arm: Arm) -> Self {
        Self {
            key,
            first,
            port,
            rule,
            arm,
            stage: Stage::Opening,
            seen: Instant::ZERO,
            watch: Watch::default(),
            tracking: Tracking::new(),
            opener: None,
            guards: [false; 2],
        }
    }

    /// The port that a side's packets come in at.
    pub fn port_of(&self, side: Side) -> Port {
        match side {
            Side::Initiator => self.port,
            Side::Acceptor => self.port.across(),
        }
    }

    /// The side whose packets come in at a port.
    pub fn side_at(&self, port: Port) -> Side {
        if port == self.port { Side::Initiator } else { Side::Acceptor }
    }

    /// The end on the wired side.
    pub fn wired(&self) -> SocketAddr {
        if self.port == Port::WIRED { self.first.source } else { self.first.destination }
    }

    /// The end behind the lossy hop.
    pub fn wireless(&self) -> SocketAddr {
        if self.port == Port::WIRED { self.first.destination } else { self.first.source }
    }

    /// Judges a packet, and takes in what it says of the connection's stage if it is to be believed.
    pub fn take(&mut self, now: Instant, port: Port, view: &View) -> Take {
        let (side, segment) = (self.side_at(port), &view.segment);
        let take = self.tracking.take(now, side, segment, view.payload_len as u32);
        match take {
            // The answer to a SYN: whoever acknowledges it has seen it, so that its address is not made up.
            Take::Opened if segment.flags.has(Flags::SYN) => {
                (self.stage, self.opener) = (Stage::Opening, Some(side.peer()));
            }
            Take::Opened => self.stage = Stage::Established,
            Take::Reset => self.stage = Stage::Closing,
            Take::Believed => {
                if self.stage == Stage::Opening && self.opener == Some(side) {
                    self.stage = Stage::Established;
                }
                if self.stage != Stage::Opening {
                    let has_ended = self.tracking.has_ended(side) && self.tracking.has_ended(side.peer());
                    self.stage = if has_ended { Stage::Closing } else { Stage::Established };
                }
            }
            Take::Old | Take::Refused => {}
        }
        take
    }

    /// What must not be dropped, changed or cut: a packet whose options are unknown, or all of a connection where both SYNs agreed on
    /// options that guard all segments. What a stranger sends into a connection changes nothing for the others.
    pub fn guarded(&mut self, port: Port, packet: &[u8], view: &View) -> Guarded {
        let flags = view.segment.flags;
        if flags.has(Flags::SYN) && self.stage == Stage::Opening {
            self.guards[usize::from(port.0 & 1)] = has_options(packet, view, |kind| GUARDS.contains(&kind));
        }
        let plain = flags.has(Flags::SYN) || flags.has(Flags::RST);
        if self.guards == [true; 2] {
            Guarded::Connection
        } else if !plain && has_foreign_options(packet, view) {
            Guarded::Packet
        } else {
            Guarded::Nothing
        }
    }

    /// How many bytes of payload the segments have that make up a packet.
    pub fn segment_size(&self, view: &View, told: Option<NonZeroU16>, mtu: Option<usize>) -> u32 {
        let options = view.header_len - view.ip_len - TCP_HEADER;
        let size = match (told, self.tracking.mss()) {
            (Some(told), _) => usize::from(told.get()),
            (None, Some(mss)) => usize::from(mss).saturating_sub(options),
            (None, None) => USUAL_MTU.saturating_sub(view.header_len),
        };
        let most = mtu.map_or(usize::MAX, |mtu| mtu.saturating_sub(view.header_len));
        size.min(most).max(LEAST_SEGMENT) as u32
    }
}

/// Whether a segment carries options whose meaning could change when it is dropped, changed or cut.
pub(super) fn has_foreign_options(packet: &[u8], view: &View) -> bool {
    has_options(packet, view, |kind| !matches!(kind, 2..=5 | 8 | EXPERIMENTAL_KIND))
}

/// Whether a segment carries an option of a kind that `wanted` says.
fn has_options(packet: &[u8], view: &View, wanted: impl Fn(u8) -> bool) -> bool {
    let mut rest = packet.get(view.ip_len + TCP_HEADER..view.header_len).unwrap_or_default();
    while let Some((&kind, tail)) = rest.split_first() {
        let len = match kind {
            0 => return false,
            1 => 1,
            _ if wanted(kind) => return true,
            _ => tail.first().map_or(2, |&len| usize::from(len)).max(2),
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    false
}
