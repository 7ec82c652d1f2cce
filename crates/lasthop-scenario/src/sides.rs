//! The two connections of a split: the gateway's settings of each, and what the simulator makes of the same keys.

use lasthop_proto::tcp::config::{ControlRule, Nagle, Preset, ReceiveAutotune, SendAutotune, Switch, TcpConfig};
use lasthop_proto::time::Duration;

use crate::document::Data;
use crate::error::Error;
use crate::reader::{Reader, Value};
use crate::values::{Auto, CongestionName, KernelCongestion, Or, Window};

/// Parameters of split connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitSettings {
    /// Of the connection over the lossy hop.
    pub wireless: SideSettings,
    /// Of the connection to the other side.
    pub wired: SideSettings,
    /// Whether snoop repairs the losses of the connection over the hop, beneath the kernel's TCP.
    pub repair: Switch,
}

/// Whether snoop repairs beneath the connection over the hop where nothing is said. On: a burst that takes all that is under way leaves the kernel's TCP nothing but a timer, which
/// doubles.
const REPAIR: Switch = Switch::On;

/// Parameters of one of the two connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SideSettings {
    /// The kernel's congestion control.
    pub congestion: String,
    /// Bytes of each socket buffer; the kernel's tuning where none is given.
    pub buffer: Option<u32>,
    /// The kernel's least retransmission timeout beyond the round trip; the kernel's own where none is given.
    pub rto_min: Option<Duration>,
    /// The kernel's longest retransmission timeout, however often it doubles; the kernel's own where none is given.
    pub rto_max: Option<Duration>,
}

impl SideSettings {
    /// The default towards the wire: CUBIC, everything else as the kernel has it.
    pub fn wired() -> Self {
        Self { congestion: "cubic".to_owned(), buffer: None, rto_min: None, rto_max: None }
    }

    /// The default over the lossy hop: BBR, and a least timeout of 50 ms. Over a hop of milliseconds the kernel's 200 ms, doubled with
    /// each loss of the same segment, are what a burst of losses costs; a receiver may delay an acknowledgment by 40 ms (Linux), and
    /// only that of a lone segment. Nor do they double beyond 3 s, longer than any hop's round trip: a hop that was dark for a minute is
    /// tried again at once.
    pub fn wireless() -> Self {
        let (rto_min, rto_max) = (Some(Duration::from_millis(50)), Some(Duration::from_secs(3)));
        Self { congestion: "bbr".to_owned(), buffer: None, rto_min, rto_max }
    }
}

/// What Linux takes: two of its slowest clock's ticks, and its own default.
const RTO_MIN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(200));
/// What Linux takes for the longest timeout; the last is its own default.
const RTO_MAX: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(120));
/// How long Linux goes on without an answer before it gives a connection up (`tcp_retries2` = 15), with its own timeouts; the gateway
/// asks for the same where timeouts are shorter (`TCP_USER_TIMEOUT`).
pub const PATIENCE: Duration = Duration::from_millis(924_600);
/// The least buffer, in bytes.
const LEAST_BUFFER: u32 = 4096;

const KEYS: [&str; 4] = ["congestion", "buffer", "rto_min", "rto_max"];

/// The sides of a gateway's split.
pub fn of_gateway(reader: &Reader<'_>) -> Result<SplitSettings, Error> {
    reader.allow(&["wireless", "wired", "repair"])?;
    let side = |key: &str, default: SideSettings| {
        let side = reader.section(key)?;
        side.allow(&KEYS)?;
        let KernelCongestion(congestion) =
            side.or("congestion", KernelCongestion(default.congestion.clone()), "default")?;
        let buffer = buffer(&side, default.buffer)?;
        let rto_min = if side.has("rto_min") { Some(rto_min(&side, RTO_MIN.1)?) } else { default.rto_min };
        let rto_max = if side.has("rto_max") { Some(rto_max(&side, RTO_MAX.1)?) } else { default.rto_max };
        Ok(SideSettings { congestion, buffer, rto_min, rto_max })
    };
    Ok(SplitSettings {
        wireless: side("wireless", SideSettings::wireless())?,
        wired: side("wired", SideSettings::wired())?,
        repair: reader.or("repair", REPAIR, "default")?,
    })
}

/// The lines of a table of which [`of_gateway`] makes the same. What is left to the kernel is written as the kernel has it
/// where the default is another.
pub fn to_gateway(settings: &SplitSettings) -> String {
    let side = |name: &str, side: &SideSettings, default: SideSettings| {
        let buffer: Or<Auto, Window> = side.buffer.map(Window).into();
        let span = |key: &str, given: Option<Duration>, default: Option<Duration>, kernels: Duration| {
            let span = given.or(default.map(|_| kernels));
            span.map(|span| format!("{name}.{key} = {}\n", span.show())).unwrap_or_default()
        };
        format!("{name}.congestion = {}\n", KernelCongestion(side.congestion.clone()).show())
            + &format!("{name}.buffer = {}\n", buffer.show())
            + &span("rto_min", side.rto_min, default.rto_min, RTO_MIN.1)
            + &span("rto_max", side.rto_max, default.rto_max, RTO_MAX.1)
    };
    format!("repair = {}\n", settings.repair.show())
        + &side("wireless", &settings.wireless, SideSettings::wireless())
        + &side("wired", &settings.wired, SideSettings::wired())
}

