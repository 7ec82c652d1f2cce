//! The links of `[bundles.NAME]`.

use lasthop_proto::link::hybrid::Terms;
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
    for ((_, reader), members) in root.named(RootKeys::bundles)?.into_iter().zip(bundles.into_members()) {
        let mut found = Vec::new();
        for (name, tier) in &members {
            let known = links.iter().map(|link| link.name.as_str());
            let index = links.iter().position(|link| link.name == *name);
            let index = index.ok_or_else(|| reader.unknown_name(BundleKeys::links, "link", name, known))?;
            found.push((index, Terms::of(*tier)));
        }
        let conflict = |message: String| reader.fail(BundleKeys::links, Problem::Conflict(message));
        let first = &links[found[0].0];
        for other in found.iter().map(|(index, _)| &links[*index]) {
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
        if let Some(own) = station.and_then(|station| found.iter().position(|(link, _)| *link == station.port.link)) {
            found[..=own].rotate_right(1);
        }
        let (links, terms) = found.into_iter().map(|(link, terms)| (LinkId(link), terms)).unzip();
        read.push(Bundle { links, terms });
    }
    Ok(read)
}
