//! Tests arbitrary capture files: each yields a report, a loss trace of each flow, and an annotated capture that can be
//! read as well.
#![no_main]

use lasthop_diagnose::{Options, annotate::annotate, diagnose, loss_trace::loss_trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let report = match diagnose(bytes, &Options::default()) {
        Ok(report) => report,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            return;
        }
    };
    let mut out = Vec::new();
    annotate(&report, bytes, &mut out).expect("nothing fails in memory");
    let again = diagnose(&out[..], &Options::default()).expect("a capture");
    assert_eq!(again.packets, report.packets);
    assert_eq!(again.damage, None);
    for flow in &report.flows {
        for direction in &flow.directions {
            assert!(direction.limits.iter().all(|limit| (0.0..=1.0).contains(&limit.share)), "{direction:?}");
            loss_trace(flow, direction, bytes, &mut Vec::new()).expect("nothing fails in memory");
        }
    }
});
