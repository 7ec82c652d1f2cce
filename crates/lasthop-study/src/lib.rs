//! Replications with confidence intervals, sweeps, and the published studies.
//!
//! | module | contents |
//! |---|---|
//! | [`stats`] | means and Student-t intervals |
//! | [`replicate`] | many runs on many cores, with results in a fixed order |
//! | [`progressive`] | runs for interactive use: early results, later refined, can be stopped at any time |
//! | [`meaning`] | schemes that are the same run in a scenario, or differ from their names |
//! | [`measures`] | metrics of a run |
//! | [`sweep`], [`parts`] | cartesian parameter sweeps, and their folders of Parquet files |
//! | [`series`], [`tcp_info`] | a run over time |
//! | [`atlas`] | cures over all links: their results by rate, round trip, losses, queue and variation |
//! | [`advise`] | selection of a cure for a link |
//! | [`install`] | installation of an advice: configurations of the gateway, the two-ended link, the senders |
//! | [`promise`] | promise of an advice, and its verification |
//! | [`link`] | from a measurement to the link of a scenario |
//! | [`diagnosis`] | diagnosis of the flows in a capture |
//! | [`about`] | each scheme in two sentences |
//! | [`reproduce`] | reproduction of the published studies |
//! | [`study`] | common parts of studies: cells and their results |
//! | [`balakrishnan1997`] | the 1997 study: cells, tables, claims, figures |
//! | [`xylomenos_kokkinakis`] | the study of error control at several layers |
//! | [`discussion1997`] | topics that the 1997 study discusses without measurements |
//! | [`lasthop2026`] | the question of 1997 with modern schemes, links and applications |
#![forbid(unsafe_code)]

pub mod about;
pub mod advise;
pub mod atlas;
pub mod balakrishnan1997;
pub mod beyond_repair;
mod claims;
pub mod diagnosis;
pub mod discussion1997;
pub mod emodel;
pub mod install;
pub mod lasthop2026;
pub mod link;
pub mod meaning;
pub mod measures;
pub mod papers;
pub mod parts;
pub mod progressive;
pub mod promise;
pub mod replicate;
pub mod reproduce;
pub mod series;
pub mod stats;
pub mod study;
pub mod sweep;
pub mod tcp_info;
pub mod topics;
pub mod xylomenos_kokkinakis;
