//! Extracts TCP segments and UDP datagrams from a capture's frames, each once.

use std::collections::VecDeque;
use std::net::IpAddr;

use lasthop_proto::packet::Segment;
use lasthop_wire::{CapturedIp, Fragment, Head, Kept, Transport, Unread, head_of, parse_head, peel};

use crate::capture::{Frame, Interface};
use crate::copies::{Captured, Copies};

/// Maximum number of packets in one frame.
const MOST_PARTS: usize = 64;
/// Maximum number of packets whose fragments are awaited.
const MOST_FRAGMENTED: usize = 64;
/// Captured bytes of a first fragment that are kept: IP and TCP headers.
const HEADERS: usize = 256;

/// Contents of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'p> {
    /// A TCP segment.
    Tcp {
        head: &'p Head<'p>,
        segment: Segment,
        options: Kept,
        payload_len: u32,
        /// Number of the device, in captures of all devices.
        device: u32,
    },
    /// A UDP datagram with its captured payload.
    Udp { head: &'p Head<'p>, payload: &'p [u8], device: u32 },
    /// A copy of a TCP segment that the capture already had.
    Copy,
    /// A fragment of a packet that is incomplete so far.
    Fragment,
    /// Number of fragments that belonged to the packet that comes next.
    Joined(u64),
    /// Another packet.
    Unread(Unread),
}

/// Reads frames; detects copies and joins fragments.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    pub(crate) copies: Copies,
    fragmented: VecDeque<Fragmented>,
}

/// A packet with missing fragments.
#[derive(Debug)]
struct Fragmented {
    key: (IpAddr, IpAddr, u32, u8),
    /// Headers of the first fragment.
    first: Vec<u8>,
    /// Bytes of payload of the whole packet.
    payload_len: Option<u32>,
    fragments: u64,
}

impl Packets {
    /// Calls `each` with the contents of a frame captured at `interface`, at `time` on a clock without jumps.
    pub(crate) fn read(
        &mut self,
        interface: &Interface,
        frame: &Frame<'_>,
        time: i64,
        each: &mut dyn FnMut(Found<'_>),
    ) {
        for part in 0..MOST_PARTS {
            let packet = match peel(interface.link, frame.data, frame.len, part) {
                Ok(packet) => packet,
                Err(why) => return each(Found::Unread(why)),
            };
            let place = (frame.interface, packet.device);
            let ip = CapturedIp::read(packet.bytes, packet.len).filter(|ip| ip.fragment != Fragment::Whole);
            match ip {
                Some(ip) => match self.join(&ip, packet.bytes) {
                    Some((first, payload_len, fragments)) => {
                        each(Found::Joined(fragments));
                        let ip = CapturedIp::read(&first, first.len() as u32);
                        let head = ip.as_ref().and_then(|ip| head_of(ip, payload_len));
                        self.tell(head, packet.front, place, time, each);
                    }
                    None => each(Found::Fragment),
                },
                None => self.tell(parse_head(packet.bytes, packet.len), packet.front, place, time, each),
            }
            if !packet.more {
                return;
            }
        }
    }

    fn tell(
        &mut self,
        head: Option<Head<'_>>,
        front: lasthop_wire::Front,
        place: (u32, u32),
        time: i64,
        each: &mut dyn FnMut(Found<'_>),
    ) {
        let Some(head) = head else { return each(Found::Unread(Unread::CutOff)) };
        let (head, device) = (&head, place.1);
        match head.transport {
            Transport::Udp { payload } => each(Found::Udp { head, payload, device }),
            Transport::Tcp { segment, options, payload_len } => {
                let captured = Captured { head, segment: &segment, payload_len, front, place, time };
                if self.copies.knows(&captured) {
                    each(Found::Copy);
                } else {
                    each(Found::Tcp { head, segment, options, payload_len, device });
                }
            }
        }
    }

    /// Adds a fragment. Once first and last fragment are present, returns the headers of the first one, the payload of
    /// the whole packet in bytes, and the number of fragments.
    fn join(&mut self, ip: &CapturedIp<'_>, bytes: &[u8]) -> Option<(Vec<u8>, u32, u64)> {
        let Fragment::Part { id, offset, more } = ip.fragment else { return None };
        let key = (ip.source, ip.destination, id, ip.protocol);
        let index = match self.fragmented.iter().position(|packet| packet.key == key) {
            Some(index) => index,
            None => {
                if self.fragmented.len() == MOST_FRAGMENTED {
                    self.fragmented.pop_front();
                }
                self.fragmented.push_back(Fragmented { key, first: Vec::new(), payload_len: None, fragments: 0 });
                self.fragmented.len() - 1
            }
        };
        let packet = &mut self.fragmented[index];
        packet.fragments += 1;
        if offset == 0 {
            packet.first = bytes[..bytes.len().min(HEADERS)].to_vec();
        }
        if !more {
            packet.payload_len = offset.checked_add(ip.payload_len);
        }
        if packet.first.is_empty() {
            return None;
        }
        let payload_len = packet.payload_len?;
        let packet = self.fragmented.remove(index)?;
        Some((packet.first, payload_len, packet.fragments))
    }
}
