//! Keys of a TCP endpoint.

use lasthop_proto::tcp::config::{
    AckCongestion, ClassicConfig, Clock, CommonConfig, ControlRule, DelayedAck, EcnMode, ModernConfig, Preset,
    ReceiveAutotune, ReceiverConfig, Recovery, SackCompression, SenderConfig, Switch, TcpConfig,
};
use lasthop_proto::tcp::congestion::Algorithm;
use lasthop_proto::time::Duration;

use crate::key::Key;
use crate::reader::{Reader, Value};
use crate::tcp_keys::{KeyName, Keys};
use crate::units::{ByteSize, TimeSpan};
use crate::values::{
    ByScheme, ClockName, Count, DelayedAckName, Drawn, List, Off, Or, Positive, SendBuffer, Unlimited, Whole, Window,
    Word,
};
use crate::{Error, Problem};

/// An endpoint of a scenario. The scheme supplies the values that the scenario leaves to it: the loss recovery, and with
/// it the choice between the two senders, whose settings are both here.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TcpSpec {
    /// Settings of both halves.
    pub common: CommonConfig,
    /// Settings of the receiver, except [`ReceiverConfig::smart_acks`].
    pub receiver: ReceiverConfig,
    /// Settings of a classic sender, except [`ClassicConfig::recovery`].
    pub classic: ClassicConfig,
    /// Settings of a modern sender.
    pub modern: ModernConfig,
    /// Override of the scheme's recovery.
    pub recovery: Option<Recovery>,
    /// Override of the default for the recovery in use.
    pub smart_acks: Option<Switch>,
}

/// Base of a table of TCP keys.
#[derive(Clone, Copy)]
pub(crate) enum Base<'b> {
    /// The preset in the table, otherwise this one.
    Preset(Preset),
    /// Another table, which supplies missing values unless this one has a preset.
    Table(&'b TcpSpec),
    /// [`Base::Table`] for an end of a relay, whose buffers are the relay's.
    RelayEnd(&'b TcpSpec, u32),
}

impl Base<'_> {
    /// Returns the relay's buffer, if the endpoint is an end of a relay.
    pub(crate) fn relay_buffer(&self) -> Option<u32> {
        match self {
            Self::RelayEnd(_, buffer) => Some(*buffer),
            Self::Preset(_) | Self::Table(_) => None,
        }
    }
}

impl TcpSpec {
    /// Returns the values of `preset`.
    pub(crate) fn of(preset: Preset) -> Self {
        Self {
            common: CommonConfig::preset(preset),
            receiver: ReceiverConfig::preset(preset),
            classic: ClassicConfig::preset(preset),
            modern: ModernConfig::preset(preset),
            recovery: preset.recovery(),
            smart_acks: None,
        }
    }

    /// Returns the maximum payload of a segment.
    pub(crate) fn mss(&self) -> u32 {
        self.common.mss
    }

    /// Returns the endpoint, with the preset's recovery if neither the scenario nor a scheme determines the recovery.
    pub(crate) fn without_scheme(&self) -> TcpConfig {
        self.config(self.recovery.unwrap_or(Recovery::Classic(self.classic.recovery)), Switch::Off)
    }

    /// Returns the endpoint with `recovery`.
    pub(crate) fn config(&self, recovery: Recovery, smart_acks: Switch) -> TcpConfig {
        let sender = match recovery {
            Recovery::Classic(recovery) => SenderConfig::Classic(ClassicConfig { recovery, ..self.classic }),
            Recovery::Rack => SenderConfig::Modern(self.modern),
        };
        let receiver = ReceiverConfig { smart_acks, ..self.receiver.clone() };
        TcpConfig { common: self.common.clone(), receiver, sender }
    }
}

