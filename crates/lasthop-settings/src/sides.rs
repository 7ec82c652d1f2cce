//! The two connections of a split: the gateway's settings of each, and the simulator's configuration from the same
//! keys.

use lasthop_proto::tcp::config::{
    CommonConfig, ControlRule, HystartRule, ModernConfig, Nagle, Preset, ReceiveAutotune, ReceiverConfig, SendAutotune,
    SenderConfig, Switch, TcpConfig,
};
use lasthop_proto::tcp::congestion::Algorithm;
use lasthop_proto::time::Duration;

use crate::document::Data;
use crate::error::Error;
use crate::key::Key;
use crate::reader::{Reader, Value};
use crate::values::{Auto, KernelCongestion, Or, Window};

/// Parameters of split connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitSettings {
    /// Settings of the connection over the lossy hop.
    pub wireless: SideSettings,
    /// Settings of the connection to the other side.
    pub wired: SideSettings,
    /// Indicates whether snoop repairs the losses of the connection over the hop, beneath the kernel's TCP.
    pub repair: Switch,
}

/// Parameters of one of the two connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SideSettings {
    /// Congestion control of the kernel.
    pub congestion: String,
    /// Size of each socket buffer in bytes; `None` means the kernel's tuning.
    pub buffer: Option<u32>,
    /// Minimum retransmission timeout of the kernel beyond the round-trip time; `None` means the kernel's default.
    pub rto_min: Option<Duration>,
    /// Maximum retransmission timeout of the kernel, which limits its doubling; `None` means the kernel's default.
    pub rto_max: Option<Duration>,
}

impl SideSettings {
    /// Returns the default towards the wire: CUBIC, and the kernel's defaults for everything else.
    pub fn wired() -> Self {
        Self { congestion: "cubic".to_owned(), buffer: None, rto_min: None, rto_max: None }
    }

    /// Returns the default over the lossy hop: BBR, and a minimum timeout of 50 ms. Over a hop of milliseconds, the
    /// kernel's 200 ms, doubled with each loss of the same segment, dominate the cost of a burst of losses. A receiver
    /// may delay an acknowledgment by 40 ms (Linux), but only that of a single segment. Timeouts do not double beyond 3
    /// s, longer than any hop's round-trip time, so that a hop is retried soon after an outage of a minute.
    pub fn wireless() -> Self {
        let (rto_min, rto_max) = (Some(Duration::from_millis(50)), Some(Duration::from_secs(3)));
        Self { congestion: "bbr".to_owned(), buffer: None, rto_min, rto_max }
    }
}

/// Linux's lower limit, two ticks of its slowest clock, and its default.
const RTO_MIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));
/// Linux's lower limit of the maximum timeout, and its default.
const RTO_MAX: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(120));
/// Time without an answer after which Linux aborts a connection (`tcp_retries2` = 15), with its own timeouts. The
/// gateway sets the same time for shorter timeouts (`TCP_USER_TIMEOUT`).
pub const PATIENCE: Duration = Duration::from_millis(924_600);
/// Minimum buffer, in bytes.
const LEAST_BUFFER: u32 = 4096;

keys! {
    /// Keys of a split connection.
    Keys {
        wireless, wired;
        // It is on because after a burst that destroys all data in flight, the kernel's TCP has only a timer, which
        // doubles.
        /// {} | snoop repairs beneath the connection over the hop
        repair: Switch = Switch::On;
    }

    /// Keys of each of the two connections.
    pub SideKeys {
        /// `"bbr"` | `"cubic"` | congestion control; the kernel's, in a scenario by the names of `[tcp]`
        congestion;
        /// `"auto"` | `"auto"` | socket buffers, from 4 KiB; auto: the kernel's
        buffer;
        /// `"50 ms"` | the kernel's `"200 ms"` | minimum retransmission timeout beyond the round trip, 20 to 200 ms;
        /// requires Linux 6.15
        rto_min;
        /// `"3 s"` | the kernel's `"120 s"` | maximum, 1 to 120 s; requires Linux 6.15
        rto_max;
    }
}

