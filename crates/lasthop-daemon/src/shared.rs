//! State that a supervisor shares with the threads that report it and send requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State shared between threads.
#[derive(Debug)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    /// Wraps a state for sharing.
    pub fn new(state: T) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // Every change is a single assignment, so a thread that panicked left a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
