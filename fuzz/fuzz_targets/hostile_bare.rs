//! The mechanism among strangers, without bytes: see `lasthop_fuzz::hostile`.
#![no_main]

use lasthop_fuzz::hostile::{middle::Bare, world::run};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| run::<Bare>(data));
