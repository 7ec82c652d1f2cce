//! By which interface a packet would leave, as the kernel says.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::netlink::{Request, Socket, attributes};

/// How long an answer holds.
const LIFETIME: Duration = Duration::from_secs(1);
/// How long the kernel may take: it answers at once.
const PATIENCE: Duration = Duration::from_millis(20);
/// Most answers that are remembered.
const MOST: usize = 1 << 12;

/// Bytes of `rtmsg`, and what a route's attributes are (`RTA_DST`, `RTA_SRC`, `RTA_IIF`, `RTA_OIF`).
const HEADER: usize = 12;
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const FROM: u16 = 3;
const TO: u16 = 4;

/// A packet: the number of the interface that it came in by, its source and destination.
type Packet = (u32, IpAddr, IpAddr);

/// The kernel's answers.
#[derive(Debug, Default)]
pub struct Routes {
    socket: Option<Socket>,
    known: HashMap<Packet, (Instant, Option<u32>)>,
}

impl Routes {
    /// The number of the interface by which a packet would be forwarded; none when it would not.
    pub fn way(&mut self, now: Instant, packet: Packet) -> Option<u32> {
        if let Some((until, way)) = self.known.get(&packet)
            && now < *until
        {
            return *way;
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let way = self.ask(packet);
        self.known.insert(packet, (now + LIFETIME, way));
        way
    }

    fn ask(&mut self, (from, source, destination): Packet) -> Option<u32> {
        if self.socket.is_none() {
            self.socket = Socket::open(None).inspect_err(|error| tracing::warn!(%error, "no routes are told")).ok();
        }
        let (family, source, destination) = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                (libc::AF_INET, source.octets().to_vec(), destination.octets().to_vec())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                (libc::AF_INET6, source.octets().to_vec(), destination.octets().to_vec())
            }
            _ => return None,
        };
        let bits = (destination.len() * 8) as u8;
        let request = Request::one(libc::RTM_GETROUTE, &[&[family as u8, bits, bits][..], &[0; 9]].concat())
            .with(DESTINATION, &destination)
            .with(SOURCE, &source)
            .with(FROM, &from.to_ne_bytes());
        let mut way = None;
        let asked = self.socket.as_mut()?.ask(request, PATIENCE, |_, body| {
            let is_forwarded = body.get(7) == Some(&libc::RTN_UNICAST);
            let mut all = attributes(body.get(HEADER..).unwrap_or_default());
            let to = all.find(|(kind, _)| *kind == TO).and_then(|(_, value)| value.try_into().ok());
            way = to.map(u32::from_ne_bytes).filter(|_| is_forwarded);
        });
        // Where there is no route, or none back to the source, the packet goes nowhere.
        asked.ok().and(way)
    }
}
