//! Tests the gateway under attack, with packets as bytes, as drivers pass them: see `lasthop_fuzz::hostile`.
#![no_main]

use lasthop_fuzz::hostile::{
    middle::Bytes,
    world::{Demand, run},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| run::<Bytes>(data, Demand::All));