/// Maximum segment size: IPv4 and TCP headers take 40 of 65,535 bytes.
const LARGEST_MSS: u32 = 65_495;
/// Maximum window in segments: the product with the maximum mss fits into 32 bits.
const LARGEST_WINDOW: u32 = 65_535;
/// Maximum of other numbers. No practical value exceeds this maximum, and it is far from overflow.
const LARGEST_NUMBER: u32 = 1_000_000;

/// Ticks of 4.4BSD, for `clock` set to ticks over a base that has none.
const BSD_TICKS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_millis(200));
/// Jiffy of Linux at 250 Hz, for `clock` set to jiffies over a base that has none.
const JIFFY: Duration = Duration::from_millis(4);
/// Timeout of delayed acknowledgments that are enabled over a base that has none: 4.4BSD's maximum, and the usual value
/// since.
const DELAYED_ACK_TIMEOUT: Duration = Duration::from_millis(200);

const SMART_ACKS: &str = "default: on if recovery is smart, and behind a base station that reads SMART numbers";

/// A table of TCP keys over its base.
struct Layer<'r, 'd> {
    reader: &'r Reader<'d>,
    /// Source of the values that this table lacks; `None` if another table of the scenario has them.
    base: Option<String>,
    /// Scheme whose name determines the congestion control.
    named_after: Option<&'static str>,
}

impl Layer<'_, '_> {
    fn value<T: Value>(&self, key: Key, base: T) -> Result<T, Error> {
        match &self.base {
            Some(source) => self.reader.or(key, base, source),
            None => Ok(self.reader.get(key)?.unwrap_or(base)),
        }
    }

    fn window(&self, key: Key, base: u32) -> Result<u32, Error> {
        self.value(key, Window(base)).map(|Window(bytes)| bytes)
    }

    fn whole<const HIGH: u32>(&self, key: Key, base: u32) -> Result<u32, Error> {
        self.value(key, Whole::<1, HIGH>(base)).map(|Whole(number)| number)
    }

    fn span(&self, key: Key, base: Duration) -> Result<Duration, Error> {
        self.value(key, Positive(base)).map(|Positive(span)| span)
    }

    fn optional<W: Word, T: Value>(&self, key: Key, base: Option<T>) -> Result<Option<T>, Error> {
        self.value(key, Or::<W, T>::from(base)).map(|value| value.0)
    }

    /// Reads a value that the scheme determines unless the scenario gives it.
    fn by_scheme<T: Value>(&self, key: Key, base: Option<T>, source: &str) -> Result<Option<T>, Error> {
        let over = self.base.as_ref().map(|_| source.to_owned());
        Layer { base: over, ..*self }.optional::<ByScheme, T>(key, base)
    }

    /// Reads a number; the maximum `u32` means no limit.
    fn limited_count(&self, key: Key, base: u32) -> Result<u32, Error> {
        let base = (base != u32::MAX).then_some(Whole(base));
        Ok(self.optional::<Unlimited, Count>(key, base)?.map_or(u32::MAX, |Whole(count)| count))
    }

    /// Reads a number of bytes; the maximum `u32` means no limit.
    fn limited_bytes(&self, key: Key, base: u32) -> Result<u32, Error> {
        let base = (base != u32::MAX).then_some(Window(base));
        Ok(self.optional::<Unlimited, Window>(key, base)?.map_or(u32::MAX, |Window(bytes)| bytes))
    }

    /// Reads `given`, the keys that the scenario sets explicitly: a text written by `explain` has all keys.
    fn given(&self) -> Result<(), Error> {
        let standing: Vec<KeyName> = KeyName::all_in(self.reader).collect();
        let all = List(standing.clone());
        let List(given) = match &self.base {
            Some(_) => self.reader.or(Keys::given, all, "default: the keys set here")?,
            None => self.reader.get(Keys::given)?.unwrap_or(all),
        };
        match given.iter().find(|key| !standing.contains(key)) {
            Some(KeyName(key)) => {
                let reason = format!("{key} is not set here");
                Err(self.reader.refuse(Keys::given, "names of keys of this table", reason))
            }
            None => Ok(()),
        }
    }

