//! Values of keys, parsed from TOML and formatted: quantities, numbers, names and choices.

mod amounts;

pub use self::amounts::{Count, MeanBytes, Transferred, Window};
pub use self::amounts::{Positive, Whole};

use lasthop_proto::channel::{Behind, DamagedFrames, Frames, LossUnit};
use lasthop_proto::delay::Order;
use lasthop_proto::link::arq::{Delivery, Protocol};
use lasthop_proto::link::hybrid::{Copies, Multipath, Tier};
use lasthop_proto::pep::eln::ElnKnowledge;
use lasthop_proto::pep::snoop::{Begin, RepairPriority};
use lasthop_proto::queue::{Isolation, Overload, Tins};
use lasthop_proto::rate::Wrap;
use lasthop_proto::scheme::{LinkRepair, LocalDetection, SCHEMES, Scheme, TcpAwareness};
use lasthop_proto::tcp::config::{
    AckCongestion, Clock, Deflation, DelayedAck, EcnEcho, EcnMode, EcnOption, Growth, HandshakeAck, HeaderAccounting,
    HystartRule, ImpureDuplicates, Nagle, PartialAckTimer, PartialDeflation, PawsRule, Preset, Push, Qdisc,
    ReceiveAutotune, Recovery, RecoveryGuard, RttRule, SackAlgorithm, SackCompression, SendAutotune, Switch,
    WindowEdge, WindowProbe, WindowReduction,
};
use lasthop_proto::tcp::congestion::{ALGORITHMS, Algorithm};

use crate::document::{Data, Item, quote};
use crate::error::did_you_mean;
use crate::one_line::steers;
use crate::reader::Value;

/// A `T`, or a word in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Or<W, T>(pub Option<T>, pub W);

/// A word with a special meaning. Each has a type of its own, so that messages can name it.
pub trait Word: Default {
    /// The word.
    const WORD: &'static str;
}

macro_rules! words {
    ($($name:ident = $word:literal),* $(,)?) => {$(
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        #[doc = concat!("The word \"", $word, "\".")]
        pub struct $name;
        impl Word for $name {
            const WORD: &'static str = $word;
        }
    )*};
}

words! { Unlimited = "unlimited", SendBuffer = "send-buffer", Off = "off", Drawn = "random", ByScheme = "scheme", Auto = "auto", Estimated = "estimated", SameAsLink = "link" }

impl<W: Word, T> From<Option<T>> for Or<W, T> {
    fn from(value: Option<T>) -> Self {
        Self(value, W::default())
    }
}

impl<W: Word, T: Value> Value for Or<W, T> {
    fn expected() -> String {
        format!("{}, or \"{}\"", T::expected(), W::WORD)
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(word) if word == W::WORD => Ok(None.into()),
            _ => T::read(data).map(|value| Some(value).into()).map_err(|reason| match data {
                Data::String(word) if did_you_mean(word, [W::WORD]).is_some() => {
                    format!("did you mean \"{}\"?", W::WORD)
                }
                _ => reason,
            }),
        }
    }
    fn show(&self) -> String {
        match &self.0 {
            Some(value) => value.show(),
            None => quote(W::WORD),
        }
    }
}

/// Free text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text(pub String);

impl Value for Text {
    fn expected() -> String {
        "a quoted string".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(text) => Ok(Self(text.clone())),
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(&self.0)
    }
}

/// A plain number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Number(pub f64);

