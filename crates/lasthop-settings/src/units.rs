//! Quantities with their units as text: `"1.5 Mbps"`, `"135 ms"`, `"8 MiB"`, `"50 packets"`, `"2.25 %"`.
//!
//! Numbers are parsed as exact decimals, never through floating point: `"1.1 ms"` is 1,100,000 ns, and `"0.3 ns"` is
//! rejected instead of rounded. [`Display`](fmt::Display) writes the shortest exact form, which parses to the same
//! quantity.

use std::fmt;
use std::str::FromStr;

use lasthop_proto::queue::QueueLimit;
use lasthop_proto::rate::Rate;
use lasthop_proto::time::Duration;

use crate::error::did_you_mean;

/// Error of parsing a quantity.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnitError {
    /// The text does not begin with a number.
    #[error("it does not begin with a number")]
    NoNumber,
    /// The quantity is negative.
    #[error("it is negative")]
    Negative,
    /// The unit is missing.
    #[error("the unit is missing")]
    NoUnit,
    /// The unit is unknown.
    #[error("there is no unit \"{unit}\"{}", suggestion(.near))]
    UnknownUnit {
        /// The given unit.
        unit: String,
        /// Known unit that is most similar.
        near: Option<&'static str>,
    },
    /// The rate is in bytes.
    #[error("\"{unit}\" counts bytes, and a rate is in bits: 1 {unit} is {bits}")]
    BytesPerSecond {
        /// The given unit.
        unit: String,
        /// Value of one such unit, in bits.
        bits: String,
    },
    /// The number has a comma.
    #[error("it has a comma; use `.` as the decimal separator and no thousands separator")]
    Comma,
    /// The number has an exponent, such as `2e1`.
    #[error("it has an exponent; write the number out, e.g. 20 or 0.002")]
    Exponent,
    /// The quantity is not a whole number of the smallest unit.
    #[error("it is not a whole number of {smallest}")]
    Fraction {
        /// The smallest unit, in plural.
        smallest: &'static str,
    },
    /// The quantity is too large to be represented.
    #[error("it is too large")]
    TooLarge,
    /// The quantity is out of range.
    #[error("it is not between 0 and 1 (0 % and 100 %)")]
    OutOfRange,
}

fn suggestion(near: &Option<&'static str>) -> String {
    near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default()
}

/// Name of a unit, and its size in the smallest unit.
type Unit = (&'static str, u64);

/// Splits `text` into number and unit: `"1.5 Mbps"` gives `("1.5", "Mbps")`.
fn split(text: &str) -> Result<(&str, &str), UnitError> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(UnitError::Negative);
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let well_formed = number.starts_with(|c: char| c.is_ascii_digit())
        && number.ends_with(|c: char| c.is_ascii_digit())
        && number.matches('.').count() <= 1;
    let goes_on = |rest: &str| well_formed && rest.starts_with(|c: char| c.is_ascii_digit());
    if unit.strip_prefix(',').is_some_and(goes_on) {
        return Err(UnitError::Comma);
    }
    if unit.strip_prefix(['e', 'E']).is_some_and(|rest| goes_on(rest.strip_prefix(['+', '-']).unwrap_or(rest))) {
        return Err(UnitError::Exponent);
    }
    if well_formed { Ok((number, unit.trim_start())) } else { Err(UnitError::NoNumber) }
}

/// Returns `number * factor`, if that is a whole number.
fn scale(number: &str, factor: u64, smallest: &'static str) -> Result<u64, UnitError> {
    let digits = number.replace('_', "");
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let fraction = fraction.trim_end_matches('0');
    // No factor has more than 13 factors of ten (an hour in nanoseconds), so longer fractions are never whole.
    if fraction.len() > 18 {
        return Err(UnitError::Fraction { smallest });
    }
    let whole = whole.trim_start_matches('0');
    if whole.len() > 20 {
        return Err(UnitError::TooLarge);
    }
    let power = 10u128.pow(fraction.len() as u32);
    let mantissa: u128 = format!("0{whole}{fraction}").parse().map_err(|_| UnitError::TooLarge)?;
    let product = mantissa.checked_mul(u128::from(factor)).ok_or(UnitError::TooLarge)?;
    if product % power != 0 {
        return Err(UnitError::Fraction { smallest });
    }
    u64::try_from(product / power).map_err(|_| UnitError::TooLarge)
}

