//! Limits on the cost of handshakes from unknown senders that still admit peers.

use std::net::{IpAddr, SocketAddr};

use lasthop_proto::time::{Duration, Instant};

use crate::entropy::Entropy;
use crate::mac::Proof;

/// Handshake messages per second above which senders must prove that they receive at their address.
const LOAD_FROM: u64 = 64;
/// Maximum number of handshakes processed per second: each needs five curve multiplications, about a sixth of a
/// millisecond.
const WORK: u64 = 500;
/// Maximum number of cookies per second.
const COOKIES: u64 = 20_000;
/// Maximum number of handshakes per second of one address under load, and the burst size.
const OF_ONE: u64 = 20;
const OF_ONE_AT_ONCE: u64 = 5;
/// Number of address classes; addresses in one class share its limit.
const SOURCES: usize = 4_096;

/// Rate limiter with a burst (generic cell rate algorithm): the time at which all admitted messages would have arrived
/// at the rate.
#[derive(Clone, Copy, Debug)]
struct Meter(Instant);

impl Meter {
    fn admit(&mut self, now: Instant, per_second: u64, at_once: u64) -> bool {
        let each = Duration::from_nanos(1_000_000_000 / per_second);
        let due = self.0.max(now);
        if due.since(now) > each.saturating_mul(at_once.saturating_sub(1)) {
            return false;
        }
        self.0 = due + each;
        true
    }
}

/// Decision on a handshake message with a valid mac1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// Process the message.
    Work,
    /// Send a cookie instead.
    Cookie,
    /// Drop the message.
    Drop,
}

/// Rate limiter before the expensive processing. Uses 33 KiB.
pub(crate) struct Gate {
    arrivals: Meter,
    loaded_until: Instant,
    work: Meter,
    cookies: Meter,
    sources: Box<[Meter]>,
    /// Key of the hash to a class in `sources`, so that an attacker cannot target another address's class.
    salt: [u64; 4],
}

impl Gate {
    pub(crate) fn new(entropy: &mut Entropy) -> Self {
        let idle = Meter(Instant::ZERO);
        let sources = vec![idle; SOURCES].into_boxed_slice();
        let salt = std::array::from_fn(|_| u64::from_le_bytes(entropy.bytes()) | 1);
        Self { arrivals: idle, loaded_until: Instant::ZERO, work: idle, cookies: idle, sources, salt }
    }

    /// Judges a message from `from`; `proof` is only called under load, because it is expensive.
    pub(crate) fn judge(&mut self, now: Instant, from: SocketAddr, proof: impl FnOnce() -> Proof) -> Admission {
        if !self.arrivals.admit(now, LOAD_FROM, LOAD_FROM) {
            self.loaded_until = now + Duration::from_secs(1);
        }
        if now < self.loaded_until {
            match proof() {
                Proof::Receives => {
                    let place = self.place(from.ip());
                    if !self.sources[place].admit(now, OF_ONE, OF_ONE_AT_ONCE) {
                        return Admission::Drop;
                    }
                }
                Proof::Knows if self.cookies.admit(now, COOKIES, COOKIES / 10) => return Admission::Cookie,
                Proof::Knows | Proof::None => return Admission::Drop,
            }
        }
        if self.work.admit(now, WORK, WORK / 10) { Admission::Work } else { Admission::Drop }
    }

    /// Returns the multiply-shift hash of an IPv4 address, or of the /64 of an IPv6 address.
    fn place(&self, ip: IpAddr) -> usize {
        let high = match ip {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64,
        };
        let [a, b, c, d] = self.salt;
        let mixed = (high & 0xffff_ffff).wrapping_add(a).wrapping_mul((high >> 32).wrapping_add(b));
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(c).wrapping_add(d);
        (mixed >> (64 - SOURCES.ilog2())) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new(&mut Entropy::new([1; 32]))
    }

    fn address(number: u32) -> SocketAddr {
        (std::net::Ipv4Addr::from_bits(number), 9).into()
    }

    /// Sends `count` messages spread evenly over a second that begins at `start`.
    fn second(gate: &mut Gate, start: Instant, count: u64, proof: Proof) -> [u64; 3] {
        let mut verdicts = [0; 3];
        for at in 0..count {
            let now = start + Duration::from_nanos(at * 1_000_000_000 / count);
            match gate.judge(now, address(at as u32), || proof) {
                Admission::Work => verdicts[0] += 1,
                Admission::Cookie => verdicts[1] += 1,
                Admission::Drop => verdicts[2] += 1,
            }
        }
        verdicts
    }

    #[test]
    fn few_handshakes_need_no_cookie() {
        assert_eq!(second(&mut gate(), Instant::ZERO, 60, Proof::Knows), [60, 0, 0]);
    }

    #[test]
    fn a_flood_gets_cookies_and_little_work() {
        let mut gate = gate();
        second(&mut gate, Instant::ZERO, 100_000, Proof::Knows);
        let [work, cookies, dropped] = second(&mut gate, Instant::ZERO + Duration::from_secs(1), 100_000, Proof::Knows);
        assert_eq!(work, 0);
        assert!((19_000..=22_000).contains(&cookies), "{cookies}");
        assert_eq!(work + cookies + dropped, 100_000);
    }

    #[test]
    fn a_flood_from_true_addresses_gets_bounded_work() {
        let mut gate = gate();
        second(&mut gate, Instant::ZERO, 100_000, Proof::Knows);
        let [work, cookies, _] = second(&mut gate, Instant::ZERO + Duration::from_secs(1), 100_000, Proof::Receives);
        assert!((500..=551).contains(&work), "{work}");
        assert_eq!(cookies, 0);
    }

    #[test]
    fn one_address_cannot_take_the_places_of_all() {
        let mut gate = gate();
        second(&mut gate, Instant::ZERO, 100_000, Proof::Knows);
        let start = Instant::ZERO + Duration::from_secs(1);
        let mut work = 0;
        for at in 0..10_000_u64 {
            let now = start + Duration::from_nanos(at * 100_000);
            // Other ports, or other lower halves of an IPv6 address, do not raise the limit.
            let from: SocketAddr = format!("[2001:db8::{at:x}]:{at}").parse().unwrap();
            work += u64::from(gate.judge(now, from, || Proof::Receives) == Admission::Work);
            // Adds load, without which there would be no limit.
            gate.judge(now, address(at as u32), || Proof::Knows);
        }
        assert!((20..=25).contains(&work), "{work}");
        assert_eq!(gate.judge(start + Duration::from_secs(1), address(7), || Proof::Receives), Admission::Work);
    }

    #[test]
    fn the_load_passes() {
        let mut gate = gate();
        second(&mut gate, Instant::ZERO, 1_000, Proof::Knows);
        let later = Instant::ZERO + Duration::from_secs(3);
        assert_eq!(gate.judge(later, address(1), || Proof::Knows), Admission::Work);
    }
}