impl Value for Number {
    fn expected() -> String {
        "a number, e.g. 0.5".to_owned()
    }

    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::Integer(value) => Ok(Self(*value as f64)),
            Data::Float(value) if value.is_finite() => Ok(Self(*value)),
            _ => Err(String::new()),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// [`Text`] on one line, without terminal control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line(pub String);

impl Value for Line {
    fn expected() -> String {
        "a quoted string on one line".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match Text::read(data)? {
            Text(text) if text.contains(['\n', '\r']) => Err(String::new()),
            Text(text) if text.chars().any(steers) => Err("it contains control characters".to_owned()),
            Text(text) => Ok(Self(text)),
        }
    }
    fn show(&self) -> String {
        quote(&self.0)
    }
}

/// A list of items of one kind; a single item needs no brackets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct List<T>(pub Vec<T>);

impl<T: Value> Value for List<T> {
    fn expected() -> String {
        format!("{}, or a list of such", T::expected())
    }
    fn read(data: &Data) -> Result<Self, String> {
        let Data::Array(items) = data else { return T::read(data).map(|item| Self(vec![item])) };
        let read = |(index, item): (usize, &Item)| {
            T::read(&item.data).map_err(|reason| match reason.as_str() {
                "" => format!("item {} is {}", index + 1, item.data.describe()),
                _ => format!("item {}: {reason}", index + 1),
            })
        };
        items.iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }
    fn show(&self) -> String {
        let items: Vec<_> = self.0.iter().map(Value::show).collect();
        format!("[{}]", items.join(", "))
    }
}

/// Name of a congestion control of the kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelCongestion(pub String);

impl Value for KernelCongestion {
    fn expected() -> String {
        "a congestion control of the kernel, e.g. \"bbr\" or \"cubic\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(name)
                if (1..=15).contains(&name.len())
                    && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') =>
            {
                Ok(Self(name.clone()))
            }
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(&self.0)
    }
}

/// A pair of names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pair(pub [String; 2]);

impl Value for Pair {
    fn expected() -> String {
        "the names of two nodes, e.g. [\"source\", \"base\"]".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::Array(items) => match &items[..] {
                [a, b] => Ok(Self([Text::read(&a.data)?.0, Text::read(&b.data)?.0])),
                _ => Err(format!("it has {} entries", items.len())),
            },
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        format!("[{}, {}]", quote(&self.0[0]), quote(&self.0[1]))
    }
}

impl Value for &'static Scheme {
    fn expected() -> String {
        let names: Vec<_> = SCHEMES.iter().map(|scheme| scheme.name).collect();
        format!("one of {}", names.join(", "))
    }
    fn read(data: &Data) -> Result<Self, String> {
        let Data::String(name) = data else { return Err(String::new()) };
        let near = || did_you_mean(name, SCHEMES.iter().map(|scheme| scheme.name));
        let hint = || near().map(|near| format!("did you mean \"{near}\"?")).unwrap_or_default();
        Scheme::by_name(name).ok_or_else(hint)
    }
    fn show(&self) -> String {
        quote(self.name)
    }
}

/// One of several names.
pub trait Choice: Copy + PartialEq + 'static {
    /// Each name with its value.
    const CHOICES: &'static [(&'static str, Self)];

    /// Returns the name of the value, if it has one.
    fn name(self) -> Option<&'static str> {
        Self::CHOICES.iter().find(|(_, value)| *value == self).map(|(name, _)| *name)
    }

    /// Returns the value with this name.
    fn named(name: &str) -> Option<Self> {
        Self::CHOICES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// Returns the correct form for messages about one of these names.
pub fn one_of(names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.map(quote).collect();
    match &names[..] {
        [only] => only.clone(),
        [a, b] => format!("{a} or {b}"),
        names => format!("one of {}", names.join(", ")),
    }
}

/// Returns the element of `all` with the name `given`, or suggests a similar name.
pub fn named<T>(
    given: &str,
    all: impl Iterator<Item = T> + Clone,
    name: impl Fn(&T) -> &'static str,
) -> Result<T, String> {
    let near = || did_you_mean(given, all.clone().map(|one| name(&one)));
    let hint = || near().map(|near| format!("did you mean \"{near}\"?")).unwrap_or_default();
    all.clone().find(|one| name(one) == given).ok_or_else(hint)
}

impl<T: Choice> Value for T {
    fn expected() -> String {
        one_of(T::CHOICES.iter().map(|(name, _)| *name))
    }
    fn read(data: &Data) -> Result<Self, String> {
        let given = match data {
            Data::String(given) => given.as_str(),
            // `true` for a switch is what most users would try first.
            Data::Boolean(true) => "on",
            Data::Boolean(false) => "off",
            _ => return Err(String::new()),
        };
        named(given, T::CHOICES.iter(), |(name, _)| *name).map(|(_, choice)| *choice)
    }
    fn show(&self) -> String {
        quote(self.name().unwrap_or_default())
    }
}

/// Implements [`Choice`] for enumerations, with the name of each variant.
#[macro_export]
macro_rules! choices {
    ($($type:ident { $($name:literal = $variant:ident),* $(,)? })*) => {$(
        impl $crate::values::Choice for $type {
            const CHOICES: &'static [(&'static str, Self)] = &[$(($name, $type::$variant)),*];
        }
    )*};
}

pub use crate::choices;

/// Implements a value that refers to an entry in a table of models, by the model's `name`.
#[macro_export]
macro_rules! named_models {
    ($model:ident, $models:ident) => {
        impl $crate::reader::Value for &'static $model {
            fn expected() -> String {
                $crate::values::one_of($models.iter().map(|model| model.name))
            }

            fn read(data: &$crate::document::Data) -> Result<Self, String> {
                let $crate::document::Data::String(name) = data else { return Err(String::new()) };
                $crate::values::named(name, $models.iter(), |model| model.name)
            }

            fn show(&self) -> String {
                $crate::document::quote(self.name)
            }
        }
    };
}