    fn buffers(&self, spec: &mut TcpSpec) -> Result<(), Error> {
        let common = self.reader.get::<Window>(Keys::socket_buffer)?;
        if common.is_some() && self.reader.has(Keys::send_buffer) && self.reader.has(Keys::receive_buffer) {
            let message = "sets send_buffer and receive_buffer, but both are also given; remove one of the three";
            return Err(self.reader.fail(Keys::socket_buffer, Problem::Conflict(message.to_owned())));
        }
        let buffer = |key: Key, base| match common {
            Some(common) => self.reader.or_derived(key, common, "as socket_buffer").map(|Window(bytes)| bytes),
            None => self.window(key, base),
        };
        spec.common.send_buffer = buffer(Keys::send_buffer, spec.common.send_buffer)?;
        spec.receiver.receive_buffer = buffer(Keys::receive_buffer, spec.receiver.receive_buffer)?;
        Ok(())
    }

    fn relay_buffers(&self, spec: &mut TcpSpec, buffer: u32) -> Result<(), Error> {
        let keys = [Keys::socket_buffer, Keys::send_buffer, Keys::receive_buffer];
        if let Some(key) = keys.into_iter().find(|key| self.reader.has(key)) {
            let message = "the relay has one buffer for both of its connections; give split_buffer instead".to_owned();
            return Err(self.reader.fail(key, Problem::Conflict(message)));
        }
        (spec.common.send_buffer, spec.receiver.receive_buffer) = (buffer, buffer);
        Ok(())
    }

    fn clock(&self, base: Clock) -> Result<Clock, Error> {
        let (name, ticks, jiffies) = match base {
            Clock::Fine => (ClockName::Fine, None, None),
            Clock::Ticks { slow, fast } => (ClockName::Ticks, Some((slow, fast)), None),
            Clock::Jiffies { jiffy, wheel } => (ClockName::Jiffies, None, Some((jiffy, wheel))),
        };
        let name = self.value(Keys::clock, name)?;
        if name != ClockName::Ticks {
            self.only_with(&[Keys::slow_tick, Keys::fast_tick], "clock = \"ticks\"")?;
        }
        if name != ClockName::Jiffies {
            self.only_with(&[Keys::jiffy, Keys::timer_wheel], "clock = \"jiffies\"")?;
        }
        match name {
            ClockName::Fine => Ok(Clock::Fine),
            ClockName::Jiffies => {
                let (jiffy, wheel) = jiffies.unwrap_or((JIFFY, Switch::On));
                let layer = self.default_unless(jiffies.is_some());
                Ok(Clock::Jiffies {
                    jiffy: layer.span(Keys::jiffy, jiffy)?,
                    wheel: layer.value(Keys::timer_wheel, wheel)?,
                })
            }
            ClockName::Ticks => {
                let (slow, fast) = ticks.unwrap_or(BSD_TICKS);
                let layer = self.default_unless(ticks.is_some());
                Ok(Clock::Ticks { slow: layer.span(Keys::slow_tick, slow)?, fast: layer.span(Keys::fast_tick, fast)? })
            }
        }
    }

    fn congestion(&self, base: ControlRule) -> Result<ControlRule, Error> {
        let algorithm = match self.named_after {
            Some(scheme) => self.reader.or(Keys::congestion, base.algorithm(), scheme)?,
            None => self.value(Keys::congestion, base.algorithm())?,
        };
        let rule = ControlRule::of(algorithm);
        let Some(default) = rule.hystart() else {
            self.only_with(&[Keys::hystart], "congestion = \"cubic\" or \"cubic-rfc9438\"")?;
            return Ok(rule);
        };
        let layer = self.default_unless(base.hystart().is_some());
        Ok(rule.with_hystart(layer.value(Keys::hystart, base.hystart().unwrap_or(default))?))
    }

