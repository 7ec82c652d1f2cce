//! Map of the atlas: the cure that won in each cell of two dimensions.

use lasthop_study::advise::CURES;
use lasthop_study::atlas::{
    DIMENSIONS, DIMENSIONS_COUNT, Dimension, LEAST_GAIN, LEAST_LINKS, Link, Map, Moments, NAMES, SCENARIO, Selection,
    shipped,
};
use serde_json::{Value, json};

use crate::refusal::Refusal;
use crate::words::Words;

/// Dimensions of the map by default.
const DEFAULT: [&str; 2] = ["round-trip", "loss"];

/// Returns the map of two dimensions as JSON. The query has `x` and `y`, names of dimensions, and for each of the others
/// its name with the number of a bin, from 0, if only links in that bin are to be included:
///
/// * `links`, `seed`, `build` of the atlas, `least_links` for a verdict, `least_gain` of a cure that helps, in percent;
/// * `schemes`, the first of which is no cure, with `needs` and `does`; `dimensions` with the words of their `bins`, and
///   `bin`, the number of the selected one;
/// * `x`, `y`, `included` (number of links), and `rows`, one for each bin of `y`, of a cell for each bin of `x`: results as
///   in `lasthop advise --json`, `at` (its bin of `x` and of `y`) and `simulate`, the query of the simulator for the link
///   in the middle of the cell.
///
/// # Errors
///
/// Returns an error if a dimension or bin does not exist.
pub fn atlas(query: &str) -> Result<Value, Refusal> {
    let mut words = Words::read(query)?;
    let mut axis = |key: &str, default: &str| {
        let id = words.take(key).unwrap_or_else(|| default.to_owned());
        let known = || DIMENSIONS.map(|dimension| dimension.id).join(", ");
        Dimension::by_id(&id)
            .ok_or_else(|| Refusal::of(key, format!("there is no dimension \"{id}\"; expected one of {}", known())))
    };
    let (x, y) = (axis("x", DEFAULT[0])?, axis("y", DEFAULT[1])?);
    if x == y {
        return Err(Refusal::of("y", "cannot be the dimension of x"));
    }
    let mut selection: Selection = [None; DIMENSIONS_COUNT];
    for (bin, dimension) in selection.iter_mut().zip(&DIMENSIONS) {
        *bin = words.number(dimension.id, [0, dimension.bins() - 1])?;
    }
    words.finish()?;
    let map = shipped().ok_or_else(|| Refusal::of("atlas", "this program has none"))?;
    Ok(answer(map, x, y, &selection))
}

fn answer(map: &Map, x: usize, y: usize, selection: &Selection) -> Value {
    let table = map.table(x, y, selection);
    let included: u64 = table.iter().flatten().map(Moments::links).sum();
    let rows = table.iter().enumerate().map(|(of_y, row)| {
        let cell = |(of_x, moments): (usize, &Moments)| {
            let mut at = *selection;
            (at[x], at[y]) = (Some(of_x), Some(of_y));
            let mut value = moments.to_json();
            value["at"] = json!([of_x, of_y]);
            value["simulate"] = json!(simulate(&at));
            value
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>()
    });
    let schemes = NAMES.into_iter().filter_map(|name| {
        let cure = CURES.iter().find(|cure| cure.scheme == name)?;
        Some(json!({ "name": name, "needs": cure.needs.words(), "does": cure.does }))
    });
    let dimensions = DIMENSIONS.iter().zip(selection).map(|(dimension, bin)| {
        json!({
            "id": dimension.id,
            "label": dimension.label,
            "hint": dimension.hint,
            "unit": dimension.unit,
            "bins": (0..dimension.bins()).map(|bin| dimension.bin_words(bin)).collect::<Vec<_>>(),
            "bin": bin,
        })
    });
    json!({
        "links": map.head.links,
        "seed": map.head.seed,
        "build": map.head.build,
        "least_links": LEAST_LINKS,
        "least_gain": 100.0 * LEAST_GAIN,
        "schemes": schemes.collect::<Vec<_>>(),
        "dimensions": dimensions.collect::<Vec<_>>(),
        "x": DIMENSIONS[x].id,
        "y": DIMENSIONS[y].id,
        "included": included,
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// Returns the query of the simulator for the link in the middle of a selection.
fn simulate(selection: &Selection) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("scenario", SCENARIO);
    query.append_pair("schemes", &NAMES.join(","));
    for (key, value) in Link::middle(selection).keys() {
        query.append_pair("set", &format!("{key}={value}"));
    }
    query.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::plan::Plan;

    #[test]
    fn a_map_has_a_cell_for_each_pair_of_bins() {
        let map = atlas("x=rate&y=queue&loss=4").unwrap();
        let rows = map["rows"].as_array().unwrap();
        assert_eq!((rows.len(), rows[0].as_array().unwrap().len()), (3, 6));
        assert_eq!((&map["x"], &map["y"], &map["dimensions"][2]["bin"]), (&json!("rate"), &json!("queue"), &json!(4)));
        assert_eq!(map["dimensions"][2]["bins"][4], "1 to 3 %");
        let sum: u64 =
            rows.iter().flat_map(|row| row.as_array().unwrap()).map(|cell| cell["links"].as_u64().unwrap()).sum();
        assert_eq!(map["included"], sum);
        // A sixth of all links lies in each bin of losses.
        let share = sum as f64 / map["links"].as_f64().unwrap();
        assert!((share - 1.0 / 6.0).abs() < 0.01, "{share}");
        for cell in rows.iter().flat_map(|row| row.as_array().unwrap()) {
            let won: u64 =
                cell["schemes"].as_array().unwrap().iter().map(|scheme| scheme["won"].as_u64().unwrap()).sum();
            assert_eq!(cell["links"], won);
            assert!(["wins", "nothing", "unknown"].contains(&cell["verdict"].as_str().unwrap()));
        }
    }

    /// The simulator opens the link of every cell, with the values of its bins.
    #[test]
    fn the_simulator_opens_the_link_of_a_cell() {
        let catalogue = Catalogue::new(&[]).unwrap();
        let map = atlas("x=rate&y=loss&variation=1&share=0").unwrap();
        for cell in map["rows"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()) {
            let plan = Plan::read(&catalogue, cell["simulate"].as_str().unwrap()).unwrap();
            assert_eq!(plan.schemes.len(), 5);
            let network = plan.scenario.network(plan.scenario.scheme()).unwrap();
            let [wire, hop] = [&network.links[0], &network.links[1]];
            let rate = f64::from(u32::try_from(hop.directions[0].rate.0 / 1000).unwrap());
            assert_eq!(json!([DIMENSIONS[0].bin(rate).unwrap()]), json!([cell["at"][0]]));
            assert!(hop.delay < wire.delay && hop.directions[0].impairments.rate.varies());
        }
    }

    #[test]
    fn what_is_not_in_the_atlas_is_refused() {
        let refused = |query: &str| {
            let refusal = atlas(query).unwrap_err();
            (refusal.control.unwrap(), refusal.message)
        };
        let (control, message) = refused("x=colour");
        assert_eq!(control, "x");
        assert!(
            message.starts_with("x: there is no dimension \"colour\"; expected one of rate, round-trip, loss"),
            "{message}"
        );
        assert_eq!(refused("x=loss").1, "y: cannot be the dimension of x");
        assert_eq!(refused("rate=6").1, "rate: cannot be \"6\"; give 0 to 5");
        assert_eq!(refused("price=1").1, "price: is unknown");
    }
}
