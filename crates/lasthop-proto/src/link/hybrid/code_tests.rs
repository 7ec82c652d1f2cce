use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::random::Root;

/// Four bytes as a vector.
impl Coded for [u8; 4] {
    fn zero() -> Self {
        [0; 4]
    }

    fn add_scaled(&mut self, factor: Gf, other: &Self) {
        factor.add_scaled(self, other);
    }
}

/// Computes a product by shifts, as the field is defined.
fn product(a: u8, b: u8) -> u8 {
    let (mut sum, mut a) = (0_u16, u16::from(a));
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            sum ^= a;
        }
        a <<= 1;
        if a > 255 {
            a ^= POLYNOMIAL;
        }
    }
    sum as u8
}

#[test]
fn products_are_those_of_the_field() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(Gf(a).times(Gf(b)).0, product(a, b), "{a} times {b}");
        }
        assert_eq!(Gf(a).times(Gf(a).inverse()), Gf(u8::from(a > 0)));
    }
}

#[test]
fn coefficients_are_never_nought() {
    for key in 0..=255 {
        assert!((0..1000).all(|symbol| coefficient(key, Symbol(symbol)) != Gf(0)));
    }
    assert!((0..1000).all(|symbol| coefficient(0, Symbol(symbol)) == Gf(1)));
}

fn symbol(number: u64) -> [u8; 4] {
    (number as u32).wrapping_mul(0x9e37_79b9).to_be_bytes()
}

struct Rig {
    encoder: Encoder<[u8; 4]>,
    decoder: Decoder<[u8; 4]>,
    restored: Vec<(Symbol, [u8; 4])>,
}

impl Rig {
    fn new() -> Self {
        Self { encoder: Encoder::new(), decoder: Decoder::new(), restored: vec![] }
    }

    fn send(&mut self, number: u64, arrives: bool) {
        self.encoder.push(symbol(number), 100);
        if arrives {
            self.decoder.on_symbol(Symbol(number), symbol(number), &mut self.restored);
        }
    }

    fn repair(&mut self, first: u64, end: u64, nth: u8) -> Gain {
        let window = self.encoder.window(Symbol(first), Symbol(end)).unwrap();
        let (key, sum, bytes) = self.encoder.combine(window, nth);
        assert_eq!((key == 0, bytes), (nth == 0, 100));
        self.decoder.on_repair(window, key, sum, &mut self.restored)
    }

    fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.restored.iter().map(|(Symbol(number), _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[test]
fn a_sum_restores_one() {
    let mut rig = Rig::new();
    (0..20).for_each(|number| rig.send(number, number != 7));
    assert_eq!(rig.repair(0, 20, 0), Gain::Rank);
    assert_eq!(rig.restored, [(Symbol(7), symbol(7))]);
    assert_eq!(rig.repair(0, 20, 1), Gain::None);
    assert_eq!(rig.decoder.size(), (20, 0));
}

/// A combination that arrives on a faster path waits until most of its packets have arrived on the slower one.
#[test]
fn combinations_wait_for_packets_on_other_paths() {
    let mut rig = Rig::new();
    rig.decoder.widen();
    (0..100).for_each(|number| rig.encoder.push(symbol(number), 100));
    let window = rig.encoder.window(Symbol(0), Symbol(100)).unwrap();
    let (key, sum, _) = rig.encoder.combine(window, 1);
    assert_eq!(rig.decoder.on_repair_among(PathId(1), window, key, sum, &mut rig.restored), Gain::None);
    let mut useful = None;
    for number in (0..100).filter(|number| *number != 40) {
        rig.decoder.on_symbol(Symbol(number), symbol(number), &mut rig.restored);
        useful = useful.or(rig.decoder.poll_waiting(&mut rig.restored));
    }
    assert_eq!((useful, rig.restored), (Some(PathId(1)), vec![(Symbol(40), symbol(40))]));
}

/// The other end of several paths may send any number of combinations of packets that never arrive.
#[test]
fn waiting_combinations_are_bounded() {
    let mut rig = Rig::new();
    rig.decoder.widen();
    for number in 0..1000 {
        let window = Window { first: Symbol(number), count: WINDOW as u8 };
        rig.decoder.on_repair_among(PathId(0), window, 1, [1; 4], &mut rig.restored);
        assert!(rig.decoder.poll_waiting(&mut rig.restored).is_none() && rig.decoder.waiting.len() <= MOST_WAITING);
    }
    rig.decoder.on_symbol(Symbol(1 << 20), symbol(0), &mut rig.restored);
    assert_eq!((rig.decoder.waiting.len(), rig.restored), (0, vec![]));
}

/// Two of three missing: the third equation is not needed; a late symbol solves for the other.
#[test]
fn equations_add_up() {
    let mut rig = Rig::new();
    (0..10).for_each(|number| rig.send(number, ![2, 5, 6].contains(&number)));
    assert_eq!((rig.repair(0, 10, 0), rig.repair(0, 10, 1)), (Gain::Rank, Gain::Rank));
    assert_eq!(rig.restored, []);
    rig.decoder.on_symbol(Symbol(5), symbol(5), &mut rig.restored);
    assert_eq!(rig.numbers(), [2, 6]);
    assert!(rig.restored.iter().all(|(number, coded)| *coded == symbol(number.0)));
}

/// Random losses of symbols and combinations: restored symbols are correct, each at most once, and memory is bounded.
/// As many combinations as losses nearly always suffice.
#[test]
fn whatever_is_lost() {
    let mut stream = Root(3).stream("code");
    let (mut lost, mut combinations, mut restored) = (0, 0, 0);
    for _ in 0..300 {
        let mut rig = Rig::new();
        let share = stream.uniform() * 0.3;
        for number in 0..500 {
            let arrives = !stream.chance(share);
            lost += usize::from(!arrives);
            rig.send(number, arrives);
            let first = number.saturating_sub(stream.below(WINDOW as u64));
            if stream.chance(0.3) && rig.repair(first, number + 1, stream.below(4) as u8) == Gain::Rank {
                combinations += 1;
            }
            let (known, equations) = rig.decoder.size();
            assert!(known <= 2 * WINDOW && equations <= UNKNOWN);
        }
        assert!(rig.restored.iter().all(|(number, coded)| *coded == symbol(number.0)));
        let numbers = rig.numbers();
        assert!(numbers.is_sorted_by(|one, next| one < next));
        restored += numbers.len();
    }
    assert!(restored <= combinations && restored * 10 > lost * 3, "{restored} of {lost} by {combinations}");
}

/// Tests as many combinations over a window as it has losses. RFC 8681 recommends one more for more than 99.998 %.
#[test]
fn as_many_as_were_lost() {
    let (mut stream, mut solved) = (Root(4).stream("code"), 0);
    for _ in 0..2000 {
        let mut rig = Rig::new();
        let missing = 1 + stream.below(8);
        (0..64).for_each(|number| rig.send(number, number >= missing));
        (0..missing as u8).for_each(|nth| {
            rig.repair(0, 64, nth);
        });
        solved += usize::from(rig.numbers().len() as u64 == missing);
    }
    assert!(solved >= 1980, "{solved} of 2000");
}

#[test]
fn far_away_and_empty_do_no_harm() {
    let mut rig = Rig::new();
    (0..300).for_each(|number| rig.send(number, true));
    assert_eq!(rig.encoder.window(Symbol(0), Symbol(300)), Some(Window { first: Symbol(172), count: 128 }));
    assert_eq!(rig.encoder.window(Symbol(0), Symbol(172)), None);
    assert_eq!(rig.encoder.window(Symbol(300), Symbol(u64::MAX)), None);
    for (first, count) in [(u64::MAX, 255), (u64::MAX - 3, 3), (5, 0), (0, 255), (400, 200), (0, 100)] {
        let window = Window { first: Symbol(first), count };
        let gain = rig.decoder.on_repair(window, 1, symbol(1), &mut rig.restored);
        assert!(gain == Gain::None || first > 1 << 40, "{first} {count}");
        let (known, equations) = rig.decoder.size();
        assert!(known <= 2 * WINDOW && equations <= UNKNOWN);
    }
    rig.decoder.on_symbol(Symbol(u64::MAX), symbol(0), &mut rig.restored);
}