/// Reads the sides of a gateway's split.
pub fn of_gateway(reader: &Reader<'_>) -> Result<SplitSettings, Error> {
    reader.allow(Keys::NAMES)?;
    let side = |key: Key, default: SideSettings| {
        let side = reader.section(key)?;
        side.allow(SideKeys::NAMES)?;
        let KernelCongestion(congestion) =
            side.or(SideKeys::congestion, KernelCongestion(default.congestion.clone()), "default")?;
        let buffer = buffer(&side, default.buffer)?;
        let rto_min = if side.has(SideKeys::rto_min) { Some(rto_min(&side, RTO_MIN.1)?) } else { default.rto_min };
        let rto_max = if side.has(SideKeys::rto_max) { Some(rto_max(&side, RTO_MAX.1)?) } else { default.rto_max };
        Ok(SideSettings { congestion, buffer, rto_min, rto_max })
    };
    Ok(SplitSettings {
        wireless: side(Keys::wireless, SideSettings::wireless())?,
        wired: side(Keys::wired, SideSettings::wired())?,
        repair: reader.value(Keys::repair)?,
    })
}

/// Formats a table that [`of_gateway`] reads as the same settings. A value left to the kernel is written explicitly if
/// the default differs.
pub fn to_gateway(settings: &SplitSettings) -> String {
    let side = |name: &str, side: &SideSettings, default: SideSettings| {
        let buffer: Or<Auto, Window> = side.buffer.map(Window).into();
        let span = |key: Key, given: Option<Duration>, default: Option<Duration>, kernels: Duration| {
            let span = given.or(default.map(|_| kernels));
            span.map(|span| format!("{name}.{key} = {}\n", span.show())).unwrap_or_default()
        };
        format!("{name}.congestion = {}\n", KernelCongestion(side.congestion.clone()).show())
            + &format!("{name}.buffer = {}\n", buffer.show())
            + &span(SideKeys::rto_min, side.rto_min, default.rto_min, RTO_MIN.1)
            + &span(SideKeys::rto_max, side.rto_max, default.rto_max, RTO_MAX.1)
    };
    format!("repair = {}\n", settings.repair.show())
        + &side("wireless", &settings.wireless, SideSettings::wireless())
        + &side("wired", &settings.wired, SideSettings::wired())
}

/// An endpoint of the simulator's relay, equivalent to one of the gateway's sockets.
#[derive(Clone, PartialEq, Debug)]
pub struct SimulatedSide {
    congestion: ControlRule,
    buffer: Option<u32>,
    rto_min: Duration,
    rto_max: Duration,
}

/// Reads the sides for the simulator: wired, wireless; and whether snoop repairs beneath the latter.
pub fn of_simulator(reader: &Reader<'_>) -> Result<([SimulatedSide; 2], Switch), Error> {
    reader.allow(key_names!(Keys: wired, wireless, repair))?;
    let side = |key: Key, default: SideSettings| {
        let side = reader.section(key)?;
        side.allow(SideKeys::NAMES)?;
        let default_algorithm = Value::read(&Data::String(default.congestion))
            .unwrap_or_else(|_| ControlRule::cubic(HystartRule::Linux).algorithm());
        let congestion: &Algorithm = side.or(SideKeys::congestion, default_algorithm, "default: the gateway's")?;
        let buffer = buffer(&side, default.buffer)?;
        let rto_min = rto_min(&side, default.rto_min.unwrap_or(RTO_MIN.1))?;
        let rto_max = rto_max(&side, default.rto_max.unwrap_or(RTO_MAX.1))?;
        Ok(SimulatedSide { congestion: ControlRule::of(congestion), buffer, rto_min, rto_max })
    };
    let sides = [side(Keys::wired, SideSettings::wired())?, side(Keys::wireless, SideSettings::wireless())?];
    Ok((sides, reader.value_from(Keys::repair, "default: the gateway's")?))
}

