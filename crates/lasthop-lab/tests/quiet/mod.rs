//! Common parts of the lab's tests: a watcher that never stops a run, and turns.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lasthop_lab::Watch;

use crate::skip::without_root;

/// Waits until no other test runs a lab: labs share the processors, and tests check that they leave nothing behind. `None`, with a message, without
/// root.
pub fn turn(tests: &str) -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    if without_root(tests) {
        return None;
    }
    Some(TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

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
