//! Merging of packets for the device into super-segments.

use super::{ACK, FLAGS, Header, LONGEST, NEEDS_CHECKSUM, PREFIX, PSH, TCP_V4, TCP_V6, UDP_ANY, set_lengths};
use lasthop_wire::protocol::{TCP, UDP};
use lasthop_wire::{Fragment, Ip, Tcp, Udp, V4_LEN, V6_LEN, checksum_field, defer_transport, verifies_transport};

/// Number of latest trains among which that of a packet's flow is searched for. With more flows at the same time each has
/// so few packets that merging gains little.
const LOOK_BACK: usize = 32;
/// Maximum number of datagrams in a train (`UDP_MAX_SEGMENTS` of kernels before 6.9).
const MOST_DATAGRAMS: usize = 64;

/// Flow: protocol, ports and addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Flow {
    protocol: u8,
    ports: [u8; 4],
    addresses: [u8; 32],
}

/// Headers of a packet that may be merged.
#[derive(Clone, Copy, Debug)]
struct Headers {
    ip_len: usize,
    /// Length of all headers, in bytes.
    len: usize,
    /// Sequence number of TCP.
    seq: u32,
    /// True if no packet may follow in a super-segment: TCP's PSH.
    ends: bool,
}

/// Packets of a flow that become one write, and where the next one has to begin.
#[derive(Default, Debug)]
struct Train {
    /// Virtio-net header, headers of the first packet, payloads.
    bytes: Vec<u8>,
    flow: Option<Flow>,
    /// Headers of the first packet; `None` if no packet may be appended.
    open: Option<Headers>,
    /// Lengths in the first packet, in bytes: of its IP headers, of all headers, of the payload.
    ip_len: usize,
    headers: usize,
    size: usize,
    count: usize,
}

/// Packets that wait for the device, in trains.
#[derive(Debug)]
pub struct Merger {
    /// Trains; those after `used` are kept for their memory.
    trains: Vec<Train>,
    used: usize,
    /// Number of bytes of all packets.
    bytes: usize,
    /// True if the device takes super-segments of UDP.
    merges_udp: bool,
}

impl Merger {
    /// Creates a merger for a device that takes super-segments of TCP, and if `merges_udp` also of UDP.
    pub const fn new(merges_udp: bool) -> Self {
        Self { trains: Vec::new(), used: 0, bytes: 0, merges_udp }
    }

    /// Returns the number of writes, and of bytes, that wait.
    pub const fn waiting(&self) -> (usize, usize) {
        (self.used, self.bytes)
    }

    /// Adds a packet. Packets of a flow keep their order.
    pub fn push(&mut self, packet: &[u8]) {
        self.bytes += packet.len();
        let (flow, headers) = self.read(packet).unzip();
        let recent = &mut self.trains[self.used.saturating_sub(LOOK_BACK)..self.used];
        let same = flow.and_then(|flow| recent.iter_mut().rev().find(|train| train.flow == Some(flow)));
        let headers = headers.flatten();
        if let (Some(train), Some(flow)) = (same, flow) {
            if headers.is_some_and(|headers| train.append(flow, headers, packet)) {
                return;
            }
            // Later packets would overtake this one.
            train.open = None;
        }
        if self.used == self.trains.len() {
            self.trains.push(Train::default());
        }
        self.trains[self.used].begin(flow, headers, packet);
        self.used += 1;
    }

    /// Passes the data of each write to `write`, and forgets the packets.
    pub fn drain(&mut self, mut write: impl FnMut(&[u8])) {
        for train in &mut self.trains[..self.used] {
            train.complete();
            write(&train.bytes);
        }
        (self.used, self.bytes) = (0, 0);
    }