    fn delayed_ack(&self, base: DelayedAck) -> Result<DelayedAck, Error> {
        let (name, timeout) = match base {
            DelayedAck::Off => (DelayedAckName::Off, None),
            DelayedAck::EverySecond { timeout } => (DelayedAckName::EverySecond, Some(timeout)),
            DelayedAck::Ns2 { timeout } => (DelayedAckName::Ns2, Some(timeout)),
            DelayedAck::WindowUpdate => (DelayedAckName::WindowUpdate, None),
            DelayedAck::Linux => (DelayedAckName::Linux, None),
        };
        let name = self.value(Keys::delayed_ack, name)?;
        if matches!(name, DelayedAckName::Off | DelayedAckName::WindowUpdate | DelayedAckName::Linux) {
            self.only_with(&[Keys::delayed_ack_timeout], "delayed_ack = \"every-second\" or \"ns2\"")?;
        }
        let read = || {
            let layer = self.default_unless(timeout.is_some());
            layer.span(Keys::delayed_ack_timeout, timeout.unwrap_or(DELAYED_ACK_TIMEOUT))
        };
        Ok(match name {
            DelayedAckName::Off => DelayedAck::Off,
            DelayedAckName::EverySecond => DelayedAck::EverySecond { timeout: read()? },
            DelayedAckName::Ns2 => DelayedAck::Ns2 { timeout: read()? },
            DelayedAckName::WindowUpdate => DelayedAck::WindowUpdate,
            DelayedAckName::Linux => DelayedAck::Linux,
        })
    }

    /// Returns this layer if its base `has` the value; otherwise the source of the value is a default of its own.
    fn default_unless(&self, has: bool) -> Self {
        Self { base: if has { self.base.clone() } else { Some("default".to_owned()) }, ..*self }
    }

    fn only_with(&self, keys: &[Key], condition: &str) -> Result<(), Error> {
        match keys.iter().find(|key| self.reader.has(key)) {
            Some(key) => Err(self.reader.fail(key, Problem::Conflict(format!("requires {condition}")))),
            None => Ok(()),
        }
    }
}

/// Reads a table of TCP keys, unmodified.
pub(crate) fn read_table(reader: &Reader<'_>, base: Base<'_>) -> Result<TcpSpec, Error> {
    reader.allow(Keys::NAMES)?;
    let preset = match base {
        Base::Preset(preset) => Some(reader.or(Keys::preset, preset, "default")?),
        Base::Table(_) | Base::RelayEnd(..) => reader.get(Keys::preset)?,
    };
    let spec = match (preset, base) {
        (None, Base::Table(table) | Base::RelayEnd(table, _)) => table.clone(),
        (Some(preset), _) | (None, Base::Preset(preset)) => TcpSpec::of(preset),
    };
    let under = Under { spec, preset, relay_buffer: base.relay_buffer(), named_after: None };
    lay(reader, under)
}

/// Resolved base of a table of TCP keys.
pub(crate) struct Under {
    /// Values.
    pub spec: TcpSpec,
    /// Preset with these values, unless they are another table's.
    pub preset: Option<Preset>,
    /// Buffer of the relay, if the endpoint is an end of a relay.
    pub relay_buffer: Option<u32>,
    /// Scheme whose name determines the congestion control.
    pub named_after: Option<&'static str>,
}

