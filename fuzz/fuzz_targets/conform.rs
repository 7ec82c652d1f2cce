//! Tests arbitrary files as packetdrill scripts: each gets a result, or a one-line message with its line.
#![no_main]

use lasthop_conform::lasthop::{Lasthop, Model};
use lasthop_conform::run::Verdict;
use lasthop_conform::suite::{Outcome, run_text};
use lasthop_proto::tcp::config::Preset;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for preset in [Preset::Linux618, Preset::Rfc] {
        let mut stack = Lasthop::new(Model::new(preset));
        let lines = text.lines().count() as u32 + 1;
        let line = match run_text(text, &mut stack, &|_| None) {
            Outcome::Invalid(error) => {
                assert!(!error.message.contains('\n'), "{error}");
                error.line
            }
            Outcome::Ran(Verdict::Failed(difference)) => difference.line,
            Outcome::Ran(Verdict::NotApplicable { line, .. }) => line,
            Outcome::Ran(Verdict::Passed) => continue,
        };
        assert!((1..=lines).contains(&line), "line {line} of {lines}");
    }
});
