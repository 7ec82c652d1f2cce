//! Compact map of an atlas: the results in every cell, in a file that fits into the program.
//!
//! The file begins with a line of JSON ([`Head`]), followed by the cells in the order of
//! [`cell_of`](super::dimensions::cell_of). A cell has the number of links that each scheme won, as LEB128 numbers; if
//! there are any, the mean logarithm of each cure's gain in 1/4096, as 16-bit numbers; if there are two or more, the
//! variance of each pair of schemes, as the upper half of a 32-bit floating-point number. Numbers are little-endian.

use serde::{Deserialize, Serialize};

use super::dimensions::{CELLS, DIMENSIONS, DIMENSIONS_COUNT, Dimension, Selection, bins_of, cell_of};
use super::links::{Link, NAMES, SCHEMES};
use super::moments::{Moments, PAIRS};

/// Unit of mean gains in the file: 1.0002 times.
const MEAN_UNIT: f64 = 4096.0;

/// Version of the format.
const FORMAT: u32 = 1;

/// First line of a map.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Head {
    /// Version of the format.
    pub lasthop_atlas: u32,
    /// Build whose simulations these are.
    pub build: String,
    /// Seed.
    pub seed: u64,
    /// Number of links: those from 0 on.
    pub links: u64,
    /// Names of the schemes; the first is no cure.
    pub schemes: Vec<String>,
    /// Names of the dimensions, and the limits of their bins.
    pub dimensions: Vec<(String, Vec<u32>)>,
}

/// Error of a map's file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// The file does not begin with its description.
    #[error("is not a map of an atlas: {0}")]
    Head(String),
    /// The map has other cells or schemes.
    #[error("is a map with other {0} than this program's; compute it again with `python -m lasthop.atlas`")]
    Other(&'static str),
    /// The file ends within the cells, or after them.
    #[error("is damaged: it does not end with its last cell")]
    Length,
}

/// Map of an atlas.
#[derive(Clone, PartialEq, Debug)]
pub struct Map {
    /// Origin of the results.
    pub head: Head,
    cells: Vec<Moments>,
}

impl Map {
    /// Returns an empty map for the links of `seed` that `build` simulates.
    pub fn new(seed: u64, build: &str) -> Self {
        let schemes = NAMES.map(str::to_owned).into();
        let dimensions = DIMENSIONS.iter().map(|it| (it.id.to_owned(), it.edges.to_vec())).collect();
        let head = Head { lasthop_atlas: FORMAT, build: build.to_owned(), seed, links: 0, schemes, dimensions };
        Self { head, cells: vec![Moments::default(); CELLS] }
    }

    /// Adds the results of a link: the throughput of each scheme, in Mbps.
    pub fn add(&mut self, link: &Link, throughputs: &[f64; SCHEMES]) {
        let bin = |(dimension, value): (&Dimension, &u32)| dimension.bin(f64::from(*value)).unwrap_or(0);
        let mut bins = [0; DIMENSIONS_COUNT];
        bins.iter_mut().zip(DIMENSIONS.iter().zip(&link.values).map(bin)).for_each(|(to, bin)| *to = bin);
        self.cells[cell_of(&bins)].add(&Moments::of(&link.gains(throughputs)));
        self.head.links += 1;
    }

    /// Returns the results of a cell.
    pub fn cell(&self, cell: usize) -> &Moments {
        &self.cells[cell]
    }

    /// Returns the results of all links of a selection, for each pair of bins of the dimensions `x` and `y`: a row for
    /// each bin of `y`. The selection's bins of `x` and `y` are ignored.
    pub fn table(&self, x: usize, y: usize, selection: &Selection) -> Vec<Vec<Moments>> {
        let mut table = vec![vec![Moments::default(); DIMENSIONS[x].bins()]; DIMENSIONS[y].bins()];
        let others = |at: &usize| *at != x && *at != y;
        for (cell, moments) in self.cells.iter().enumerate() {
            let bins = bins_of(cell);
            if (0..DIMENSIONS_COUNT).filter(others).all(|at| selection[at].is_none_or(|bin| bin == bins[at])) {
                table[bins[y]][bins[x]].add(moments);
            }
        }
        table
    }

