//! Atlas of cures: a download over each of many links, with every cure, and a map of which one helps where.
//!
//! Links are drawn from ranges of seven properties ([`DIMENSIONS`]) by a sequence that fills them evenly from the first
//! link on, so that any number of links is a fair sample. The python package computes them (`python -m lasthop.atlas`);
//! the program contains the map of such a computation ([`shipped`]). `docs/atlas.md` describes both.

mod dimensions;
mod folder;
mod links;
mod map;
mod moments;
mod placement;
mod sequence;

use std::sync::OnceLock;

pub use self::dimensions::{CELLS, DIMENSIONS, DIMENSIONS_COUNT, Dimension, Selection};
pub use self::folder::definition;
pub use self::links::{Link, Links, NAMES, Row, SCENARIO, SCHEMES};
pub use self::map::{Head, Map, MapError};
pub use self::moments::{LEAST_GAIN, LEAST_LINKS, Moments, Verdict};
pub use self::placement::{Placement, Region};

/// Map that the program contains.
const MAP: &[u8] = include_bytes!("../assets/atlas.map");

/// Returns the map that the program contains.
pub fn shipped() -> Option<&'static Map> {
    static SHIPPED: OnceLock<Option<Map>> = OnceLock::new();
    // A test parses it.
    SHIPPED.get_or_init(|| Map::parse(MAP).ok()).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The map has enough links for verdicts, and is small enough for the pages.
    #[test]
    fn the_program_contains_a_map() {
        let map = Map::parse(MAP).unwrap();
        assert!(MAP.len() <= 300_000, "{}", MAP.len());
        assert!(map.head.links >= 1000, "{}", map.head.links);
        assert_eq!(map.region(&[None; DIMENSIONS_COUNT]).links(), map.head.links);
    }
}
