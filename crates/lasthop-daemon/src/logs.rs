//! What daemons write about themselves, to standard error: lines for people on a terminal, JSON elsewhere.

use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, reload};

/// Changes what is written.
#[derive(Clone)]
pub struct Level(Option<reload::Handle<EnvFilter, tracing_subscriber::Registry>>);

impl Level {
    /// From now on, what is of this severity (`error`, `warn`, `info`, `debug`, `trace`) or worse; unless `RUST_LOG` says
    /// what is to be written.
    pub fn set(&self, level: &str) {
        if let Some(handle) = &self.0
            && let Ok(filter) = EnvFilter::try_new(level)
        {
            // It fails only when there is no subscriber any more.
            let _ = handle.reload(filter);
        }
    }
}

/// Begins to write what is of severity `info` or worse, or what `RUST_LOG` says.
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
    // It fails when there is a subscriber already, which then decides.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Level((!fixed).then_some(handle))
}