    /// Returns the results of all links of a selection.
    pub fn region(&self, selection: &Selection) -> Moments {
        let mut all = Moments::default();
        for (cell, moments) in self.cells.iter().enumerate() {
            let bins = bins_of(cell);
            if selection.iter().zip(bins).all(|(wanted, bin)| wanted.is_none_or(|wanted| wanted == bin)) {
                all.add(moments);
            }
        }
        all
    }

    /// Returns the file.
    ///
    /// # Errors
    ///
    /// Returns an error if the description cannot be written as JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec(&self.head)?;
        bytes.push(b'\n');
        for cell in &self.cells {
            cell.won.iter().for_each(|won| write_number(*won, &mut bytes));
            let links = cell.links();
            if links == 0 {
                continue;
            }
            for mean in cell.means {
                let rounded = libm::round(mean * MEAN_UNIT).clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16;
                bytes.extend(rounded.to_le_bytes());
            }
            if links > 1 {
                for squares in cell.squares {
                    let variance = (squares / (links - 1) as f64) as f32;
                    // Rounded to the nearest; no variance is near the largest number.
                    bytes.extend((((variance.to_bits() + 0x8000) >> 16) as u16).to_le_bytes());
                }
            }
        }
        Ok(bytes)
    }

    /// Parses a file.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not a map, or one with other cells or schemes.
    pub fn parse(bytes: &[u8]) -> Result<Self, MapError> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| MapError::Head("it has no first line".to_owned()))?;
        let head: Head = serde_json::from_slice(&bytes[..end]).map_err(|error| MapError::Head(error.to_string()))?;
        let empty = Self::new(head.seed, &head.build);
        let wanted = &empty.head;
        let others = [
            (head.lasthop_atlas != wanted.lasthop_atlas, "numbers"),
            (head.schemes != wanted.schemes, "schemes"),
            (head.dimensions != wanted.dimensions, "cells"),
        ];
        if let Some((_, what)) = others.into_iter().find(|(differ, _)| *differ) {
            return Err(MapError::Other(what));
        }
        let mut rest = Reader(&bytes[end + 1..]);
        let mut cells = Vec::with_capacity(CELLS);
        for _ in 0..CELLS {
            cells.push(rest.cell().ok_or(MapError::Length)?);
        }
        let links: u64 = cells.iter().map(Moments::links).sum();
        if !rest.0.is_empty() || links != head.links {
            return Err(MapError::Length);
        }
        Ok(Self { head, cells })
    }
}

