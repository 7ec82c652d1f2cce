//! The gateway under attack, with bytes as drivers feed it: see `lasthop_fuzz::hostile`.
#![no_main]

use lasthop_fuzz::hostile::{
    middle::Bytes,
    world::{Demand, run},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| run::<Bytes>(data, Demand::All));
