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
use lasthop_wire::{Route, View, is_read, options_in};

/// MTU assumed for a link whose MTU is unknown: Ethernet's.
const USUAL_MTU: usize = 1500;

/// Minimum segment size assumed of a super-segment (Linux: `min_adv_mss`), which bounds the number of pieces.
const LEAST_SEGMENT: usize = 256;

/// Length of a TCP header without options, in bytes.
const TCP_HEADER: usize = 20;

/// Options that protect the segment that has them, so that it must not be split, merged or changed: alternate checksum
/// data (RFC 1146), trailer checksum, TCP-MD5 (RFC 2385), TCP-AO (RFC 5925). If both SYNs have one, the whole
/// connection is protected.
const GUARDS: [u8; 4] = [15, 18, 19, 29];

/// Flags in which a SYN offers ECN, or answers the offer.
const OFFER: Flags = Flags(Flags::AE.0 | Flags::CWR.0 | Flags::ECE.0);

/// Progress of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// At least one end is not known to take part.
    Opening,
    /// Both ends take part.
    Established,
    /// Both ends have finished sending, or one has reset the connection.
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

/// Extent of the protection by an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guarded {
    Nothing,
    /// This packet must not be changed.
    Packet,
    /// No packet of the connection must be changed.
    Connection,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Flow {
    pub key: Key,
    /// Route of the flow's first packet, whose sender counts as [`Side::Initiator`].
    pub first: Route,
    /// Port at which that packet arrived.
    port: Port,
    pub rule: usize,
    pub arm: Arm,
    pub stage: Stage,
    pub seen: Instant,
    pub watch: Watch,
    /// State of both ends: the numbers that they may have sent and would accept.
    pub tracking: Tracking,
    /// Side whose acknowledgment completes the handshake.
    opener: Option<Side>,
    /// True if the SYN that arrived at each port has an option that protects segments.
    guards: [bool; 2],
    /// True if the ECN flags are a counter (RFC 9768 §3.1): the first SYN offers it and the second one agrees.
    counts_marks: [bool; 2],
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
            counts_marks: [false; 2],
        }
    }

    /// Returns the port at which a side's packets arrive.
    pub fn port_of(&self, side: Side) -> Port {
        match side {
            Side::Initiator => self.port,
            Side::Acceptor => self.port.across(),
        }
    }

    /// Returns the side whose packets arrive at a port.
    pub fn side_at(&self, port: Port) -> Side {
        if port == self.port { Side::Initiator } else { Side::Acceptor }
    }

    /// Returns the address of the end on the wired side.
    pub fn wired(&self) -> SocketAddr {
        if self.port == Port::WIRED { self.first.source } else { self.first.destination }
    }

    /// Returns the address of the end behind the lossy hop.
    pub fn wireless(&self) -> SocketAddr {
        if self.port == Port::WIRED { self.first.destination } else { self.first.source }
    }

    /// Validates a packet, and updates the connection's stage if the packet is acceptable.
    pub fn take(&mut self, now: Instant, port: Port, view: &View) -> Take {
        let (side, segment) = (self.side_at(port), &view.segment);
        let take = self.tracking.take(now, side, segment, view.payload_len as u32);
        match take {
            // The answer to a SYN: acknowledging it proves that the peer received it, so its address is not spoofed.
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

    /// Returns the extent of protection that applies to a packet: none, the packet, or the whole connection if both
    /// SYNs had such an option. A spoofed packet with such an option does not affect other packets.
    pub fn guarded(&mut self, port: Port, packet: &[u8], view: &View) -> Guarded {
        let flags = view.segment.flags;
        let is_guarded = has_guard(packet, view);
        if flags.has(Flags::SYN) && self.stage == Stage::Opening {
            let port = usize::from(port.0 & 1);
            self.guards[port] = is_guarded;
            self.counts_marks[port] = match flags.has(Flags::ACK) {
                false => flags.has(OFFER),
                // RFC 9768 §3.1.1, table 2: these answers accept the offer.
                true => matches!(Flags(flags.0 & OFFER.0), CWR | CWR_ECE | AE | AE_CWR),
            };
        }
        if self.is_guarded() {
            Guarded::Connection
        } else if is_guarded && !flags.has(Flags::SYN) {
            Guarded::Packet
        } else {
            Guarded::Nothing
        }
    }

    /// Returns whether an option protects the whole connection.
    pub fn is_guarded(&self) -> bool {
        self.guards == [true; 2]
    }

    /// Returns whether both ends agreed to use the ECN flags as a counter, which each piece of a segment repeats.
    pub fn counts_marks(&self) -> bool {
        self.counts_marks == [true; 2]
    }

    /// Returns the number of payload bytes of the segments in a packet.
    pub fn segment_size(&self, view: &View, told: Option<NonZeroU16>, mtu: Option<usize>) -> u32 {
        let options = view.header_len - view.ip_len - TCP_HEADER;
        let size = match (told, self.tracking.mss()) {
            (Some(told), _) => usize::from(told.get()),
            // One segment if it fits the link: devices that add options on the path do not adjust the MSS.
            (None, Some(mss))
                if view.payload_len <= usize::from(mss) && view.total_len() <= mtu.unwrap_or(USUAL_MTU) =>
            {
                view.payload_len
            }
            (None, Some(mss)) => usize::from(mss).saturating_sub(options),
            (None, None) => USUAL_MTU.saturating_sub(view.header_len),
        };
        let most = mtu.map_or(usize::MAX, |mtu| mtu.saturating_sub(view.header_len));
        size.min(most).max(LEAST_SEGMENT) as u32
    }
}

const CWR: Flags = Flags::CWR;
const CWR_ECE: Flags = Flags(Flags::CWR.0 | Flags::ECE.0);
const AE: Flags = Flags::AE;
const AE_CWR: Flags = Flags(Flags::AE.0 | Flags::CWR.0);

/// Returns whether a segment has an option that protects it.
pub(super) fn has_guard(packet: &[u8], view: &View) -> bool {
    options_in(view.option_bytes(packet)).any(|option| GUARDS.contains(&option[0]))
}

/// Returns whether a segment has options that the mechanisms do not read.
pub(super) fn has_unread_options(packet: &[u8], view: &View) -> bool {
    options_in(view.option_bytes(packet)).any(|option| !is_read(option))
}
