//! Sliding-window code: random linear combinations over GF(256) of consecutive packets (after RFC 8681; the first
//! combination over a window is the plain sum).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::numbers::{PathId, Symbol, Window};

/// Maximum number of symbols in a combination, and number of symbols that an end stores for decoding.
pub const WINDOW: usize = 128;

/// Maximum number of symbols that a decoder solves for at a time.
pub const UNKNOWN: usize = 32;

/// Number of symbols that a decoder stores: of one path, and of several, on which packets and combinations arrive out of
/// order.
const STORED: u64 = 2 * WINDOW as u64;
const STORED_OF_MANY: u64 = 16 * WINDOW as u64;

/// Maximum number of combinations that wait for packets on other paths.
const MOST_WAITING: usize = 64;

/// x⁸ + x⁴ + x³ + x² + 1, under which 2 generates the field.
const POLYNOMIAL: u16 = 0x11d;

/// Powers of the generator, twice in a row, and their logarithms.
const TABLES: ([u8; 510], [u8; 256]) = {
    let (mut powers, mut logarithms) = ([0; 510], [0; 256]);
    let (mut value, mut exponent) = (1_u16, 0);
    while exponent < 255 {
        powers[exponent] = value as u8;
        powers[exponent + 255] = value as u8;
        logarithms[value as usize] = exponent as u8;
        value <<= 1;
        if value > 255 {
            value ^= POLYNOMIAL;
        }
        exponent += 1;
    }
    (powers, logarithms)
};

/// All products, a row for each factor. A table of 64 KiB, so that a byte takes one look-up; logarithms take two and a
/// check for zero.
static PRODUCTS: [[u8; 256]; 256] = {
    let mut products = [[0; 256]; 256];
    let mut factor = 1;
    while factor < 256 {
        let mut other = 1;
        while other < 256 {
            products[factor][other] = Gf(factor as u8).times(Gf(other as u8)).0;
            other += 1;
        }
        factor += 1;
    }
    products
};

/// An element of GF(256).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Gf(pub u8);

impl Gf {
    /// Returns the product.
    pub const fn times(self, other: Self) -> Self {
        if self.0 == 0 || other.0 == 0 {
            return Self(0);
        }
        let (powers, logarithms) = &TABLES;
        Self(powers[logarithms[self.0 as usize] as usize + logarithms[other.0 as usize] as usize])
    }

    /// Returns the multiplicative inverse; 0 for 0.
    pub const fn inverse(self) -> Self {
        if self.0 == 0 {
            return self;
        }
        let (powers, logarithms) = &TABLES;
        Self(powers[255 - logarithms[self.0 as usize] as usize])
    }

    /// Returns the sum, which is also the difference.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    /// Adds `self` times each byte of `from` to the corresponding byte of `to`.
    pub fn add_scaled(self, to: &mut [u8], from: &[u8]) {
        let pairs = to.iter_mut().zip(from);
        if self == Self(1) {
            return pairs.for_each(|(to, from)| *to ^= from);
        }
        let products = &PRODUCTS[usize::from(self.0)];
        pairs.for_each(|(to, from)| *to ^= products[usize::from(*from)]);
    }
}

/// A vector over GF(256): a packet, or a combination of packets.
pub trait Coded: Clone + PartialEq + core::fmt::Debug {
    /// Returns the empty sum.
    fn zero() -> Self;

    /// Adds `factor` times `other`.
    fn add_scaled(&mut self, factor: Gf, other: &Self);

    /// Multiplies by `factor`.
    fn scale(&mut self, factor: Gf) {
        let mut scaled = Self::zero();
        scaled.add_scaled(factor, self);
        *self = scaled;
    }
}

/// Returns the coefficient of a symbol in the combination with that key: 1 for key 0, never 0.
pub const fn coefficient(key: u8, symbol: Symbol) -> Gf {
    if key == 0 {
        return Gf(1);
    }
    // A finalizer of MurmurHash3 spreads neighbouring numbers over the field.
    let mut mixed = symbol.0 ^ ((key as u64) << 56);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    Gf(((mixed ^ (mixed >> 33)) % 255) as u8 + 1)
}

/// The last symbols sent.
#[derive(Clone, Debug)]
pub(super) struct Encoder<C> {
    /// Number of the first of `recent`.
    first: u64,
    /// The symbols and their lengths in bytes.
    recent: VecDeque<(C, u32)>,
    key: u8,
}

impl<C: Coded> Encoder<C> {
    pub fn new() -> Self {
        Self { first: 0, recent: VecDeque::new(), key: 0 }
    }