    /// Returns the flow of a packet, if it has ports, and its headers if it may be merged: without IP options and extension
    /// headers, without flags of TCP but ACK and PSH.
    fn read(&self, packet: &[u8]) -> Option<(Flow, Option<Headers>)> {
        let ip = Ip::new_checked(packet)?;
        let (ip_len, protocol) = (ip.header_len()?, ip.protocol());
        let mut addresses = [0; 32];
        let least = match ip {
            Ip::V4(_) => {
                addresses[..8].copy_from_slice(&packet[12..20]);
                V4_LEN
            }
            Ip::V6(_) => {
                addresses.copy_from_slice(&packet[8..40]);
                V6_LEN
            }
        };
        let transport = packet.get(ip_len..)?;
        let flow = Flow { protocol, ports: *transport.first_chunk()?, addresses };
        let is_plain = ip_len == least && ip.claimed_len() == packet.len() && ip.fragment() == Fragment::Whole;
        let headers = match protocol {
            TCP => Tcp::new_checked(transport).and_then(|tcp| {
                let ends = transport[FLAGS] == ACK | PSH;
                let is_data = ends || transport[FLAGS] == ACK;
                let len = ip_len + tcp.header_len().filter(|_| is_data)?;
                Some(Headers { ip_len, len, seq: tcp.seq().0, ends })
            }),
            UDP if self.merges_udp => {
                let is_measured =
                    u16::from_be_bytes([*transport.get(4)?, *transport.get(5)?]) as usize == transport.len();
                let len = ip_len + Udp::HEADER_LEN;
                is_measured.then_some(Headers { ip_len, len, seq: 0, ends: false })
            }
            UDP => None,
            _ => return None,
        };
        Some((flow, headers.filter(|headers| is_plain && headers.len < packet.len())))
    }
}

impl Train {
    /// Begins with a packet. Packets may be appended if `headers` is given.
    fn begin(&mut self, flow: Option<Flow>, headers: Option<Headers>, packet: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&[0; PREFIX]);
        self.bytes.extend_from_slice(packet);
        (self.flow, self.count) = (flow, 1);
        self.open = headers.filter(|headers| !headers.ends);
        if let Some(Headers { ip_len, len, .. }) = headers {
            (self.ip_len, self.headers, self.size) = (ip_len, len, packet.len() - len);
        }
    }

    /// Appends a packet if it continues the train. Returns whether it does.
    fn append(&mut self, flow: Flow, headers: Headers, packet: &[u8]) -> bool {
        let Some(open) = &mut self.open else { return false };
        let first = &self.bytes[PREFIX..];
        let (size, payload) = (self.size, &packet[headers.len..]);
        let is_next = match flow.protocol {
            TCP => headers.seq == open.seq.wrapping_add((first.len() - open.len) as u32),
            _ => self.count < MOST_DATAGRAMS,
        };
        if !is_next
            || headers.len != open.len
            || payload.len() > size
            || first.len() + payload.len() > LONGEST
            || !has_same_headers(first, packet, &headers, flow.protocol)
        {
            return false;
        }
        // The device takes the checksums of a super-segment as correct. A wrong one must reach the receiver as it is.
        let is_correct = |packet| verifies_transport(packet, headers.ip_len, flow.protocol);
        if !(self.count > 1 || is_correct(first)) || !is_correct(packet) {
            return false;
        }
        self.bytes.extend_from_slice(payload);
        self.count += 1;
        if headers.ends {
            self.bytes[PREFIX + headers.ip_len + FLAGS] |= PSH;
        }
        if headers.ends || payload.len() < size {
            self.open = None;
        }
        true
    }

    /// Completes the headers.
    fn complete(&mut self) {
        let Some(flow) = self.flow.filter(|_| self.count > 1) else { return };
        let is_udp = flow.protocol == UDP;
        let packet = &mut self.bytes[PREFIX..];
        let kind = match (is_udp, self.ip_len) {
            (true, _) => UDP_ANY,
            (false, V4_LEN) => TCP_V4,
            (false, _) => TCP_V6,
        };
        set_lengths(packet, self.ip_len, is_udp);
        defer_transport(packet, self.ip_len, flow.protocol);
        let header = Header {
            flags: NEEDS_CHECKSUM,
            kind,
            headers: self.headers as u16,
            size: self.size as u16,
            start: self.ip_len as u16,
            offset: checksum_field(flow.protocol).start as u16,
        };
        self.bytes[..PREFIX].copy_from_slice(&header.encode());
    }
}

/// Returns whether two packets of a flow, with headers of equal length, differ at most in lengths, IPv4's
/// identification, checksums, sequence number and PSH.
fn has_same_headers(one: &[u8], other: &[u8], headers: &Headers, protocol: u8) -> bool {
    let same = |range: std::ops::Range<usize>| one[range.clone()] == other[range];
    let ip = if headers.ip_len == V4_LEN {
        // Version and traffic class; fragmentation; time to live.
        same(0..2) && same(6..9)
    } else {
        // Version, traffic class and flow label; hop limit.
        same(0..4) && same(7..8)
    };
    // Acknowledgment number and length; window; urgent pointer and options.
    let tcp = |at: usize| same(at + 8..at + FLAGS) && same(at + 14..at + 16) && same(at + 18..headers.len);
    ip && (protocol == UDP || tcp(headers.ip_len))
}
