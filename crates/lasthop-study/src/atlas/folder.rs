//! Description of a folder with the rows of an atlas.

use std::fmt::Write as _;

use lasthop_scenario::{Error, Scenario};

use super::dimensions::described;
use super::links::{NAMES, SCENARIO};

/// Returns a text with everything that the rows of the atlas of `seed` depend on, except for the number of links: more
/// links continue a folder.
///
/// # Errors
///
/// Returns an error if the ready-made scenario is invalid.
pub fn definition(seed: u64) -> Result<String, Error> {
    let mut text = String::from("# An atlas by lasthop. Everything that its rows depend on:\n");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "build = {:?}\nseed = {seed}\nschemes = {NAMES:?}", lasthop_identity::BUILD);
    text.push_str("duration = \"20 round trips, and in addition 4 s or 400 packets at the rate\"\n");
    text.push_str(&described());
    let _ = writeln!(text, "\n# The scenario whose keys each link sets, {SCENARIO}:");
    for line in Scenario::builtin(SCENARIO)?.to_toml().lines() {
        let _ = writeln!(text, "#   {line}");
    }
    Ok(text)
}
