//! Tests of both ends of a two-ended link over various channels.

mod auto;
mod bottleneck;
mod golden;
mod liars;
mod link;
mod outage;
mod paths;
mod properties;
mod replay;
mod shared;
mod tiers;
mod windows;