pub use crate::named_models;

/// Source of ELN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElnSource {
    /// The receiver detects corrupted frames with intact headers.
    Receiver,
    /// The base station observes duplicate acknowledgments.
    BaseStation,
    /// The base station is informed by radios on the path.
    Radios,
}

/// Names of `Medium` of the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediumName {
    /// Both ends send at the same time.
    Duplex,
    /// The ends take turns.
    HalfDuplex,
    /// Links share a channel.
    Shared,
    /// IEEE 802.11.
    Wifi,
    /// A cell of LTE or NR.
    Cell,
}

/// Names of `App` of the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppName {
    /// A bulk transfer.
    Transfer,
    /// A connection without data.
    Idle,
    /// Datagrams in bursts.
    OnOff,
    /// A QUIC connection.
    Quic,
    /// A voice call.
    Call,
}

/// Names of [`Clock`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockName {
    /// Nanoseconds.
    Fine,
    /// The slow and fast ticks of BSD.
    Ticks,
    /// Linux's timer wheel.
    Jiffies,
}

impl ClockName {
    /// Returns the name of a clock.
    pub const fn of(clock: Clock) -> Self {
        match clock {
            Clock::Fine => Self::Fine,
            Clock::Ticks { .. } => Self::Ticks,
            Clock::Jiffies { .. } => Self::Jiffies,
        }
    }
}

impl Value for &'static Algorithm {
    fn expected() -> String {
        one_of(ALGORITHMS.iter().map(|algorithm| algorithm.name))
    }

    fn read(data: &Data) -> Result<Self, String> {
        let Data::String(name) = data else { return Err(String::new()) };
        named(name, ALGORITHMS.iter().copied(), |algorithm| algorithm.name)
    }

    fn show(&self) -> String {
        quote(self.name)
    }
}

/// Names of [`DelayedAck`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayedAckName {
    /// Each segment is acknowledged at once.
    Off,
    /// Every second segment, or after a timeout.
    EverySecond,
    /// ns-2's delayed acknowledgments.
    Ns2,
    /// With window updates only.
    WindowUpdate,
    /// Linux's rule, with quick acknowledgments.
    Linux,
}

impl DelayedAckName {
    /// Returns the name of a rule.
    pub const fn of(rule: DelayedAck) -> Self {
        match rule {
            DelayedAck::Off => Self::Off,
            DelayedAck::EverySecond { .. } => Self::EverySecond,
            DelayedAck::Ns2 { .. } => Self::Ns2,
            DelayedAck::WindowUpdate => Self::WindowUpdate,
            DelayedAck::Linux => Self::Linux,
        }
    }
}

/// Names of `QueueSpec` of the simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// A FIFO queue that drops arrivals when it is full.
    Fifo,
    /// CoDel (RFC 8289).
    CoDel,
    /// FQ-CoDel (RFC 8290).
    FqCoDel,
    /// A queue that favours acknowledgments.
    AckAware,
    /// PIE (RFC 8033).
    Pie,
    /// DualPI2 (RFC 9332).
    DualPi2,
    /// CAKE.
    Cake,
}

/// Flow control on the hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowControlName {
    /// No flow control.
    None,
    /// Data is held at the base station.
    Fast,
}

