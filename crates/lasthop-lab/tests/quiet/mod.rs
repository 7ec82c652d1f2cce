//! An observer that never stops the lab.

use lasthop_lab::Watch;

/// Prints the reasons of void runs, and nothing else.
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
