//! Tests arbitrary files of link traces, in the CSV of scenarios and in public formats: each yields a trace that is
//! written and read again, or a one-line message.
#![no_main]

use lasthop_convert::{Clocks, Format, Input, Inputs, Options, leoreplayer, opportunities, read, statistics};
use lasthop_proto::link_trace::{Csv, read_link_trace};
use lasthop_proto::time::Duration;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let format = Format::ALL[usize::from(choice) % Format::ALL.len()];
    // Two files, divided by the first zero.
    let cut = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (first, second) = (&bytes[..cut], bytes.get(cut + 1..).unwrap_or_default());
    let input = |bytes: &[u8]| Input::new("file", bytes.to_vec());
    let (first, second) = match (input(first), input(second)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) | (_, Err(error)) => return assert!(!error.to_string().contains('\n')),
    };
    let inputs = match format.is_one_file() {
        true => Inputs { both: Some(&first), ..Inputs::default() },
        false => Inputs { rates: [Some(&first), None], delays: [None, Some(&second)], ..Inputs::default() },
    };
    for clocks in [Clocks::Unknown, Clocks::Synchronized] {
        let options = Options { step: Some(Duration::from_millis(200)), clocks, ..Options::default() };
        let converted = match read(format, &inputs, &options) {
            Ok(converted) => converted,
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "{error}");
                continue;
            }
        };
        let trace = converted.trace;
        let text = Csv(&trace).to_string();
        assert_eq!(read_link_trace(text.as_bytes()).as_ref(), Ok(&trace));
        assert!(statistics(&trace).columns.iter().all(|column| column.p5 <= column.p95));
        for index in [0, 1] {
            if trace.length() < Duration::from_secs(60) {
                if let Ok(Some(text)) = opportunities::write(&trace, index) {
                    assert!(lasthop_proto::rate::read_opportunities(text.as_bytes()).is_ok());
                }
                let _ = leoreplayer::write(&trace, index, Duration::from_millis(10));
            }
        }
    }
});
