//! `[bundles.NAME]`: links between the same two routers.

use lasthop_proto::link::hybrid::MOST_PATHS;

use crate::reader::Reader;
use crate::shared_keys::RootKeys;
use crate::values::{List, Text};
use crate::{Error, Problem};

keys! {
    /// Keys of a bundle.
    pub(crate) BundleKeys {
        /// required | 2 to 8 links between the same two routers, named in the same order. `LINK-MULTI` uses all of them;
        /// other schemes use the link of `[base_station]` if it is one of them, otherwise the first
        links;
    }
}

/// Names of the links of all bundles, by bundle.
pub(crate) struct Bundles(Vec<Vec<String>>);

impl Bundles {
    /// Reads the names of links. [`bundle_links`](crate::bundle_links) checks the links themselves.
    pub(crate) fn read(root: &Reader<'_>) -> Result<Self, Error> {
        let mut bundles: Vec<Vec<String>> = Vec::new();
        for (_, reader) in root.named(RootKeys::bundles)? {
            reader.allow(BundleKeys::NAMES)?;
            reader.note_table();
            let List(names) = reader.required::<List<Text>>(BundleKeys::links)?;
            let names: Vec<String> = names.into_iter().map(|Text(name)| name).collect();
            let conflict = |message: String| reader.fail(BundleKeys::links, Problem::Conflict(message));
            if !(2..=usize::from(MOST_PATHS)).contains(&names.len()) {
                return Err(conflict(format!("a bundle has 2 to {MOST_PATHS} links; found {}", names.len())));
            }
            for (index, name) in names.iter().enumerate() {
                if names[..index].contains(name) || bundles.iter().flatten().any(|other| other == name) {
                    return Err(conflict(format!("\"{name}\" is in a bundle twice; remove one of the two")));
                }
            }
            bundles.push(names);
        }
        Ok(Self(bundles))
    }

    /// Returns whether two links belong to the same bundle.
    pub(crate) fn join(&self, one: &str, other: &str) -> bool {
        let has = |names: &[String], name: &str| names.iter().any(|own| own == name);
        self.0.iter().any(|names| has(names, one) && has(names, other))
    }

    /// Returns the names of the links, by bundle.
    pub(crate) fn into_names(self) -> Vec<Vec<String>> {
        self.0
    }
}
