//! The links of `[bundles.NAME]`.

use lasthop_sim::network::{Bundle, LinkId};

use crate::bundles::{BundleKeys, Bundles};
use crate::nodes::{Link, Nodes};
use crate::reader::Reader;
use crate::shared_keys::RootKeys;
use crate::stations::Station;
use crate::{Error, Problem};

/// Returns the bundles, after checking that the links of each join the same two routers. The first link of each is
/// that of the base station, if it is one of them.
pub(crate) fn read(
    bundles: Bundles,
    root: &Reader<'_>,
    nodes: &Nodes,
    links: &[Link],
    station: Option<&Station>,
) -> Result<Vec<Bundle>, Error> {
    let mut read = Vec::new();
    for ((_, reader), names) in root.named(RootKeys::bundles)?.into_iter().zip(bundles.into_names()) {
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
        read.push(Bundle { links: found.into_iter().map(LinkId).collect() });
    }
    Ok(read)
}
