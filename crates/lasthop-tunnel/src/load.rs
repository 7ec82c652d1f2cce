//! What this end spends on handshakes of strangers: the least that lets its peers in.

use std::net::{IpAddr, SocketAddr};

use lasthop_proto::time::{Duration, Instant};

use crate::entropy::Entropy;
use crate::mac::Proof;

/// From so many handshake messages a second on, whoever sends one must show that he receives at his address.
const LOAD_FROM: u64 = 64;
/// Handshakes a second that are worked on at most: each takes five multiplications on the curve, about a sixth of a millisecond.
const WORK: u64 = 500;
/// Cookies a second at most.
const COOKIES: u64 = 20_000;
/// Handshakes a second of one address under load, and how many at once.
const OF_ONE: u64 = 20;
const OF_ONE_AT_ONCE: u64 = 5;
/// Addresses told apart; those that fall together share.
const SOURCES: usize = 4_096;

/// A rate and a burst (the generic cell rate algorithm): the time at which all that was let pass would have come at the rate.
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

/// What to do with a handshake message whose mac1 is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// Work on it.
    Work,
    /// Send a cookie in its place.
    Cookie,
    /// Nothing.
    Drop,
}

/// The guard in front of the costly part. 33 KiB.
pub(crate) struct Gate {
    arrivals: Meter,
    loaded_until: Instant,
    work: Meter,
    cookies: Meter,
    sources: Box<[Meter]>,
    /// Keys the choice of a place in `sources`, so that nobody can aim at another's.
    salt: [u64; 4],
}

impl Gate {
    pub(crate) fn new(entropy: &mut Entropy) -> Self {
        let idle = Meter(Instant::ZERO);
        let sources = vec![idle; SOURCES].into_boxed_slice();
        let salt = std::array::from_fn(|_| u64::from_le_bytes(entropy.bytes()) | 1);
        Self { arrivals: idle, loaded_until: Instant::ZERO, work: idle, cookies: idle, sources, salt }
    }

    /// Judges a message from `from`; `proof` is asked only under load, since it costs.
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

    /// Multiply-shift hashing of the address, of IPv6 its /64.
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

    /// `count` messages evenly over a second that begins at `start`.
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
            // Ports and the lower half of an IPv6 address do not help.
            let from: SocketAddr = format!("[2001:db8::{at:x}]:{at}").parse().unwrap();
            work += u64::from(gate.judge(now, from, || Proof::Receives) == Admission::Work);
            // A load without which there would be no limit.
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