fn parse_in(text: &str, units: &[Unit], smallest: &'static str) -> Result<u64, UnitError> {
    let (number, unit) = split(text)?;
    if unit.is_empty() {
        return Err(UnitError::NoUnit);
    }
    let Some(&(_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let near = did_you_mean(unit, units.iter().map(|(name, _)| *name));
        return Err(UnitError::UnknownUnit { unit: unit.to_owned(), near });
    };
    scale(number, factor, smallest)
}

/// Writes `value` in the largest of `units` (descending) that leaves at most three decimals.
fn write_decimal(f: &mut fmt::Formatter<'_>, value: u64, units: &[Unit]) -> fmt::Result {
    let fits = |&&(_, factor): &&Unit| value >= factor && (u128::from(value) * 1000).is_multiple_of(factor.into());
    let Some((name, factor)) = units.iter().find(fits).or(units.last()) else { return Ok(()) };
    let thousandths = u128::from(value) * 1000 / u128::from(*factor);
    let (whole, fraction) = (thousandths / 1000, thousandths % 1000);
    let fraction = format!(".{fraction:03}");
    write!(f, "{whole}{} {name}", fraction.trim_end_matches('0').trim_end_matches('.'))
}

/// Kind of a quantity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Bits per second.
    Rate,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// Probability or share.
    Share,
}

/// A quantity of any kind, in the unit in which it was written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measure {
    /// Kind of the quantity.
    pub kind: Kind,
    /// The unit's usual name.
    pub unit: &'static str,
    number: f64,
    /// Size of the unit in the smallest unit (for a share: in 1).
    factor: f64,
}

impl Measure {
    /// Parses `text` as a quantity; `None` if it is not one.
    pub fn read(text: &str) -> Option<Self> {
        const PACKETS: [Unit; 2] = [("packets", 1), ("packet", 1)];
        const KINDS: [(Kind, &[Unit]); 4] = [
            (Kind::Rate, &BitRate::READ),
            (Kind::Time, &TimeSpan::READ),
            (Kind::Bytes, &ByteSize::READ),
            (Kind::Packets, &PACKETS),
        ];
        let (digits, given) = split(text).ok()?;
        let number = digits.replace('_', "").parse().ok()?;
        if given == "%" {
            return Some(Self { kind: Kind::Share, unit: "percent", number, factor: 0.01 });
        }
        KINDS.into_iter().find_map(|(kind, names)| {
            let (_, factor) = names.iter().find(|(name, _)| *name == given)?;
            // The first of several names of a unit is the usual one.
            let (unit, _) = names.iter().find(|(_, of)| of == factor)?;
            Some(Self { kind, unit, number, factor: *factor as f64 })
        })
    }

    /// Returns the quantity in units of `unit`.
    pub fn in_unit_of(&self, unit: &Self) -> f64 {
        if self.unit == unit.unit { self.number } else { self.number * self.factor / unit.factor }
    }

    /// Converts `base` from the smallest units (for a share, from a probability) to units of this quantity.
    pub fn of_base(&self, base: f64) -> f64 {
        match self.kind {
            Kind::Share => base * 100.0,
            _ => base / self.factor,
        }
    }
}

/// A transmission rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BitRate(pub u64);

impl BitRate {
    const READ: [Unit; 15] = [
        ("bps", 1),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Kbps", 1_000),
        ("b/s", 1),
        ("kb/s", 1_000),
        ("Mb/s", 1_000_000),
        ("Gb/s", 1_000_000_000),
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
    ];
    const WRITE: [Unit; 4] = [("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("kbps", 1_000), ("bps", 1)];
}

impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_in(text, &Self::READ, "bits per second").map(Self).map_err(|error| match error {
            UnitError::UnknownUnit { unit, .. } if bytes_per_second(&unit).is_some() => {
                let bits = bytes_per_second(&unit).map(|bits| Self(bits).to_string()).unwrap_or_default();
                UnitError::BytesPerSecond { unit, bits }
            }
            other => other,
        })
    }
}

/// Returns the bits per second in a unit such as `MBps`, `MB/s` or `MiB/s`.
fn bytes_per_second(unit: &str) -> Option<u64> {
    let bytes = unit.strip_suffix("ps").or_else(|| unit.strip_suffix("/s"))?;
    let (_, size) = ByteSize::READ.iter().find(|(name, _)| *name == bytes)?;
    // In rates, MB is a million bytes.
    let size = if bytes.contains('i') { *size } else { 1000_u64.pow(size.ilog2().div_ceil(10)) };
    Some(size * 8)
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, &Self::WRITE)
    }
}

impl From<BitRate> for Rate {
    fn from(rate: BitRate) -> Self {
        Self(rate.0)
    }
}

impl From<Rate> for BitRate {
    fn from(rate: Rate) -> Self {
        Self(rate.0)
    }
}

/// A number of bytes.
///
/// `kB` is 1000 bytes; `KiB`, `MiB` and `GiB` are powers of 1024. `KB`, `MB` and `GB` with capitals are powers of 1024
/// too, as in the 1997 paper ("32 KB socket buffers" are 32,768 bytes); they are parsed but never written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteSize(pub u64);

impl ByteSize {
    const READ: [Unit; 10] = [
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("KB", 1 << 10),
        ("MB", 1 << 20),
        ("GB", 1 << 30),
        ("bytes", 1),
        ("byte", 1),
    ];
    const WRITE: [Unit; 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("kB", 1_000)];
}

