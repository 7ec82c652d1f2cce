//! Tests of quantities: valid forms, their meaning, and that they parse back to the same quantity.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use lasthop_proto::time::Duration;
use lasthop_scenario::units::{BitRate, ByteSize, Fraction, QueueSize, TimeSpan, UnitError};
use proptest::prelude::*;

#[track_caller]
fn reads<T: FromStr<Err = UnitError> + PartialEq + Debug>(text: &str, expected: T) {
    assert_eq!(text.parse::<T>(), Ok(expected), "{text}");
}

#[track_caller]
fn refused<T: FromStr<Err = UnitError> + Debug>(text: &str, message: &str) {
    assert_eq!(text.parse::<T>().unwrap_err().to_string(), message, "{text}");
}

#[test]
fn rates_are_powers_of_ten() {
    reads("64 kbps", BitRate(64_000));
    reads("1.5 Mbps", BitRate(1_500_000));
    reads("1.5Mbit/s", BitRate(1_500_000));
    reads(" 10 Gb/s ", BitRate(10_000_000_000));
    reads("9_600 bps", BitRate(9_600));
}

#[test]
fn bytes_tell_powers_of_ten_from_powers_of_two() {
    reads("32 kB", ByteSize(32_000));
    reads("32 KiB", ByteSize(32_768));
    reads("8 MiB", ByteSize(8 << 20));
    // Capitals as in the 1997 paper: 32 KB socket buffers, an 8 MB transfer.
    reads("32 KB", ByteSize(32_768));
    reads("8 MB", ByteSize(8 << 20));
    reads("1.5 KiB", ByteSize(1536));
    reads("1 byte", ByteSize(1));
}

#[test]
fn times_go_down_to_nanoseconds() {
    reads("135 ms", TimeSpan(Duration::from_millis(135)));
    reads("1.1 ms", TimeSpan(Duration::from_micros(1100)));
    reads("0 s", TimeSpan(Duration::ZERO));
    reads("0.000000001 s", TimeSpan(Duration::from_nanos(1)));
    reads("2 min", TimeSpan(Duration::from_secs(120)));
    for micro in ["3 us", "3 \u{b5}s", "3 \u{3bc}s"] {
        reads(micro, TimeSpan(Duration::from_micros(3)));
    }
}

#[test]
fn queues_are_in_packets_or_bytes() {
    reads("50 packets", QueueSize::Packets(50));
    reads("1 packet", QueueSize::Packets(1));
    reads("64 KiB", QueueSize::Bytes(ByteSize(65_536)));
}

#[test]
fn percent_is_exactly_the_hundredth() {
    for (percent, plain) in [("2.25 %", "0.0225"), ("100%", "1"), ("0 %", "0.0"), ("9.8 %", "0.098"), ("0.1 %", "1e-3")]
    {
        assert_eq!(percent.parse::<Fraction>(), plain.parse::<Fraction>(), "{percent}");
    }
    assert_eq!("2.25 %".parse::<Fraction>().map(Fraction::get), Ok(0.0225));
}

#[test]
fn what_is_wrong_is_said() {
    refused::<BitRate>("fast", "it does not begin with a number");
    refused::<BitRate>(".5 Mbps", "it does not begin with a number");
    refused::<BitRate>("1.2.3 Mbps", "it does not begin with a number");
    refused::<BitRate>("-1 Mbps", "it is negative");
    refused::<BitRate>("2", "the unit is missing");
    refused::<BitRate>("2 mbps", "there is no unit \"mbps\"; did you mean \"Mbps\"?");
    refused::<BitRate>("2 furlongs", "there is no unit \"furlongs\"");
    refused::<BitRate>("0.5 bps", "it is not a whole number of bits per second");
    refused::<TimeSpan>("0.3 ns", "it is not a whole number of nanoseconds");
    refused::<TimeSpan>("99999999999999999999 h", "it is too large");
    refused::<TimeSpan>("10 sec", "there is no unit \"sec\"");
    refused::<ByteSize>("1 kb", "there is no unit \"kb\"; did you mean \"kB\"?");
    refused::<QueueSize>("50 packet s", "there is no unit \"packet s\"; did you mean \"packets\"?");
    refused::<QueueSize>("1.5 packets", "it is not a whole number of packets");
    refused::<Fraction>("2.25", "it is not between 0 and 1 (0 % and 100 %)");
    refused::<Fraction>("101 %", "it is not between 0 and 1 (0 % and 100 %)");
    refused::<Fraction>("-1 %", "it is not between 0 and 1 (0 % and 100 %)");
    refused::<Fraction>("2 percent", "there is no unit \"percent\"");
}