fn write_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Rest of a file.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }

    /// Reads a number of at most 35 bits.
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn cell(&mut self) -> Option<Moments> {
        let mut cell = Moments::default();
        for won in &mut cell.won {
            *won = self.number()?;
        }
        let links = cell.links();
        if links > 0 {
            for mean in &mut cell.means {
                *mean = f64::from(self.half()?.cast_signed()) / MEAN_UNIT;
            }
        }
        if links > 1 {
            let mut squares = [0.0; PAIRS];
            for square in &mut squares {
                let variance = f64::from(f32::from_bits(u32::from(self.half()?) << 16));
                // Neither negative nor infinite.
                *square = (0.0..1e30).contains(&variance).then_some(variance * (links - 1) as f64)?;
            }
            cell.squares = squares;
        }
        Some(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::super::moments::Verdict;
    use super::*;

    /// Returns a map of 4,000 links with invented results: split wins with losses, nothing helps without.
    fn invented() -> Map {
        let sequence = super::super::sequence::Sequence::new(1);
        let mut map = Map::new(1, "test");
        for number in 0..4000 {
            let link = Link::at(sequence.point(number));
            let wobble = f64::from(number % 7) / 100.0;
            let gain = if link.values[2] > 0 { 2.0 } else { 1.0 };
            map.add(&link, &[1.0, 1.0 + wobble / 10.0, gain * (0.9 + wobble / 10.0), gain, 0.5 + wobble]);
        }
        map
    }

    #[test]
    fn a_file_has_the_map() {
        let map = invented();
        let bytes = map.to_bytes().unwrap();
        let read = Map::parse(&bytes).unwrap();
        assert_eq!((read.head.links, &read.head), (4000, &map.head));
        for cell in 0..CELLS {
            let (wrote, read) = (map.cell(cell), read.cell(cell));
            assert_eq!(wrote.won, read.won);
            assert!(
                wrote.means.iter().zip(read.means).all(|(a, b)| (a - b).abs() <= 0.5 / MEAN_UNIT),
                "{wrote:?} {read:?}"
            );
            assert!(
                wrote.squares.iter().zip(read.squares).all(|(a, b)| (a - b).abs() <= a / 250.0),
                "{wrote:?} {read:?}"
            );
        }
        // What was read is written alike.
        assert_eq!(read.to_bytes().unwrap(), bytes);
    }

    /// Against an independent computation over the same links.
    #[test]
    fn a_table_has_the_links_of_its_selection() {
        let map = invented();
        let mut selection = [None; DIMENSIONS_COUNT];
        selection[3] = Some(1);
        let table = map.table(0, 2, &selection);
        assert_eq!((table.len(), table[0].len()), (6, 6));
        let sequence = super::super::sequence::Sequence::new(1);
        let (mut links, mut gains) = (0, Vec::new());
        for number in 0..4000 {
            let [rate, _, loss, burst, ..] = Link::at(sequence.point(number)).values;
            if (1000..3000).contains(&rate) && (2000..10_000).contains(&loss) && (200..600).contains(&burst) {
                links += 1;
                gains.push((2.0 * (0.9 + f64::from(number % 7) / 1000.0)).ln());
            }
        }
        let cell = &table[3][1];
        assert_eq!(cell.links(), links);
        assert!(links > 20);
        let (gain, [low, high]) = cell.gain(2).unwrap();
        let expected = crate::stats::Estimate::of(&gains).unwrap();
        assert!((gain.ln() - expected.mean).abs() < 1e-9 && (low.ln() - expected.interval().0).abs() < 1e-9);
        assert!((high.ln() - expected.interval().1).abs() < 1e-9);
        assert_eq!((cell.verdict(), table[0][1].verdict()), (Verdict::Wins(3), Verdict::Nothing));
        // A region is the sum of its cells.
        (selection[0], selection[2]) = (Some(1), Some(3));
        assert_eq!(map.region(&selection).won, cell.won);
        assert_eq!(map.region(&[None; DIMENSIONS_COUNT]).links(), 4000);
    }

    #[test]
    fn what_is_no_map_is_refused() {
        let bytes = invented().to_bytes().unwrap();
        let refused = |bytes: &[u8]| Map::parse(bytes).unwrap_err().to_string();
        assert!(refused(b"PAR1").starts_with("is not a map of an atlas: it has no first line"));
        assert!(refused(b"{}\n").starts_with("is not a map of an atlas: missing field"));
        assert_eq!(Map::parse(&bytes[..bytes.len() - 1]), Err(MapError::Length));
        assert_eq!(Map::parse(&[&bytes[..], b"x"].concat()), Err(MapError::Length));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let other = text.replacen("\"SNOOP\"", "\"PROXY\"", 1);
        assert_eq!(Map::parse(other.as_bytes()), Err(MapError::Other("schemes")));
        let other = text.replacen("[300,1000", "[300,1001", 1);
        assert_eq!(Map::parse(other.as_bytes()), Err(MapError::Other("cells")));
    }
}