    /// Appends the next symbol.
    pub fn push(&mut self, coded: C, bytes: u32) {
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
            self.first += 1;
        }
        self.recent.push_back((coded, bytes));
    }

    /// Returns the part of the symbols from `first` to before `end` that is still stored.
    pub fn window(&self, first: Symbol, end: Symbol) -> Option<Window> {
        let kept = self.first + self.recent.len() as u64;
        let (first, end) = (first.0.max(self.first), end.0.min(kept));
        (first < end).then(|| Window { first: Symbol(first), count: (end - first) as u8 })
    }

    /// Returns the next key of a combination that is not the plain sum.
    pub fn next_key(&mut self) -> u8 {
        self.key = self.key % 255 + 1;
        self.key
    }

    /// Returns the `nth` combination over a window: its key, the sum, and the length of the longest packet in it, in
    /// bytes. The first, 0, is the plain sum.
    pub fn combine(&mut self, window: Window, nth: u8) -> (u8, C, u32) {
        let key = if nth == 0 { 0 } else { self.next_key() };
        let (mut sum, mut longest) = (C::zero(), 0);
        for number in window.numbers() {
            let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
            if let Some((coded, bytes)) = index.and_then(|index| self.recent.get(index)) {
                sum.add_scaled(coefficient(key, Symbol(number)), coded);
                longest = longest.max(*bytes);
            }
        }
        (key, sum, longest)
    }
}

/// A combination of missing symbols.
#[derive(Clone, Debug)]
struct Equation<C> {
    /// Terms by ascending symbol; the first has coefficient 1, and its symbol is in no other equation.
    terms: Vec<(u64, Gf)>,
    sum: C,
}

impl<C: Coded> Equation<C> {
    fn coefficient(&self, symbol: u64) -> Gf {
        self.terms.binary_search_by_key(&symbol, |term| term.0).map_or(Gf(0), |index| self.terms[index].1)
    }

    /// Adds `factor` times another.
    fn add_scaled(&mut self, factor: Gf, other: &Self) {
        for &(symbol, value) in &other.terms {
            let value = value.times(factor);
            match self.terms.binary_search_by_key(&symbol, |term| term.0) {
                Ok(index) => self.terms[index].1 = self.terms[index].1.plus(value),
                Err(index) => self.terms.insert(index, (symbol, value)),
            }
        }
        self.terms.retain(|term| term.1 != Gf(0));
        self.sum.add_scaled(factor, &other.sum);
    }

    /// Makes the first coefficient 1.
    fn normalize(&mut self) {
        if let Some(&(_, first)) = self.terms.first() {
            let inverse = first.inverse();
            self.terms.iter_mut().for_each(|term| term.1 = term.1.times(inverse));
            self.sum.scale(inverse);
        }
    }
}

/// Usefulness of a combination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gain {
    /// The symbol contains nothing new, or too little is known to use it.
    None,
    /// The symbol adds an equation on missing symbols, or restores some.
    Rank,
}

/// A combination of too many missing symbols, of which most are expected soon.
#[derive(Clone, Debug)]
struct Waiting<C> {
    path: PathId,
    window: Window,
    key: u8,
    sum: C,
}

/// The last symbols that arrived, and combinations of those that did not.
#[derive(Clone, Debug)]
pub(super) struct Decoder<C> {
    /// Number of the first of `known`.
    first: u64,
    known: VecDeque<Option<C>>,
    equations: Vec<Equation<C>>,
    /// Maximum number of `known`.
    stored: u64,
    waiting: VecDeque<Waiting<C>>,
}

impl<C: Coded> Decoder<C> {
    pub fn new() -> Self {
        Self { first: 0, known: VecDeque::new(), equations: Vec::new(), stored: STORED, waiting: VecDeque::new() }
    }

    /// Prepares for symbols and combinations that arrive on several paths: more symbols are stored, and combinations wait
    /// for packets.
    pub fn widen(&mut self) {
        self.stored = STORED_OF_MANY;
    }

    /// Returns the number of stored symbols, at most twice [`WINDOW`] (16 times with several paths), and of equations, at
    /// most [`UNKNOWN`].
    pub fn size(&self) -> (usize, usize) {
        (self.known.len(), self.equations.len())
    }

    fn get(&self, symbol: u64) -> Option<&C> {
        self.known.get(symbol.checked_sub(self.first)? as usize)?.as_ref()
    }

    /// Advances the stored range to include a symbol; returns `false` if the symbol is too old.
    fn reach(&mut self, symbol: u64) -> bool {
        let Some(ahead) = symbol.checked_sub(self.first) else { return false };
        let excess = ahead.saturating_sub(self.stored - 1);
        if excess > 0 {
            let gone = (excess as usize).min(self.known.len());
            self.known.drain(..gone);
            self.first += excess;
            let first = self.first;
            self.equations.retain(|equation| equation.terms.iter().all(|term| term.0 >= first));
            self.waiting.retain(|waiting| waiting.window.first.0 >= first);
        }
        let index = (symbol - self.first) as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        true
    }

    /// Processes a symbol that arrived. Adds the symbols that it restores to `restored`.
    pub fn on_symbol(&mut self, symbol: Symbol, coded: C, restored: &mut Vec<(Symbol, C)>) {
        if !self.reach(symbol.0) || self.get(symbol.0).is_some() {
            return;
        }
        self.learn(symbol.0, coded);
        self.solve(restored);
    }