/// Reads all keys except `preset` over their base.
pub(crate) fn lay(reader: &Reader<'_>, under: Under) -> Result<TcpSpec, Error> {
    let Under { mut spec, preset, relay_buffer, named_after } = under;
    let source = preset.map(|preset| format!("preset {}", preset.show().trim_matches('"')));
    let layer = Layer { reader, base: source, named_after };
    layer.given()?;

    spec.common.mss = layer.window(Keys::mss, spec.common.mss)?;
    match relay_buffer {
        Some(buffer) => layer.relay_buffers(&mut spec, buffer)?,
        None => layer.buffers(&mut spec)?,
    }
    let TcpSpec { common, receiver, classic, modern, recovery, smart_acks } = &mut spec;
    let shift = receiver.window_scale.map(|shift| Whole(shift.into()));
    let shift = layer.optional::<Off, Whole<0, 14>>(Keys::window_scale, shift)?;
    receiver.window_scale = shift.map(|Whole(shift)| shift as u8);
    common.timestamps = layer.value(Keys::timestamps, common.timestamps)?;
    common.paws = layer.value(Keys::paws, common.paws)?;
    common.headers = layer.value(Keys::headers, common.headers)?;
    let decided = match (preset.and_then(Preset::recovery), &layer.base) {
        (Some(_), Some(preset)) => preset.clone(),
        _ => "default: the scheme decides".to_owned(),
    };
    *recovery = layer.by_scheme(Keys::recovery, *recovery, &decided)?;
    classic.sack_algorithm = layer.value(Keys::sack_algorithm, classic.sack_algorithm)?;
    receiver.sack_blocks = layer.whole::<4>(Keys::sack_blocks, receiver.sack_blocks.into())? as u8;
    common.sack_eln = layer.value(Keys::sack_eln, common.sack_eln)?;
    *smart_acks = layer.by_scheme(Keys::smart_acks, *smart_acks, SMART_ACKS)?;
    let smart_rtt = layer.optional::<Off, Positive<Duration>>(Keys::smart_rtt, classic.smart_rtt.map(Positive))?;
    classic.smart_rtt = smart_rtt.map(|Positive(span)| span);

    common.clock = layer.clock(common.clock)?;
    common.tick_phase = layer.optional::<Drawn, Duration>(Keys::tick_phase, common.tick_phase)?;
    common.rtt_rule = layer.value(Keys::rtt_rule, common.rtt_rule)?;
    common.rtt_granularity = layer.span(Keys::rtt_granularity, common.rtt_granularity)?;
    common.rto_initial = layer.span(Keys::rto_initial, common.rto_initial)?;
    common.rto_min = layer.span(Keys::rto_min, common.rto_min)?;
    common.rto_max = layer.span(Keys::rto_max, common.rto_max)?;
    common.max_backoff = layer.whole::<LARGEST_NUMBER>(Keys::max_backoff, common.max_backoff)?;
    common.max_retries = layer.limited_count(Keys::max_retries, common.max_retries)?;
    receiver.delayed_ack = layer.delayed_ack(receiver.delayed_ack)?;
    if receiver.delayed_ack != DelayedAck::Linux {
        // Parts of that receiver are disabled with it unless they are given.
        (receiver.sack_compression, receiver.receive_autotune) = (SackCompression::Off, ReceiveAutotune::Off);
        receiver.gro = Switch::Off;
    }
    receiver.sack_compression = layer.value(Keys::sack_compression, receiver.sack_compression)?;
    receiver.dsack = layer.value(Keys::dsack, receiver.dsack)?;
    receiver.receive_autotune = layer.value(Keys::receive_autotune, receiver.receive_autotune)?;
    modern.send_autotune = layer.value(Keys::send_autotune, modern.send_autotune)?;
    receiver.ack_before_read = layer.value(Keys::ack_before_read, receiver.ack_before_read)?;
    let scalable = reader.peek::<&'static Algorithm>(Keys::congestion)?.is_some_and(|algorithm| algorithm.scalable);
    common.ecn = match scalable && common.ecn != EcnMode::On {
        true => layer.default_unless(false).value(Keys::ecn, EcnMode::On)?,
        false => layer.value(Keys::ecn, common.ecn)?,
    };
    common.ecn_option = layer.value(Keys::ecn_option, common.ecn_option)?;
    let beacon = Whole::<0, { u8::MAX as u32 }>(common.ecn_option_beacon.into());
    common.ecn_option_beacon = layer.value(Keys::ecn_option_beacon, beacon)?.0 as u8;
    common.ecn_fallback = layer.value(Keys::ecn_fallback, common.ecn_fallback)?;
    receiver.ecn_echo = layer.value(Keys::ecn_echo, receiver.ecn_echo)?;
    common.ack_congestion = layer.value(Keys::ack_congestion, common.ack_congestion)?;

    common.initial_window = layer.whole::<LARGEST_WINDOW>(Keys::initial_window, common.initial_window)?;
    common.initial_ssthresh = initial_ssthresh(&layer, common.initial_ssthresh)?;
    common.max_cwnd = layer.limited_bytes(Keys::max_cwnd, common.max_cwnd)?;
    modern.congestion = layer.congestion(modern.congestion)?;
    modern.window_reduction = layer.value(Keys::window_reduction, modern.window_reduction)?;
    modern.undo = layer.value(Keys::undo, modern.undo)?;
    modern.frto = layer.value(Keys::frto, modern.frto)?;
    modern.tlp = layer.value(Keys::tlp, modern.tlp)?;
    modern.small_queues = layer.value(Keys::small_queues, modern.small_queues)?;
    classic.growth = layer.value(Keys::growth, classic.growth)?;
    classic.deflation = layer.value(Keys::deflation, classic.deflation)?;
    common.dupack_threshold = layer.whole::<LARGEST_NUMBER>(Keys::dupack_threshold, common.dupack_threshold)?;
    classic.limited_transmit = layer.value(Keys::limited_transmit, classic.limited_transmit)?;
    classic.header_prediction = layer.value(Keys::header_prediction, classic.header_prediction)?;
    classic.impure_duplicates = layer.value(Keys::impure_duplicates, classic.impure_duplicates)?;
    classic.recovery_guard = layer.value(Keys::recovery_guard, classic.recovery_guard)?;
    classic.recovery_burst = layer.limited_count(Keys::recovery_burst, classic.recovery_burst)?;
    classic.partial_ack_timer = layer.value(Keys::partial_ack_timer, classic.partial_ack_timer)?;
    classic.partial_deflation = layer.value(Keys::partial_deflation, classic.partial_deflation)?;
    classic.eln_inflation = layer.value(Keys::eln_inflation, classic.eln_inflation)?;
    common.idle_restart = layer.value(Keys::idle_restart, common.idle_restart)?;
    common.nagle = layer.value(Keys::nagle, common.nagle)?;
    common.handshake_ack = layer.value(Keys::handshake_ack, common.handshake_ack)?;
    modern.qdisc = layer.value(Keys::qdisc, modern.qdisc)?;
    modern.tso = layer.value(Keys::tso, modern.tso)?;
    receiver.gro = layer.value(Keys::gro, receiver.gro)?;
    receiver.gro_flush_timeout = layer.value(Keys::gro_flush_timeout, receiver.gro_flush_timeout)?;
    modern.send_quantum = layer.limited_count(Keys::send_quantum, modern.send_quantum)?;
    modern.window_edge = layer.value(Keys::window_edge, modern.window_edge)?;
    common.window_probe = layer.value(Keys::window_probe, common.window_probe)?;
    modern.push = layer.value(Keys::push, modern.push)?;
    common.time_wait = layer.span(Keys::time_wait, common.time_wait)?;
    check(reader, common, receiver)?;
    Ok(spec)
}

