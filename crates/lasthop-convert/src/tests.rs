//! Small synthetic files in each format, with values computed by hand.

use std::io::Write;

use lasthop_proto::link_trace::{Csv, LinkTrace, read_link_trace};
use lasthop_proto::time::Duration;

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn input(name: &str, text: &str) -> Input {
    Input::new(name, text.as_bytes().to_vec()).unwrap()
}

fn csv(text: &str) -> LinkTrace {
    read_link_trace(text.as_bytes()).unwrap()
}

fn with_step(millis: u64) -> Options {
    Options { step: Some(ms(millis)), ..Options::default() }
}

fn error(format: Format, inputs: &Inputs<'_>) -> String {
    let error = read(format, inputs, &Options::default()).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

/// 1500 bytes at 1, 4, 4 and 10 ms: 1.2, 2.4, 0 and 2.4 Mbps in steps of 5 ms, the end included in the last step.
#[test]
fn opportunities_become_rates() {
    let down = input("down", "1\n4\n4\n10\n");
    let up = input("up", "0\n5\n");
    let rates = [Some(&down), Some(&up)];
    let converted = read(Format::Mahimahi, &Inputs { rates, ..Inputs::default() }, &with_step(5)).unwrap();
    // Up: 0 and 5 in the first lap, which ends at 5; again 5 and 10 in the second.
    assert_eq!(converted.trace, csv("t_s,rate_down_mbps,rate_up_mbps\n0,7.2,4.8\n0.005,2.4,4.8\n0.01,2.4,4.8\n"));
    assert_eq!(converted.remarks.len(), 1);
    assert!(converted.remarks[0].contains("up lasts 0.005 s"), "{:?}", converted.remarks);
    let only_up = Inputs { rates: [None, Some(&up)], ..Inputs::default() };
    let trace = read(Format::Mahimahi, &only_up, &Options::default()).unwrap().trace;
    assert_eq!(trace, csv("t_s,rate_up_mbps\n0,4.8\n0.005,4.8\n"));
}

/// To opportunities and back, each step keeps its capacity within one packet, and the trace its length.
#[test]
fn rates_survive_opportunities() {
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    for _ in 0..50 {
        let rows = 3 + (next() % 30) as usize;
        let rates: Vec<u64> = (0..rows).map(|_| if next() % 4 == 0 { 0 } else { next() % 300_000_000 }).collect();
        let times = (0..rows as u64).map(|row| ms(100 * row)).collect();
        let trace = LinkTrace { times, rates: [Some(rates.clone()), None], ..LinkTrace::default() };
        if rates[..rows - 1].iter().all(|rate| *rate < 1_000_000) {
            continue;
        }
        let text = opportunities::write(&trace, 0).unwrap().unwrap();
        assert_eq!(opportunities::write(&trace, 1), Ok(None));
        let file = input("down", &text);
        let inputs = Inputs { rates: [Some(&file), None], ..Inputs::default() };
        let back = read(Format::Mahimahi, &inputs, &Options::default()).unwrap().trace;
        assert_eq!(back.length(), trace.length());
        // Rows of equal rates were joined.
        let rate_at = |time: Duration| {
            let row = back.times.partition_point(|from| *from <= time) - 1;
            back.rates[0].as_ref().unwrap()[row]
        };
        for (row, rate) in rates[..rows - 1].iter().enumerate() {
            let (was, is) = (*rate as f64 * 0.1, rate_at(ms(100 * row as u64)) as f64 * 0.1);
            assert!((was - is).abs() <= 1500.0 * 8.0 + 1.0, "row {row}: {was} {is} bits");
        }
    }
}

#[test]
fn leoreplayer_has_delays_beside() {
    let down = input("bw", "5\n10\n15\n20\n25\n30\n");
    let delay = input("delay", "12\n12\n16\n");
    let inputs = Inputs { rates: [Some(&down), None], delays: [Some(&delay), Some(&delay)], ..Inputs::default() };
    let converted = read(Format::LeoReplayer, &inputs, &with_step(15)).unwrap();
    assert_eq!(
        converted.trace,
        csv(
            "t_s,rate_down_mbps,delay_down_ms,delay_up_ms\n0,1.6,12,12\n0.015,3.2,12,12\n0.02,3.2,16,16\n0.03,3.2,16,16\n"
        )
    );
    assert!(converted.remarks.iter().any(|remark| remark.contains("order = \"free\"")), "{:?}", converted.remarks);
    assert_eq!(leoreplayer::write(&converted.trace, 1, ms(10)).unwrap(), "12\n12\n16\n");
    // The mean within each interval: 12 ms, then 16 ms for 5 of 15 ms.
    assert_eq!(leoreplayer::write(&converted.trace, 0, ms(15)).unwrap(), "12\n15\n");
    let alone = Inputs { delays: [Some(&delay), None], ..Inputs::default() };
    let options = Options { interval: ms(100), ..Options::default() };
    let trace = read(Format::LeoReplayer, &alone, &options).unwrap().trace;
    assert_eq!(trace, csv("t_s,delay_down_ms\n0,12\n0.2,16\n0.3,16\n"));
}

/// The base delay is linear between lines: 20 ms to 40 ms in the first 20 ms, back within the next 10.
#[test]
fn cellreplay_gives_rates_and_base_delays() {
    let heavy = input("heavy", "5\n10\n30\n");
    let light = input("light", "0 20 0 1 2\n20 40 0 3\n30 20 0\n");
    let inputs = Inputs { rates: [None, Some(&heavy)], delays: [None, Some(&light)], ..Inputs::default() };
    let converted = read(Format::CellReplay, &inputs, &with_step(10)).unwrap();
    assert_eq!(
        converted.trace,
        csv("t_s,rate_up_mbps,delay_up_ms\n0,1.12,25\n0.01,1.12,35\n0.02,1.12,30\n0.03,1.12,30\n")
    );
    assert!(converted.remarks.iter().any(|remark| remark.starts_with("not represented: the light")));
}

/// Clocks that differ by an hour do not matter; the minimum round trip of 60 ms is divided equally.
#[test]
fn lens_gives_delays_and_losses() {
    let text = "timestamp,rtt,uplink,downlink\n\
                1000000000000000000,60,3600020,-3599960\n1000000000100000000,0,0,-1\n1000000000200000000,70,3600030,-3599960\n\
                1000000000300000000,-1,0,0\n";
    let file = input("lens.csv", text);
    let inputs = Inputs { both: Some(&file), ..Inputs::default() };
    let converted = read(Format::Lens, &inputs, &with_step(200)).unwrap();
    // First step: 2 packets up, one of 2 answers lost. Second: half a packet up; 0.5 of 1.5 answers.
    assert_eq!(
        Csv(&converted.trace).to_string(),
        "t_s,delay_down_ms,delay_up_ms,loss_down,loss_up\n0,30,30,0.5,0\n0.2,30,40,0.3333333333333333,0.25\n0.4,30,40,0.3333333333333333,0.25\n"
    );
    let remarks = converted.remarks.join("\n");
    assert!(remarks.contains("the minimum delays, 60.000 ms, is divided equally"), "{remarks}");
    assert!(remarks.contains("1 lost packets could be lost in either direction"), "{remarks}");
    let synchronized = Options { clocks: Clocks::Synchronized, ..Options::default() };
    let error = read(Format::Lens, &inputs, &synchronized).unwrap_err().to_string();
    assert!(error.contains("line 2: has a one-way delay below zero"), "{error}");
}

#[test]
fn irtt_gives_delays_and_losses() {
    let trip = |at: u64, lost: &str, delay: &str| {
        format!(
            "{{\"seqno\":0,\"lost\":{lost},\"timestamps\":{{\"client\":{{\"receive\":{{}},\"send\":{{\"wall\":7,\"monotonic\":{at}}}}},\
             \"server\":{{}}}},\"delay\":{{{delay}}},\"ipdv\":{{}}}}"
        )
    };
    let arrived = |down: u64, up: u64| format!("\"receive\":{down}000000,\"rtt\":1,\"send\":{up}000000");
    let trips = [
        trip(1_000_000_000, "false", &arrived(10, 20)),
        trip(1_200_000_000, "\"true_up\"", ""),
        trip(1_400_000_000, "\"false\"", &arrived(14, 20)),
        trip(1_600_000_000, "\"false\"", "\"rtt\":50000000"),
    ];
    let text =
        format!("{{\"config\":{{\"params\":{{\"interval\":200000000}}}},\"round_trips\":[{}]}}", trips.join(","));
    let file = input("irtt.json", &text);
    let inputs = Inputs { both: Some(&file), ..Inputs::default() };
    let options = Options { clocks: Clocks::Synchronized, ..Options::default() };
    let converted = read(Format::Irtt, &inputs, &options).unwrap();
    assert_eq!(
        converted.trace,
        csv(
            "t_s,delay_down_ms,delay_up_ms,loss_down,loss_up\n0,10,20,0,0.25\n0.4,14,20,0,0.25\n0.6,25,25,0,0.25\n0.8,25,25,0,0.25\n"
        )
    );
    assert!(converted.remarks.iter().any(|remark| remark.contains("half of the round trip")));
    let bad = input("irtt.json", "{\"config\":\n 3}");
    let error = error(Format::Irtt, &Inputs { both: Some(&bad), ..Inputs::default() });
    assert!(error.starts_with("irtt.json: line 2, column 2: expected the JSON of `irtt client -o`"), "{error}");
}

#[test]
fn errors_name_the_line_and_the_remedy() {
    let good = input("good", "5\n10\n");
    for (format, rate, delay, both, expected) in [
        (Format::Mahimahi, None, None, None, "no rate file is given"),
        (
            Format::Mahimahi,
            Some("3\nx\n"),
            None,
            None,
            "down: has no whole number of milliseconds in line 2; a rate file",
        ),
        (Format::Mahimahi, Some("3\n2\n"), None, None, "down: goes back in time in line 2"),
        (Format::Mahimahi, Some("4294967295\n"), None, None, "give a longer --step"),
        (Format::LeoReplayer, None, None, None, "no file is given"),
        (Format::LeoReplayer, None, Some("12\n1.5\n"), None, "delay: line 2: expected a delay in whole milliseconds"),
        (Format::CellReplay, Some("3\n"), Some("0 1\n2 x\n"), None, "delay: line 2: expected a time, a base delay"),
        (Format::CellReplay, Some("3\n"), Some("0 1 0\n2 1 0\n"), None, "delay: has fewer than 3 lines"),
        (Format::CellReplay, Some("3\n"), Some("5 1 0\n2 1 0\n6 1\n"), None, "delay: line 2: goes back in time"),
        (Format::Lens, None, None, None, "one file for both directions"),
        (
            Format::Lens,
            None,
            None,
            Some("timestamp,rtt\n1,2\n"),
            "both: line 1: expected the header timestamp,rtt,uplink",
        ),
        (
            Format::Lens,
            None,
            None,
            Some("timestamp,rtt,uplink,downlink\n1,2,x,1\n"),
            "both: line 2: column uplink: expected milli",
        ),
        (Format::Lens, None, None, Some("timestamp,rtt,uplink,downlink\n1,2,1,1\n"), "fewer than two packets"),
        (
            Format::Lens,
            None,
            None,
            Some("timestamp,rtt,uplink,downlink\n2,2,1,1\n1,2,1,1\n"),
            "both: line 3: goes back in time",
        ),
        (Format::Csv, None, None, Some("t_s,rate\n0,1\n"), "both: has an unknown column in line 1: \"rate\""),
    ] {
        let [rate, delay, both] =
            [("down", rate), ("delay", delay), ("both", both)].map(|(name, text)| text.map(|text| input(name, text)));
        let inputs = Inputs { both: both.as_ref(), rates: [rate.as_ref(), None], delays: [delay.as_ref(), None] };
        let error = error(format, &inputs);
        assert!(error.contains(expected), "{error}");
    }
    let short = Options { step: Some(Duration::from_micros(10)), ..Options::default() };
    let inputs = Inputs { rates: [Some(&good), None], ..Inputs::default() };
    assert!(read(Format::Mahimahi, &inputs, &short).unwrap_err().to_string().contains("below 1 ms"));
    let slow = csv("t_s,rate_up_mbps\n0,0.001\n1,0\n");
    assert_eq!(opportunities::write(&slow, 1), Ok(Some("1000\n".to_owned())));
    let silent = csv("t_s,rate_up_mbps\n0,0\n1,5\n");
    assert!(opportunities::write(&silent, 1).unwrap_err().to_string().contains("no rate above zero"));
}

#[test]
fn compressed_files_are_read() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(b"5\n10\n").unwrap();
    let bytes = encoder.finish().unwrap();
    assert_eq!(Input::new("a.gz", bytes.clone()).unwrap().bytes, b"5\n10\n");
    let cut = Input::new("a.gz", bytes[..bytes.len() - 6].to_vec()).unwrap_err().to_string();
    assert!(cut.starts_with("a.gz: cannot be decompressed"), "{cut}");
}

