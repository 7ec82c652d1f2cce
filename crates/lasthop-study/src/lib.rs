//! From single runs to answers: replications with confidence intervals, sweeps, and the published studies.
//!
//! | module | holds |
//! |---|---|
//! | [`stats`] | means and Student-t intervals |
//! | [`replicate`] | many runs on many cores, in an order that does not depend on them |
//! | [`progressive`] | the same for someone who watches: an answer soon, better ones later, an end at any moment |
//! | [`meaning`] | which schemes are the same run in a scenario, or not what their names say |
//! | [`measures`] | what a run is judged by |
//! | [`sweep`], [`parts`] | cartesian parameter sweeps, and their folders of Parquet files |
//! | [`advise`] | which cure helps on a link, and with what |
//! | [`install`] | what an advice installs: configurations of the gateway, the two-ended link, the senders |
//! | [`promise`] | what such an advice promises, and whether it is kept |
//! | [`link`] | from a measurement to the link that a scenario describes |
//! | [`diagnosis`] | what a capture says of its flows |
//! | [`about`] | each scheme in two sentences |
//! | [`reproduce`] | the published studies by name, and what reproducing one takes |
//! | [`study`] | what they have in common: cells, and what was measured in them |
//! | [`balakrishnan1997`] | the 1997 study: cells, tables, claims, figures |
//! | [`xylomenos_kokkinakis`] | the study of error control at several layers |
//! | [`discussion1997`] | what the 1997 study discusses and leaves to others |
#![forbid(unsafe_code)]

pub mod about;
pub mod advise;
pub mod balakrishnan1997;
mod claims;
pub mod diagnosis;
pub mod discussion1997;
pub mod emodel;
pub mod install;
pub mod link;
pub mod meaning;
pub mod measures;
pub mod parts;
pub mod progressive;
pub mod promise;
pub mod replicate;
pub mod reproduce;
pub mod series;
pub mod stats;
pub mod study;
pub mod sweep;
pub mod uploads;
pub mod xylomenos_kokkinakis;