choices! {
    ElnSource { "receiver" = Receiver, "base-station" = BaseStation, "radios" = Radios }
    MediumName { "duplex" = Duplex, "half-duplex" = HalfDuplex, "shared" = Shared, "wifi" = Wifi, "cell" = Cell }
    AppName { "transfer" = Transfer, "idle" = Idle, "on-off" = OnOff, "quic" = Quic, "call" = Call }
    ClockName { "fine" = Fine, "ticks" = Ticks, "jiffies" = Jiffies }
    HystartRule { "off" = Off, "linux" = Linux, "linux-6.14" = LinuxBefore6_15, "rfc9406" = Rfc9406 }
    WindowReduction { "linux" = Linux, "rfc9937" = Rfc9937 }
    DelayedAckName {
        "off" = Off, "every-second" = EverySecond, "ns2" = Ns2, "window-update" = WindowUpdate, "linux" = Linux,
    }
    SackCompression { "off" = Off, "linux" = Linux }
    ReceiveAutotune { "off" = Off, "linux" = Linux }
    SendAutotune { "off" = Off, "linux" = Linux }
    HandshakeAck { "with-data" = WithData, "own" = Own }
    PawsRule { "rfc7323" = Rfc7323, "linux" = Linux }
    WindowEdge { "whole" = Whole, "cut" = Cut }
    WindowProbe { "byte" = Byte, "empty" = Empty }
    Qdisc { "fifo" = Fifo, "fq" = Fq }
    Push { "never" = Never, "bursts" = Bursts }
    Nagle { "off" = Off, "on" = On, "minshall" = Minshall }
    AckCongestion { "off" = Off, "rfc5690" = Rfc5690 }
    EcnMode {
        "off" = Off, "passive" = Passive, "on" = On, "accurate" = Accurate, "accurate-passive" = AccuratePassive,
        "accurate-accept" = AccurateAccept,
    }
    EcnOption { "off" = Off, "minimum" = Minimum, "full" = Full, "persistent" = Persistent }
    EcnEcho { "rfc3168" = Rfc3168, "per-packet" = PerPacket }
    QueueKind {
        "fifo" = Fifo, "codel" = CoDel, "fq-codel" = FqCoDel, "ack-aware" = AckAware, "pie" = Pie, "dualpi2" = DualPi2,
        "cake" = Cake,
    }
    Overload { "drop" = Drop, "overflow" = Overflow }
    Tins { "besteffort" = BestEffort, "diffserv3" = Diffserv3, "diffserv4" = Diffserv4 }
    Isolation { "flows" = Flows, "sources" = Sources, "destinations" = Destinations, "triple" = Triple }
    FlowControlName { "none" = None, "fast" = Fast }
    Begin { "losses" = AtOnce, "silences" = AfterSilence }
    Preset { "bsd-lite" = BsdLite, "ns2" = Ns2, "rfc" = Rfc, "linux-6.18" = Linux618, "linux-6.18-bbr" = Linux618Bbr, "rfc-2026" = Rfc2026 }
    Recovery {
        "reno" = RENO, "new-reno" = NEW_RENO, "smart" = SMART, "sack" = SACK, "eln" = ELN, "eln-rxmt" = ELN_RXMT,
        "rack" = Rack,
    }
    SackAlgorithm { "sack1" = Sack1, "rfc6675" = Rfc6675 }
    RttRule { "bsd" = Bsd, "ns2" = Ns2, "rfc6298" = Rfc6298, "linux" = Linux }
    Growth { "rfc5681" = Rfc5681, "rfc3465" = Rfc3465, "bsd-lite" = BsdLite, "bsd-lite2" = BsdLite2, "ns2" = Ns2 }
    Deflation { "always" = Always, "above-threshold" = AboveThreshold }
    RecoveryGuard { "none" = None, "careful" = Careful, "once-per-window" = OncePerWindow, "ns2" = Ns2 }
    ImpureDuplicates { "ignored" = Ignored, "restart-count" = RestartCount }
    PartialDeflation { "by-acked" = ByAcked, "to-ssthresh" = ToThreshold }
    PartialAckTimer { "impatient" = Impatient, "slow-but-steady" = SlowButSteady }
    HeaderAccounting { "full" = Full, "ns2" = Ns2, "ns2-acks-only" = Ns2AcksOnly }
    Switch { "on" = On, "off" = Off }
    Behind { "overtake" = Overtake, "wait" = Wait }
    Order { "kept" = Kept, "free" = Free }
    Wrap { "repeat" = Repeat, "hold" = Hold, "stop" = Stop }
    Frames { "all" = All, "data" = Data, "acks" = Acks }
    LossUnit { "packet" = Packet, "super-segment" = SuperSegment }
    DamagedFrames { "drop" = Drop, "deliver" = Deliver }
    LocalDetection { "duplicate-acks" = DuplicateAcks, "smart" = Smart }
    RepairPriority { "auto" = Auto, "urgent" = Urgent, "normal" = Normal }
    TcpAwareness { "unaware" = Unaware, "aware" = Aware }
    Tier { "primary" = Primary, "secondary" = Secondary, "backup" = Backup, "off" = Off }
    Copies { "none" = None, "light" = Light, "all" = All }
    Multipath { "bond" = Bond, "redundant" = Redundant, "failover" = Failover }
    LinkRepair { "repeat" = Repeat, "share" = Share, "adaptive" = Adaptive, "multipath" = Multipath, "airmail" = Airmail }
    Protocol { "stop-and-wait" = StopAndWait, "go-back-n" = GoBackN, "selective-repeat" = SelectiveRepeat }
    Delivery { "in-order" = InOrder, "immediate" = Immediate }
    ElnKnowledge { "own" = Own, "told" = Told }
}
