use alloc::string::ToString;
use alloc::vec;

use super::*;
use crate::random::Root;
use crate::rate::{Offset, Wrap};
use crate::time::Instant;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn columns_in_any_order() {
    let text = b"\xef\xbb\xbf# measured\r\nLOSS_UP, t_s,rate_down_mbps,delay_up_ms # all\n0.25,0,12.5,30\n\n1e-3,0.5,0,30.25\n0,2.5e0,1e1,4\n";
    let trace = read_link_trace(text).unwrap();
    assert_eq!(trace.times, [ms(0), ms(500), ms(2500)]);
    assert_eq!(trace.rates, [Some(vec![12_500_000, 0, 10_000_000]), None]);
    assert_eq!(trace.delays, [None, Some(vec![ms(30), Duration::from_micros(30_250), ms(4)])]);
    assert_eq!(trace.losses, [None, Some(vec![0.25, 0.001, 0.0])]);
    assert_eq!(trace.names().collect::<Vec<_>>(), ["rate_down_mbps", "delay_up_ms", "loss_up"]);
    let written = Csv(&trace).to_string();
    assert_eq!(written, "t_s,rate_down_mbps,delay_up_ms,loss_up\n0,12.5,30,0.25\n0.5,0,30.25,0.001\n2.5,10,4,0\n");
    assert_eq!(read_link_trace(written.as_bytes()), Ok(trace));
}

#[test]
fn errors_name_the_line_and_the_column() {
    for (text, expected) in [
        ("", "has no rows"),
        ("t_s,loss_up\n", "has no rows"),
        ("0,1\n1,2\n", "has no header in line 1"),
        ("t_s\n0\n", "has no header in line 1"),
        ("rate_up_mbps,loss_up\n0,1\n", "has no header in line 1"),
        (
            "# x\nt_s,rate_mbps\n0,1\n",
            "has an unknown column in line 2: \"rate_mbps\"; the columns are t_s, rate_down_mbps",
        ),
        ("t_s,loss_up,loss_up\n0,1,1\n", "names a column twice in line 1: \"loss_up\""),
        ("t_s,loss_up\n0,0.5\n1\n", "has 1 fields in line 3, but its header names 2 columns"),
        ("t_s,loss_up\n0,1.5\n", "has no valid loss_up in line 2: a probability from 0 to 1"),
        ("t_s,loss_up\n0,nan\n", "has no valid loss_up in line 2"),
        ("t_s,delay_up_ms\n0,-1\n", "has no valid delay_up_ms in line 2"),
        ("t_s,delay_up_ms\n0,3600001\n", "milliseconds of at most an hour"),
        ("t_s,rate_up_mbps\n0,\n", "has no valid rate_up_mbps in line 2"),
        ("t_s,rate_up_mbps\nx,1\n", "has no valid t_s in line 2"),
        ("t_s,rate_up_mbps\n1,1\n", "does not begin at t_s = 0 (line 2)"),
        ("t_s,rate_up_mbps\n0,1\n0,1\n", "goes back in time in line 3"),
    ] {
        let error = read_link_trace(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn a_series_repeats_or_holds() {
    let steps = vec![(ms(0), 1), (ms(10), 2)];
    let at =
        |series: &TimeSeries<i32>, millis| Cursor::new(series, || Root(1).stream("x")).at(Instant::ZERO + ms(millis));
    let of = |wrap, offset| TimeSeries::new(steps.clone(), ms(30), wrap, offset).unwrap();
    let repeat = of(Wrap::Repeat, Offset::At(ms(0)));
    assert_eq!([0, 9, 10, 29, 30, 41].map(|time| at(&repeat, time)), [1, 1, 2, 2, 1, 2].map(Some));
    let hold = of(Wrap::Hold, Offset::At(ms(5)));
    assert_eq!([0, 4, 5, 30, 100].map(|time| at(&hold, time)), [1, 1, 2, 2, 2].map(Some));
    let placed = of(Wrap::Repeat, Offset::Random).placed(|| Root(7).stream("links/a/trace"));
    let drawn = Root(7).stream("links/a/trace").below(ms(30).as_nanos());
    assert_eq!(placed, of(Wrap::Repeat, Offset::At(Duration::from_nanos(drawn))));
    assert_eq!(TimeSeries::new(steps, ms(5), Wrap::Hold, Offset::At(ms(0))), None);
    assert_eq!(TimeSeries::new(vec![(ms(0), 1)], ms(0), Wrap::Repeat, Offset::At(ms(0))), None);
}