/// Reads `initial_ssthresh`. `None` means the send buffer; the maximum `u32` means no limit.
fn initial_ssthresh(layer: &Layer<'_, '_>, base: Option<u32>) -> Result<Option<u32>, Error> {
    type Threshold = Or<SendBuffer, Or<Unlimited, Window>>;
    let base = base.map(|bytes| Or::from((bytes != u32::MAX).then_some(Window(bytes))));
    let value = layer.value(Keys::initial_ssthresh, Threshold::from(base))?;
    Ok(value.0.map(|limit| limit.0.map_or(u32::MAX, |Window(bytes)| bytes)))
}

/// Checks values that depend on each other.
fn check(reader: &Reader<'_>, common: &CommonConfig, receiver: &ReceiverConfig) -> Result<(), Error> {
    // The message refers to the first of the keys in this table, where the mistake must be.
    let conflict = |keys: &[Key], message: String| match keys.iter().find(|key| reader.has(key)) {
        Some(key) => reader.fail(key, Problem::Conflict(message)),
        None => reader.fail_here(Problem::Conflict(message)),
    };
    let bytes = |bytes: u32| ByteSize(bytes.into());
    if common.mss > LARGEST_MSS {
        return Err(conflict(&[Keys::mss], format!("mss = {} is above {LARGEST_MSS} B", bytes(common.mss))));
    }
    let sizes = [
        (Keys::send_buffer, common.send_buffer),
        (Keys::receive_buffer, receiver.receive_buffer),
        (Keys::max_cwnd, common.max_cwnd),
        (Keys::initial_ssthresh, common.initial_ssthresh.unwrap_or(u32::MAX)),
    ];
    for (key, size) in sizes {
        if size < common.mss {
            let message = format!("{key} = {} is smaller than one segment (mss = {})", bytes(size), bytes(common.mss));
            return Err(conflict(&[key, Keys::socket_buffer, Keys::mss, Keys::preset], message));
        }
    }
    for (key, span) in [(Keys::rto_min, common.rto_min), (Keys::rto_initial, common.rto_initial)] {
        if span > common.rto_max {
            let (span, max) = (TimeSpan(span), TimeSpan(common.rto_max));
            return Err(conflict(
                &[key, Keys::rto_max, Keys::preset],
                format!("{key} = {span} is above rto_max = {max}"),
            ));
        }
    }
    if receiver.sack_blocks > 3 && common.timestamps.is_on() {
        let message = "timestamps leave space for 3 SACK blocks (40 bytes of options, RFC 2018 §3)";
        return Err(conflict(&[Keys::sack_blocks, Keys::timestamps, Keys::preset], message.to_owned()));
    }
    if common.ack_congestion == AckCongestion::Rfc5690
        && !matches!(receiver.delayed_ack, DelayedAck::EverySecond { .. })
    {
        let message = "ack_congestion = \"rfc5690\" requires delayed_ack = \"every-second\", since it controls \
                       the number of segments per acknowledgment";
        return Err(conflict(&[Keys::ack_congestion, Keys::delayed_ack, Keys::preset], message.to_owned()));
    }
    check_linux(reader, receiver)
}