/// 8 Mbps for 9 s and 2 Mbps for 1 s: mean 7.4; more than 5 % of the time at 2.
#[test]
fn statistics_are_weighted_by_time() {
    let trace = csv("t_s,rate_up_mbps,loss_up\n0,8,0\n9,2,0.5\n10,99,1\n");
    let Statistics { seconds, rows, columns } = statistics(&trace);
    assert_eq!((seconds, rows, columns.len()), (10.0, 3, 2));
    let rate = columns[0];
    assert_eq!((rate.name, rate.p5, rate.p95), ("rate_up_mbps", 2.0, 8.0));
    assert!((rate.mean - 7.4).abs() < 1e-9 && (columns[1].mean - 0.05).abs() < 1e-9);
}

/// Damaged files yield a trace that the CSV keeps, or an error in one line.
#[test]
fn damaged_files_do_no_harm() {
    let lens = "timestamp,rtt,uplink,downlink\n1705744800616897349,0,0,-1\n1705744800626565141,120.1,72.4,47.7\n\
                1705744800636737402,109.9,62.2,47.7\n1705744800646307744,-1,0,0\n";
    let irtt = "{\"config\":{\"params\":{\"interval\":200}},\"round_trips\":[{\"lost\":\"false\",\"timestamps\":{\"client\":{\"send\":\
                {\"wall\":5,\"monotonic\":100}}},\"delay\":{\"rtt\":5,\"send\":2,\"receive\":3}},{\"lost\":\"true\",\"timestamps\":{\"client\":\
                {\"send\":{\"monotonic\":900}}}}]}";
    let mut random = 7_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below.max(1)
    };
    let symbols = b"0123456789.,-eE \n\t#:{}\"nax\xff";
    let mut read_ones = 0;
    for round in 0..6000 {
        let format = Format::ALL[round % Format::ALL.len()];
        let mut files = match format {
            Format::Csv => ["t_s,rate_up_mbps,loss_up\n0,5,0.5\n0.25,7,0\n2,0,0\n", ""],
            Format::Mahimahi => ["1\n4\n9\n120\n", ""],
            Format::LeoReplayer => ["1\n4\n9\n120\n", "12\n14\n9\n"],
            Format::CellReplay => ["1\n4\n9\n120\n", "0 20 0 1\n50 30 0\n100 25 0 4\n"],
            Format::Lens => [lens, ""],
            Format::Irtt => [irtt, ""],
        }
        .map(|text| text.as_bytes().to_vec());
        for _ in 0..next(4) {
            let file = &mut files[next(2)];
            let (place, symbol) = (next(file.len() + 1), symbols[next(symbols.len())]);
            match next(3) {
                0 if place < file.len() => file[place] = symbol,
                1 if place < file.len() => drop(file.remove(place)),
                _ => file.insert(place, symbol),
            }
        }
        let [first, second] = files.map(|bytes| Input { name: "file".to_owned(), bytes });
        let inputs = match format.is_one_file() {
            true => Inputs { both: Some(&first), ..Inputs::default() },
            false => Inputs { rates: [Some(&first), None], delays: [None, Some(&second)], ..Inputs::default() },
        };
        match read(format, &inputs, &with_step(50 + next(200) as u64)) {
            Ok(Converted { trace, .. }) => {
                read_ones += 1;
                assert_eq!(read_link_trace(Csv(&trace).to_string().as_bytes()), Ok(trace.clone()));
                assert!(statistics(&trace).columns.iter().all(|column| column.p5 <= column.p95));
                if trace.length() < Duration::from_secs(60) {
                    let _ = leoreplayer::write(&trace, 1, ms(10));
                    if let Ok(Some(text)) = opportunities::write(&trace, 1) {
                        assert!(lasthop_proto::rate::read_opportunities(text.as_bytes()).is_ok());
                    }
                }
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    assert!(read_ones > 1000, "{read_ones}");
}
