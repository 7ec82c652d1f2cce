//! What a supervisor shares with the threads that report on it and ask of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A state that threads share.
#[derive(Debug)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Shared<T> {
    /// Shares it.
    pub fn new(state: T) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// The state, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // Every change to it is a single assignment: a thread that panicked left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