/// An endpoint of the simulator's relay that does what one of the gateway's sockets does.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SimulatedSide {
    congestion: ControlRule,
    buffer: Option<u32>,
    rto_min: Duration,
    rto_max: Duration,
}

/// The sides, as the simulator has them: wired, wireless; and whether snoop repairs beneath the latter.
pub(crate) fn of_simulator(reader: &Reader<'_>) -> Result<([SimulatedSide; 2], Switch), Error> {
    reader.allow(&["wired", "wireless", "repair"])?;
    let side = |key: &str, default: SideSettings| {
        let side = reader.section(key)?;
        side.allow(&KEYS)?;
        let named = CongestionName::read(&Data::String(default.congestion)).unwrap_or(CongestionName::Cubic);
        let congestion = side.or("congestion", named, "default: the gateway's")?;
        let buffer = buffer(&side, default.buffer)?;
        let rto_min = rto_min(&side, default.rto_min.unwrap_or(RTO_MIN.1))?;
        let rto_max = rto_max(&side, default.rto_max.unwrap_or(RTO_MAX.1))?;
        Ok(SimulatedSide { congestion: congestion.rule(), buffer, rto_min, rto_max })
    };
    let sides = [side("wired", SideSettings::wired())?, side("wireless", SideSettings::wireless())?];
    Ok((sides, reader.or("repair", REPAIR, "default: the gateway's")?))
}

fn buffer(side: &Reader<'_>, default: Option<u32>) -> Result<Option<u32>, Error> {
    let source = "default: the kernel tunes it";
    let Or(buffer, _) = side.or::<Or<Auto, Window>>("buffer", default.map(Window).into(), source)?;
    match buffer {
        Some(Window(bytes)) if bytes < LEAST_BUFFER => Err(side.refuse("buffer", "4 KiB to 1 GiB, or \"auto\"", "")),
        buffer => Ok(buffer.map(|Window(bytes)| bytes)),
    }
}

fn rto_min(side: &Reader<'_>, default: Duration) -> Result<Duration, Error> {
    let span = side.or("rto_min", default, "default: the gateway's")?;
    if span < RTO_MIN.0 || span > RTO_MIN.1 {
        return Err(side.refuse("rto_min", "20 ms to 200 ms", ""));
    }
    Ok(span)
}

fn rto_max(side: &Reader<'_>, default: Duration) -> Result<Duration, Error> {
    let span = side.or("rto_max", default, "default: the gateway's")?;
    if span < RTO_MAX.0 || span > RTO_MAX.1 {
        return Err(side.refuse("rto_max", "1 s to 120 s", ""));
    }
    Ok(span)
}

impl SimulatedSide {
    /// The endpoint: Linux's, with segments of at most `mss` bytes. It sends at once, since the ends decide when to send.
    pub(crate) fn config(&self, mss: u32) -> TcpConfig {
        let kernel = TcpConfig::preset(Preset::Linux618);
        let kernel = match self.buffer {
            None => TcpConfig { send_autotune: SendAutotune::Linux, ..kernel },
            Some(bytes) => {
                let receive_autotune = ReceiveAutotune::Off;
                TcpConfig { send_buffer: bytes, receive_buffer: bytes, receive_autotune, ..kernel }
            }
        };
        let (congestion, rto_min, nagle) = (self.congestion, self.rto_min, Nagle::Off);
        // It gives up after as long a time, not after as many timeouts.
        let (rto_max, sooner) = (self.rto_max, self.rto_max < RTO_MAX.1);
        let most = PATIENCE.as_nanos().div_ceil(rto_max.as_nanos().max(1)) as u32;
        let max_retries = if sooner { most.max(kernel.max_retries) } else { kernel.max_retries };
        TcpConfig { mss, congestion, rto_min, rto_max, max_retries, nagle, ..kernel }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::scheme::{BaseStation, SCHEMES};

    use super::*;

    #[test]
    fn shorter_timeouts_give_up_no_sooner() {
        let side = |rto_max| SimulatedSide {
            congestion: ControlRule::Bbr,
            buffer: None,
            rto_min: RTO_MIN.1,
            rto_max: Duration::from_secs(rto_max),
        };
        let [short, own] = [3, 120].map(|seconds| side(seconds).config(1448));
        assert_eq!((short.rto_max, short.max_retries), (Duration::from_secs(3), 309));
        assert_eq!((own.rto_max, own.max_retries), (Duration::from_secs(120), 15));
    }

    /// What the name of a scheme says is what the gateway does by default.
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
            let name = CongestionName::read(&Data::String(default.congestion)).unwrap();
            assert_eq!(name.rule(), congestion.rule());
        }
    }
}
