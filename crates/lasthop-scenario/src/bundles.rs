//! `[bundles.NAME]`: links between the same two routers.

use lasthop_proto::link::hybrid::{MOST_PATHS, Tier};

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
        /// all `"primary"` | for `LINK-MULTI`, a [tier](models/multipath.md#tiers) for each link: `"primary"`,
        /// `"secondary"`, `"backup"` or `"off"`
        tiers;
    }
}

/// Links of a bundle by name, with their tiers.
pub(crate) type Members = Vec<(String, Tier)>;

/// Members of all bundles, by bundle.
pub(crate) struct Bundles(Vec<Members>);

impl Bundles {
    /// Reads the names of links. [`bundle_links`](crate::bundle_links) checks the links themselves.
    pub(crate) fn read(root: &Reader<'_>) -> Result<Self, Error> {
        let mut bundles: Vec<Members> = Vec::new();
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
                if names[..index].contains(name) || bundles.iter().flatten().any(|(other, _)| other == name) {
                    return Err(conflict(format!("\"{name}\" is in a bundle twice; remove one of the two")));
                }
            }
            let tiers = match reader.get::<List<Tier>>(BundleKeys::tiers)? {
                Some(List(tiers)) if tiers.len() != names.len() => {
                    let expected = format!("one tier for each of the {} links", names.len());
                    return Err(reader.refuse(BundleKeys::tiers, expected, ""));
                }
                Some(List(tiers)) if tiers.iter().all(|tier| *tier == Tier::Off) => {
                    return Err(reader.refuse(BundleKeys::tiers, "a link that is not off", "all links are off"));
                }
                Some(List(tiers)) => tiers,
                None => vec![Tier::default(); names.len()],
            };
            bundles.push(names.into_iter().zip(tiers).collect());
        }
        Ok(Self(bundles))
    }

    /// Returns whether two links belong to the same bundle.
    pub(crate) fn join(&self, one: &str, other: &str) -> bool {
        let has = |members: &Members, name: &str| members.iter().any(|(own, _)| own == name);
        self.0.iter().any(|members| has(members, one) && has(members, other))
    }

    /// Returns the members, by bundle.
    pub(crate) fn into_members(self) -> Vec<Members> {
        self.0
    }
}
