//! Somebody who watches a lab that nobody stops.

use lasthop_lab::Watch;

/// Prints why a run is void, and nothing else.
pub struct Quiet;

impl Watch for Quiet {
    fn stopped(&self) -> bool {
        false
    }
    fn progress(&self, _: u64, _: u64) {}
    fn void(&self, reason: &str) {
        println!("void: {reason}");
    }
}