impl FromStr for ByteSize {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_in(text, &Self::READ, "bytes").map(Self)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, factor): &&Unit| self.0 >= *factor && self.0.is_multiple_of(*factor);
        let (name, factor) = Self::WRITE.iter().find(whole).unwrap_or(&("B", 1));
        write!(f, "{} {name}", self.0 / factor)
    }
}

/// Volume of data as operators of networks bill it, in bytes: a GB is 10⁹ bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DataVolume(pub u64);

impl DataVolume {
    const UNITS: [Unit; 6] = [
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
    ];
}

impl FromStr for DataVolume {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_in(text, &Self::UNITS, "bytes").map(Self)
    }
}

impl fmt::Display for DataVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, &[Self::UNITS[0], Self::UNITS[1], Self::UNITS[2], ("B", 1)])
    }
}

/// A span of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TimeSpan(pub Duration);

impl TimeSpan {
    const READ: [Unit; 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("\u{b5}s", 1_000),
        ("\u{3bc}s", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    const WRITE: [Unit; 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
}

impl FromStr for TimeSpan {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_in(text, &Self::READ, "nanoseconds").map(|nanos| Self(Duration::from_nanos(nanos)))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Duration::ZERO => f.write_str("0 s"),
            span => write_decimal(f, span.as_nanos(), &Self::WRITE),
        }
    }
}

impl From<TimeSpan> for Duration {
    fn from(span: TimeSpan) -> Self {
        span.0
    }
}

impl From<Duration> for TimeSpan {
    fn from(span: Duration) -> Self {
        Self(span)
    }
}

/// Limit of a queue, in packets or in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueSize {
    /// Maximum number of packets.
    Packets(u32),
    /// Maximum number of bytes.
    Bytes(ByteSize),
}

impl FromStr for QueueSize {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text)?;
        match unit {
            "packets" | "packet" => {
                let packets = scale(number, 1, "packets")?;
                u32::try_from(packets).map(Self::Packets).map_err(|_| UnitError::TooLarge)
            }
            _ => match text.parse() {
                Ok(bytes) => Ok(Self::Bytes(bytes)),
                Err(UnitError::UnknownUnit { unit, near: None }) => {
                    let near = did_you_mean(&unit, ["packets"]);
                    Err(UnitError::UnknownUnit { unit, near })
                }
                Err(error) => Err(error),
            },
        }
    }
}

impl fmt::Display for QueueSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(1) => f.write_str("1 packet"),
            Self::Packets(packets) => write!(f, "{packets} packets"),
            Self::Bytes(bytes) => bytes.fmt(f),
        }
    }
}

impl From<QueueSize> for QueueLimit {
    fn from(size: QueueSize) -> Self {
        match size {
            QueueSize::Packets(packets) => Self::Packets(packets),
            QueueSize::Bytes(bytes) => Self::Bytes(bytes.0),
        }
    }
}

impl From<QueueLimit> for QueueSize {
    fn from(limit: QueueLimit) -> Self {
        match limit {
            QueueLimit::Packets(packets) => Self::Packets(packets),
            QueueLimit::Bytes(bytes) => Self::Bytes(ByteSize(bytes)),
        }
    }
}

/// A probability or a share, from 0 to 1: `0.0225` or `2.25 %`. Written as the plain number.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Fraction(f64);

impl Fraction {
    /// Zero.
    pub const ZERO: Self = Self(0.0);
    /// One half.
    pub const HALF: Self = Self(0.5);
    /// One.
    pub const ONE: Self = Self(1.0);

    /// Returns `value` as a fraction, if it is from 0 to 1.
    pub fn new(value: f64) -> Result<Self, UnitError> {
        // `+ 0.0` turns a negative zero into zero, which is written without a sign.
        if (0.0..=1.0).contains(&value) { Ok(Self(value + 0.0)) } else { Err(UnitError::OutOfRange) }
    }

    /// Returns the number, from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Fraction {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        if text.starts_with('-') {
            return Err(UnitError::OutOfRange);
        }
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(UnitError::NoNumber);
        }
        let number = match text.strip_suffix('%') {
            // Through the exponent, so that "2.25 %" is the same number as 0.0225.
            Some(percent) => format!("{}e-2", percent.trim_end()),
            None => text.to_owned(),
        };
        match number.parse() {
            Ok(value) => Self::new(value),
            Err(_) => match split(text) {
                Ok((_, unit)) => Err(UnitError::UnknownUnit { unit: unit.to_owned(), near: did_you_mean(unit, ["%"]) }),
                Err(error) => Err(error),
            },
        }
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Debug always writes a float (`0.0`, `1e-6`), as TOML requires.
        fmt::Debug::fmt(&self.0, f)
    }
}
