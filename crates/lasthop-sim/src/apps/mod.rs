//! Applications as pure state machines: told what happened and when, they say what to send. Whoever drives them owns
//! the connections and the clock.

mod call;
mod empirical;
mod on_off;
mod web;

pub use call::{CallConfig, CallLog, CallReport, CallSource, Codec, Delays};
pub use empirical::{Empirical, InvalidCdf, objects_per_page, reply_bytes, request_bytes};
pub use on_off::{OnOff, OnOffConfig};
pub use web::{Leg, Transfer, WebConfig, WebReport, WebSession};