/// Checks the features that need Linux's acknowledgments, or exclude them.
fn check_linux(reader: &Reader<'_>, receiver: &ReceiverConfig) -> Result<(), Error> {
    let linux = receiver.delayed_ack == DelayedAck::Linux;
    let needs = [
        (Keys::sack_compression, receiver.sack_compression != SackCompression::Off),
        (Keys::receive_autotune, receiver.receive_autotune != ReceiveAutotune::Off),
        (Keys::gro, receiver.gro.is_on()),
    ];
    for (key, used) in needs {
        if used && !linux {
            let value = if key == Keys::gro { "on" } else { "linux" };
            let message =
                format!("{key} = \"{value}\" requires delayed_ack = \"linux\", since it is part of that receiver");
            let key = [key, Keys::delayed_ack, Keys::preset].into_iter().find(|key| reader.has(key)).unwrap_or(key);
            return Err(reader.fail(key, Problem::Conflict(message)));
        }
    }
    if linux && receiver.ack_before_read.is_on() {
        let message = "delayed_ack = \"linux\" and ack_before_read = \"on\" exclude each other: the latter is 4.4BSD's";
        let keys = [Keys::delayed_ack, Keys::ack_before_read, Keys::preset];
        let key = keys.into_iter().find(|key| reader.has(key)).unwrap_or(Keys::delayed_ack);
        return Err(reader.fail(key, Problem::Conflict(message.to_owned())));
    }
    Ok(())
}
