//! `[bundles.NAME]`: links between the same two routers.

use lasthop_sim::network::{Bundle, LinkId};

use crate::nodes::{Link, Nodes};
use crate::reader::Reader;
use crate::shared_keys::RootKeys;
use crate::stations::Station;
use crate::values::{List, Text};
use crate::{Error, Problem};

/// Maximum number of links in a bundle.
const MOST: usize = 8;

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
    /// Reads the names of links. The links themselves are checked later ([`check`]).
    pub(crate) fn read(root: &Reader<'_>) -> Result<Self, Error> {
        let mut bundles: Vec<Vec<String>> = Vec::new();
        for (_, reader) in root.named(RootKeys::bundles)? {
            reader.allow(BundleKeys::NAMES)?;
            reader.note_table();
            let List(names) = reader.required::<List<Text>>(BundleKeys::links)?;
            let names: Vec<String> = names.into_iter().map(|Text(name)| name).collect();
            let conflict = |message: String| reader.fail(BundleKeys::links, Problem::Conflict(message));
            if !(2..=MOST).contains(&names.len()) {
                return Err(conflict(format!("a bundle has 2 to {MOST} links; found {}", names.len())));
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

    /// Returns whether a link belongs to a bundle that has another link among `links`.
    pub(crate) fn joins(&self, link: &Link, links: &[Link]) -> bool {
        let own = self.0.iter().find(|names| names.contains(&link.name));
        own.is_some_and(|names| links.iter().any(|other| names.contains(&other.name)))
    }

    /// Returns the bundles, after checking that the links of each join the same two routers. The first link of each is
    /// that of the base station, if it is one of them.
    pub(crate) fn check(
        self,
        root: &Reader<'_>,
        nodes: &Nodes,
        links: &[Link],
        station: Option<&Station>,
    ) -> Result<Vec<Bundle>, Error> {
        let mut bundles = Vec::new();
        for ((_, reader), names) in root.named(RootKeys::bundles)?.into_iter().zip(self.0) {
            let mut found = Vec::new();
            for name in &names {
                let known = links.iter().map(|link| link.name.as_str());
                let index = links.iter().position(|link| link.name == *name);
                found.push(index.ok_or_else(|| reader.unknown_name(BundleKeys::links, "link", name, known))?);
            }
            let conflict = |message: String| reader.fail(BundleKeys::links, Problem::Conflict(message));
            let first = &links[found[0]];
            for other in found.iter().map(|index| &links[*index]) {
                if other.between != first.between {
                    return Err(conflict(format!(
                        "\"{}\" and \"{}\" differ in `between`; give both the same two routers in the same order",
                        first.name, other.name
                    )));
                }
            }
            if let Some(host) = first.between.into_iter().find(|node| nodes.is_host(*node)) {
                let name = nodes.name(host);
                return Err(conflict(format!(
                    "\"{name}\" is a host; a bundle joins two routers: make it [routers.{name}], with a host behind it"
                )));
            }
            if let Some(own) = station.and_then(|station| found.iter().position(|link| *link == station.port.link)) {
                found[..=own].rotate_right(1);
            }
            bundles.push(Bundle { links: found.into_iter().map(LinkId).collect() });
        }
        Ok(bundles)
    }
}