fn buffer(side: &Reader<'_>, default: Option<u32>) -> Result<Option<u32>, Error> {
    let source = "default: the kernel tunes it";
    let Or(buffer, _) = side.or::<Or<Auto, Window>>(SideKeys::buffer, default.map(Window).into(), source)?;
    match buffer {
        Some(Window(bytes)) if bytes < LEAST_BUFFER => {
            Err(side.refuse(SideKeys::buffer, "4 KiB to 1 GiB, or \"auto\"", ""))
        }
        buffer => Ok(buffer.map(|Window(bytes)| bytes)),
    }
}

fn rto_min(side: &Reader<'_>, default: Duration) -> Result<Duration, Error> {
    let span = side.or(SideKeys::rto_min, default, "default: the gateway's")?;
    if span < RTO_MIN.0 || span > RTO_MIN.1 {
        return Err(side.refuse(SideKeys::rto_min, "20 ms to 200 ms", ""));
    }
    Ok(span)
}

fn rto_max(side: &Reader<'_>, default: Duration) -> Result<Duration, Error> {
    let span = side.or(SideKeys::rto_max, default, "default: the gateway's")?;
    if span < RTO_MAX.0 || span > RTO_MAX.1 {
        return Err(side.refuse(SideKeys::rto_max, "1 s to 120 s", ""));
    }
    Ok(span)
}

impl SimulatedSide {
    /// Returns the endpoint's configuration: Linux's, with segments of at most `mss` bytes. It sends at once, since the
    /// ends decide when to send.
    pub fn config(&self, mss: u32) -> TcpConfig {
        let preset = Preset::Linux618;
        let (common, mut receiver) = (CommonConfig::preset(preset), ReceiverConfig::preset(preset));
        let mut sender = ModernConfig { congestion: self.congestion, ..ModernConfig::preset(preset) };
        match self.buffer {
            None => sender.send_autotune = SendAutotune::Linux,
            Some(bytes) => {
                receiver.receive_buffer = bytes;
                receiver.receive_autotune = ReceiveAutotune::Off;
            }
        }
        let send_buffer = self.buffer.unwrap_or(common.send_buffer);
        let (rto_min, nagle) = (self.rto_min, Nagle::Off);
        // It gives up after the same time, not after the same number of timeouts.
        let (rto_max, sooner) = (self.rto_max, self.rto_max < RTO_MAX.1);
        let most = PATIENCE.as_nanos().div_ceil(rto_max.as_nanos().max(1)) as u32;
        let max_retries = if sooner { most.max(common.max_retries) } else { common.max_retries };
        let common = CommonConfig { mss, send_buffer, rto_min, rto_max, max_retries, nagle, ..common };
        TcpConfig { common, receiver, sender: SenderConfig::Modern(sender) }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::scheme::{BaseStation, SCHEMES};

    use super::*;

    #[test]
    fn shorter_timeouts_give_up_no_sooner() {
        let side = |rto_max| SimulatedSide {
            congestion: ControlRule::BBR,
            buffer: None,
            rto_min: RTO_MIN.1,
            rto_max: Duration::from_secs(rto_max),
        };
        let [short, own] = [3, 120].map(|seconds| side(seconds).config(1448));
        assert_eq!((short.common.rto_max, short.common.max_retries), (Duration::from_secs(3), 309));
        assert_eq!((own.common.rto_max, own.common.max_retries), (Duration::from_secs(120), 15));
    }

    /// The names of schemes agree with the gateway's defaults.
    #[test]
    fn the_scheme_says_what_the_gateway_does() {
        let said = SCHEMES.iter().find_map(|scheme| match scheme.base_station {
            BaseStation::GatewaySplit { wireless } => Some(wireless),
            _ => None,
        });
        for (default, congestion) in [
            (SideSettings::wireless(), said.unwrap()),
            (SideSettings::wired(), lasthop_proto::scheme::Congestion::Cubic),
        ] {
            let named: &Algorithm = Value::read(&Data::String(default.congestion)).unwrap();
            assert_eq!(ControlRule::of(named), congestion.rule());
        }
    }
}