#[test]
fn the_shortest_exact_form_is_written() {
    let written: [(&dyn Display, &str); 14] = [
        (&BitRate(1_500_000), "1.5 Mbps"),
        (&BitRate(64_000), "64 kbps"),
        (&BitRate(1_234_567), "1234.567 kbps"),
        (&BitRate(7), "7 bps"),
        (&ByteSize(8 << 20), "8 MiB"),
        (&ByteSize(32_000), "32 kB"),
        (&ByteSize(1400), "1400 B"),
        (&ByteSize(0), "0 B"),
        (&TimeSpan(Duration::from_millis(135)), "135 ms"),
        (&TimeSpan(Duration::from_secs(1000)), "1000 s"),
        (&TimeSpan(Duration::from_nanos(1_000_000_001)), "1000000.001 us"),
        (&TimeSpan(Duration::ZERO), "0 s"),
        (&QueueSize::Packets(1), "1 packet"),
        (&QueueSize::Bytes(ByteSize(65_536)), "64 KiB"),
    ];
    for (value, text) in written {
        assert_eq!(value.to_string(), text);
    }
}

/// Generates numbers with few digits and many, in every order of magnitude.
fn magnitudes() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..100_000_u64,
        (0..1000_u64, 0..16_u32).prop_map(|(digits, power)| digits * 10_u64.pow(power)),
        (0..1024_u64, 0..54_u32).prop_map(|(digits, shift)| digits << shift)
    ]
}

fn round_trip<T: FromStr<Err = UnitError> + Display + PartialEq + Debug>(value: T) -> Result<(), TestCaseError> {
    let text = value.to_string();
    prop_assert_eq!(text.parse::<T>(), Ok(value), "{}", text);
    Ok(())
}

proptest! {
    #[test]
    fn what_is_written_reads_back(number in magnitudes()) {
        round_trip(BitRate(number))?;
        round_trip(ByteSize(number))?;
        round_trip(TimeSpan(Duration::from_nanos(number)))?;
        round_trip(QueueSize::Packets(number as u32))?;
        round_trip(QueueSize::Bytes(ByteSize(number)))?;
    }

    #[test]
    fn probabilities_read_back(value in 0.0..=1.0_f64, exponent in 0..300_i32) {
        let value = value * 10_f64.powi(-exponent);
        round_trip(Fraction::new(value).expect("in range"))?;
    }

    #[test]
    fn decimals_mean_what_they_say(whole in 0..1_000_000_u64, thousandths in 0..1000_u64) {
        let nanos = whole * 1_000_000 + thousandths * 1000;
        prop_assert_eq!(format!("{whole}.{thousandths:03} ms").parse(), Ok(TimeSpan(Duration::from_nanos(nanos))));
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC*") {
        let _ = text.parse::<BitRate>();
        let _ = text.parse::<ByteSize>();
        let _ = text.parse::<TimeSpan>();
        let _ = text.parse::<QueueSize>();
        let _ = text.parse::<Fraction>();
    }

    #[test]
    fn no_number_is_too_strange(text in "[-+]?[0-9._]{0,60}[ ]?(bps|Gbps|B|GiB|ns|h|packets|%|e9|e-400 %)?") {
        let _ = text.parse::<BitRate>();
        let _ = text.parse::<ByteSize>();
        let _ = text.parse::<TimeSpan>();
        let _ = text.parse::<QueueSize>();
        let _ = text.parse::<Fraction>();
    }
}
