//! Quantities and numbers.

use lasthop_proto::queue::QueueLimit;
use lasthop_proto::rate::Rate;
use lasthop_proto::time::{Duration, Instant};

use crate::document::{Data, quote};
use crate::reader::Value;
use crate::units::{BitRate, ByteSize, Fraction, QueueSize, TimeSpan, UnitError};

/// Parses a quantity that is written as a string with a unit.
fn read_unit<T: std::str::FromStr<Err = UnitError>>(data: &Data) -> Result<T, String> {
    match data {
        Data::String(text) => text.parse().map_err(|error: UnitError| error.to_string()),
        Data::Integer(_) | Data::Float(_) => Err("the unit is missing".to_owned()),
        _ => Err(String::new()),
    }
}

/// A `T` above zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Positive<T>(pub T);

impl Value for Rate {
    fn expected() -> String {
        "a rate, e.g. \"1.5 Mbps\" (bps, kbps, Mbps, Gbps, Tbps)".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match read_unit::<BitRate>(data)? {
            BitRate(0) => Err("nothing would ever arrive".to_owned()),
            rate => Ok(rate.into()),
        }
    }
    fn show(&self) -> String {
        quote(&BitRate::from(*self).to_string())
    }
}

/// Maximum span in a scenario. No run lasts longer, and a sum of several such spans in nanoseconds does not overflow.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

impl Value for Duration {
    fn expected() -> String {
        "a time, e.g. \"135 ms\" (ns, us, ms, s, min, h)".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match read_unit::<TimeSpan>(data)? {
            TimeSpan(span) if span > LONGEST => Err("it is longer than 1000000000 s".to_owned()),
            span => Ok(span.into()),
        }
    }
    fn show(&self) -> String {
        quote(&TimeSpan(*self).to_string())
    }
}

impl Value for Positive<Duration> {
    fn expected() -> String {
        Duration::expected()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match Duration::read(data)? {
            Duration::ZERO => Err("it must be above zero".to_owned()),
            span => Ok(Self(span)),
        }
    }
    fn show(&self) -> String {
        self.0.show()
    }
}

impl Value for Instant {
    fn expected() -> String {
        Duration::expected()
    }
    fn read(data: &Data) -> Result<Self, String> {
        Duration::read(data).map(|span| Self::ZERO + span)
    }
    fn show(&self) -> String {
        self.since(Self::ZERO).show()
    }
}

impl Value for ByteSize {
    fn expected() -> String {
        "a number of bytes, e.g. \"64 KiB\" or 65536 (B, kB, KiB, MiB, GiB)".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::Integer(bytes) if *bytes < 0 => Err("it is negative".to_owned()),
            Data::Integer(bytes) => u64::try_from(*bytes).map(Self).map_err(|_| "it is too large".to_owned()),
            Data::String(_) => read_unit(data),
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(&self.to_string())
    }
}

/// [`ByteSize`] of a transfer: 1 byte to 1024 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transferred(pub u64);

/// Maximum size of a transfer in bytes. No run transfers more.
const LARGEST_TRANSFER: u64 = 1 << 40;

impl Value for Transferred {
    fn expected() -> String {
        ByteSize::expected()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match ByteSize::read(data)? {
            ByteSize(bytes @ 1..=LARGEST_TRANSFER) => Ok(Self(bytes)),
            ByteSize(_) => Err("it is not between 1 B and 1024 GiB".to_owned()),
        }
    }
    fn show(&self) -> String {
        ByteSize(self.0).show()
    }
}

/// [`ByteSize`] of a window: 1 byte to 1 GiB, the maximum window of TCP with scaling (RFC 7323 §2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window(pub u32);

impl Value for Window {
    fn expected() -> String {
        "a number of bytes from 1 to 1 GiB, e.g. \"32 KiB\" or 32768".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match ByteSize::read(data)? {
            ByteSize(bytes @ 1..=0x4000_0000) => Ok(Self(bytes as u32)),
            ByteSize(0) => Err("it must be above zero".to_owned()),
            _ => Err("it is more than 1 GiB".to_owned()),
        }
    }
    fn show(&self) -> String {
        ByteSize(self.0.into()).show()
    }
}

/// A mean distance in bytes, not necessarily whole.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeanBytes(pub f64);

impl Value for MeanBytes {
    fn expected() -> String {
        "a number of bytes above zero, e.g. \"64 KiB\" or 65536".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let bytes = match data {
            Data::Float(bytes) => *bytes,
            _ => ByteSize::read(data)?.0 as f64,
        };
        if bytes.is_finite() && bytes > 0.0 {
            Ok(Self(bytes))
        } else {
            Err("it must be above zero and finite".to_owned())
        }
    }
    fn show(&self) -> String {
        // Whole numbers up to 2^53 are exact in both forms.
        let whole = self.0.fract() == 0.0 && self.0 < 9_007_199_254_740_992.0;
        if whole { ByteSize(self.0 as u64).show() } else { format!("{:?}", self.0) }
    }
}

impl Value for QueueLimit {
    fn expected() -> String {
        "the size of a queue, e.g. \"50 packets\" or \"64 KiB\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match read_unit::<QueueSize>(data).map(Self::from) {
            Ok(Self::Packets(0) | Self::Bytes(0)) => Err("it must hold at least one packet".to_owned()),
            Err(_) if matches!(data, Data::Integer(_)) => Err("the unit is missing".to_owned()),
            other => other,
        }
    }
    fn show(&self) -> String {
        quote(&QueueSize::from(*self).to_string())
    }
}

impl Value for Fraction {
    fn expected() -> String {
        "a probability from 0 to 1, e.g. 0.0225 or \"2.25 %\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let value = match data {
            Data::Integer(number) => *number as f64,
            Data::Float(number) => *number,
            _ => return read_unit(data),
        };
        let percent = || format!("if it is in percent, write \"{value} %\"");
        Self::new(value).map_err(|_| if (0.0..=100.0).contains(&value) { percent() } else { String::new() })
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u64 {
    fn expected() -> String {
        format!("a whole number from 0 to {}", Self::MAX)
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::Integer(number) => Self::try_from(*number).map_err(|_| String::new()),
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

/// A whole number from `LOW` to `HIGH`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole<const LOW: u32, const HIGH: u32>(pub u32);

/// A positive whole number.
pub type Count = Whole<1, { u32::MAX - 1 }>;

impl<const LOW: u32, const HIGH: u32> Value for Whole<LOW, HIGH> {
    fn expected() -> String {
        match HIGH {
            4_294_967_294.. => format!("a whole number of at least {LOW}"),
            _ => format!("a whole number from {LOW} to {HIGH}"),
        }
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::Integer(number) => match u32::try_from(*number) {
                Ok(number) if (LOW..=HIGH).contains(&number) => Ok(Self(number)),
                _ => Err(String::new()),
            },
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        self.0.to_string()
    }
}