    /// Processes a combination that arrived on one of several paths. If most of its symbols are missing, it waits for them
    /// ([`Self::poll_waiting`]). Adds the symbols that it restores to `restored`.
    pub fn on_repair_among(
        &mut self,
        path: PathId,
        window: Window,
        key: u8,
        sum: C,
        restored: &mut Vec<(Symbol, C)>,
    ) -> Gain {
        if self.missing(window) <= UNKNOWN {
            return self.on_repair(window, key, sum, restored);
        }
        if self.waiting.len() == MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Waiting { path, window, key, sum });
        Gain::None
    }

    /// Returns the number of missing symbols of a window.
    fn missing(&self, window: Window) -> usize {
        window.numbers().filter(|symbol| self.get(*symbol).is_none()).count()
    }

    /// Processes the oldest combination that waits, if enough packets have arrived. Returns its path if it was useful.
    pub fn poll_waiting(&mut self, restored: &mut Vec<(Symbol, C)>) -> Option<PathId> {
        if self.missing(self.waiting.front()?.window) > UNKNOWN {
            return None;
        }
        let Waiting { path, window, key, sum } = self.waiting.pop_front()?;
        (self.on_repair(window, key, sum, restored) == Gain::Rank).then_some(path)
    }

    /// Processes a combination that arrived. Adds the symbols that it restores to `restored`.
    pub fn on_repair(&mut self, window: Window, key: u8, sum: C, restored: &mut Vec<(Symbol, C)>) -> Gain {
        let numbers = window.numbers();
        if numbers.is_empty() || usize::from(window.count) > WINDOW || !self.reach(numbers.end - 1) {
            return Gain::None;
        }
        // A symbol before the first is too old to be stored still.
        if numbers.start < self.first {
            return Gain::None;
        }
        let missing = numbers.clone().filter(|symbol| self.get(*symbol).is_none());
        let terms: Vec<_> = missing.map(|symbol| (symbol, coefficient(key, Symbol(symbol)))).collect();
        // Most combinations arrive when nothing is missing.
        if terms.is_empty() || terms.len() > UNKNOWN {
            return Gain::None;
        }
        let mut equation = Equation { terms, sum };
        for symbol in numbers {
            if let Some(known) = self.get(symbol) {
                equation.sum.add_scaled(coefficient(key, Symbol(symbol)), known);
            }
        }
        for other in &self.equations {
            let pivot = other.terms[0].0;
            let factor = equation.coefficient(pivot);
            if factor != Gf(0) {
                equation.add_scaled(factor, other);
            }
        }
        if equation.terms.is_empty() || equation.terms.len() > UNKNOWN {
            return Gain::None;
        }
        equation.normalize();
        self.insert(equation);
        self.solve(restored);
        Gain::Rank
    }

    /// Adds an equation whose first unknown is the first of no other, and eliminates that unknown from the others.
    fn insert(&mut self, equation: Equation<C>) {
        if self.equations.len() == UNKNOWN {
            self.equations.remove(0);
        }
        let pivot = equation.terms[0].0;
        for other in &mut self.equations {
            let factor = other.coefficient(pivot);
            if factor != Gf(0) {
                other.add_scaled(factor, &equation);
            }
        }
        self.equations.push(equation);
    }

    fn learn(&mut self, symbol: u64, coded: C) {
        let mut loose = Vec::new();
        for index in (0..self.equations.len()).rev() {
            let equation = &mut self.equations[index];
            let Ok(place) = equation.terms.binary_search_by_key(&symbol, |term| term.0) else { continue };
            let (_, factor) = equation.terms.remove(place);
            equation.sum.add_scaled(factor, &coded);
            if place == 0 {
                loose.push(self.equations.remove(index));
            }
        }
        let Some(index) = symbol.checked_sub(self.first) else { return };
        if let Some(place) = self.known.get_mut(index as usize) {
            *place = Some(coded);
        }
        // Equations that lost their first unknown may now start with another equation's.
        for mut equation in loose {
            for other in &self.equations {
                let factor = equation.coefficient(other.terms[0].0);
                if factor != Gf(0) {
                    equation.add_scaled(factor, other);
                }
            }
            if !equation.terms.is_empty() {
                equation.normalize();
                self.insert(equation);
            }
        }
    }

    /// Solves equations with a single unknown until none is left.
    fn solve(&mut self, restored: &mut Vec<(Symbol, C)>) {
        while let Some(index) = self.equations.iter().position(|equation| equation.terms.len() == 1) {
            let Equation { terms, sum } = self.equations.remove(index);
            let symbol = terms[0].0;
            restored.push((Symbol(symbol), sum.clone()));
            self.learn(symbol, sum);
        }
    }
}

#[cfg(test)]
#[path = "code_tests.rs"]
mod tests;
