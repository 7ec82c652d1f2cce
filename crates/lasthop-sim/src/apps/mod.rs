//! Applications as pure state machines: they receive events with times and return what to send. Their driver owns the
//! connections and the clock.

mod call;
mod empirical;
mod on_off;
mod web;

pub use call::{CallConfig, CallLog, CallReport, CallSource, Codec, Delays};
pub use empirical::{Empirical, InvalidCdf, objects_per_page, reply_bytes, request_bytes};
pub use on_off::{OnOff, OnOffConfig};
pub use web::{Leg, Transfer, WebConfig, WebReport, WebSession};
