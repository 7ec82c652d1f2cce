//! Logging to standard error: lines on a terminal, JSON elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, reload};

/// Handle that changes the log level.
#[derive(Clone)]
pub struct Level(Option<reload::Handle<EnvFilter, tracing_subscriber::Registry>>);

impl Level {
    /// Sets the minimum severity (`error`, `warn`, `info`, `debug`, `trace`), unless `RUST_LOG` is set.
    pub fn set(&self, level: &str) {
        if let Some(handle) = &self.0
            && let Ok(filter) = EnvFilter::try_new(level)
        {
            // Fails only if the subscriber no longer exists.
            let _ = handle.reload(filter);
        }
    }
}

/// Starts logging at severity `info`, or as `RUST_LOG` says.
pub fn start() -> Level {
    let (filter, fixed) = match EnvFilter::try_from_default_env() {
        Ok(filter) => (filter, true),
        Err(_) => (EnvFilter::new("info"), false),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = match std::io::stderr().is_terminal() {
        true => lines.boxed(),
        false => tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed(),
    };
    // Fails if there is a subscriber already, which then remains in use.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Level((!fixed).then_some(handle))
}
