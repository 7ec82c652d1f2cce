//! Tests the mechanism under attack, with packets without bytes: see `lasthop_fuzz::hostile`.
#![no_main]

use lasthop_fuzz::hostile::{
    middle::Bare,
    world::{Demand, run},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| run::<Bare>(data, Demand::All));
