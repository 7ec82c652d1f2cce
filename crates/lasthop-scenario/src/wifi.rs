//! Links over Wi-Fi: `medium = "wifi"` with a table `wifi`.

use lasthop_proto::link::wifi::{
    Band, Control, FrameLoss, Guard, Phy, RateIndex, Standard, TransmitterSpec, Turns, WifiSpec,
};
use lasthop_proto::queue::{CoDelConfig, FqCoDelConfig, QueueSpec};
use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Duration;
use lasthop_sim::network::{Medium, WifiLink};

use crate::document::quote;
use crate::key::Key;
use crate::reader::{Reader, Value};
use crate::shared_keys::LinkKeys;
use crate::units::{ByteSize, Fraction};
use crate::values::{Line, Number, Off, Or, Whole, choices};
use crate::{Error, Problem};

keys! {
    /// Keys of the table `wifi`.
    pub(crate) Keys {
        /// {} | `"a"`, `"g"`, `"n"`, `"ac"`, `"ax"`
        standard: StandardName = StandardName::Ax;
        /// `"5 GHz"`, g: `"2.4 GHz"` |
        band;
        /// `"80 MHz"` for ac and ax at 5 GHz, otherwise `"20 MHz"` | `"20 MHz"`, `"40 MHz"`, `"80 MHz"`, `"160 MHz"`
        width;
        /// 2; a, g: 1 | spatial streams: up to 4 (n), 8 (ac, ax)
        streams;
        /// {} | guard interval; n, ac also `"0.4 us"`, ax `"1.6 us"`, `"3.2 us"`
        guard: GuardName = GuardName::Normal;
        /// required; as `snr` | signal-to-noise ratio in dB, down and up
        snr, snr_up;
        /// | instead of `snr`: probability that an attempt of a frame fails
        frame_loss, frame_loss_up;
        /// `"minstrel"`, with `mcs` `"fixed"` | rate control
        control;
        /// required if fixed | 0 to 7 (n), 9 (ac), 11 (ax); a, g: 0 to 7 for 6 to 54 Mbps
        mcs;
        /// 64; ax: 256 | maximum frames of a transmission; not for a, g
        frames;
        /// {} | attempts of a frame after the first
        retries: Whole<0, 255> = Whole(7);
        /// {} | size above which RTS and CTS precede
        rts: Or<Off, ByteSize> = None.into();
        /// 3; a, g: 2 | slots of the interframe space
        aifsn;
        /// {} | next receiver of an access point: fair air time; `"transmissions"`: each in turn; `"arrival"`: that of the
        /// oldest frame, as with one queue for all. Equal on a channel, as are `band`, `eifs`, `ack_timeout`,
        /// `beacon`
        turns: TurnsName = TurnsName::Airtime;
        /// {} | EIFS of others after a collision; `"off"`: they recognise no frame in it
        eifs: Switch = Switch::On;
        /// {} | senders wait until they miss an acknowledgment; `"off"`: as in Bianchi's model
        ack_timeout: Switch = Switch::On;
        /// {} | interval of beacons, or `"off"`
        beacon: Or<Off, Duration> = Some(Duration::from_micros(102_400)).into();
    }
}

/// Names of the standards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StandardName {
    A,
    G,
    N,
    Ac,
    Ax,
}

/// Channel width.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Width {
    Mhz20 = 20,
    Mhz40 = 40,
    Mhz80 = 80,
    Mhz160 = 160,
}

/// Names of [`Band`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BandName {
    Ghz2,
    Ghz5,
}

/// Names of [`Guard`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GuardName {
    Short,
    Normal,
    Double,
    Quadruple,
}

/// Names of [`Control`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ControlName {
    Minstrel,
    Fixed,
}

/// Names of [`Turns`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TurnsName {
    Airtime,
    Transmissions,
    Arrival,
}

choices! {
    StandardName { "a" = A, "g" = G, "n" = N, "ac" = Ac, "ax" = Ax }
    BandName { "2.4 GHz" = Ghz2, "5 GHz" = Ghz5 }
    Width { "20 MHz" = Mhz20, "40 MHz" = Mhz40, "80 MHz" = Mhz80, "160 MHz" = Mhz160 }
    GuardName { "0.4 us" = Short, "0.8 us" = Normal, "1.6 us" = Double, "3.2 us" = Quadruple }
    ControlName { "minstrel" = Minstrel, "fixed" = Fixed }
    TurnsName { "airtime" = Airtime, "transmissions" = Transmissions, "arrival" = Arrival }
}

/// Returns the default queue of a station: that of Linux's mac80211 (`fq_init` in `include/net/fq_impl.h`,
/// `__sta_info_alloc` in `net/mac80211/sta_info.c`).
pub(crate) fn queue() -> QueueSpec {
    QueueSpec::FqCoDel(FqCoDelConfig {
        limit: 8_192,
        quantum: 300,
        flows: 4_096,
        memory_limit: 16 << 20,
        codel: CoDelConfig { target: Duration::from_millis(20), ecn: Switch::On, ..CoDelConfig::default() },
        ..FqCoDelConfig::default()
    })
}

/// The channels of a scenario, by their numbers.
#[derive(Default)]
pub(crate) struct Channels(Vec<Channel>);

/// A channel that a link uses.
struct Channel {
    name: String,
    spec: WifiSpec,
    band: Band,
}

impl Channels {
    /// Reads the medium of a link over Wi-Fi.
    pub(crate) fn medium(&mut self, link: &Reader<'_>) -> Result<Medium, Error> {
        let Line(name) = link.or(LinkKeys::channel, Line("wifi".to_owned()), "default")?;
        let wifi = read(link)?;
        let (spec, band) = (wifi.channel, wifi.transmitters[0].phy.band);
        let number = self.0.iter().position(|known| known.name == name).unwrap_or_else(|| {
            self.0.push(Channel { name, spec, band });
            self.0.len() - 1
        });
        let known = &self.0[number];
        if (known.spec, known.band) != (spec, band) {
            let message = format!(
                "turns, eifs, ack_timeout, beacon and band must be the same on all links of channel {}; give them equal \
                 values, or another channel",
                quote(&known.name)
            );
            return Err(link.fail(LinkKeys::wifi, Problem::Conflict(message)));
        }
        // There are no more channels than links.
        Ok(Medium::Wifi { channel: number as u32, wifi })
    }
}

/// Reads the table `wifi` of a link.
fn read(link: &Reader<'_>) -> Result<WifiLink, Error> {
    let reader = link.section(LinkKeys::wifi)?;
    reader.allow(Keys::NAMES)?;
    let phy = phy(&reader)?;
    let [loss, loss_up] = losses(&reader)?;
    let control = control(&reader, &phy)?;
    let Or(rts, _) = reader.value(Keys::rts)?;
    let rts = rts.map(|ByteSize(bytes)| u32::try_from(bytes).unwrap_or(u32::MAX));
    let Whole(retries) = reader.value(Keys::retries)?;
    let frames = if phy.aggregates() {
        let Whole(frames) = reader.or(Keys::frames, Whole::<1, 1_024>(phy.acknowledged_at_once()), "default")?;
        frames
    } else if reader.has(Keys::frames) {
        let message = "802.11a and g do not aggregate frames; remove it, or choose a later standard".to_owned();
        return Err(reader.fail(Keys::frames, Problem::Conflict(message)));
    } else {
        1
    };
    let Whole(aifsn) = reader.or(Keys::aifsn, Whole::<1, 15>(phy.aifsn()), "default")?;
    let transmitter = |loss| TransmitterSpec { phy, loss, control, rts, retries, frames, aifsn };
    Ok(WifiLink { channel: channel(&reader)?, transmitters: [transmitter(loss), transmitter(loss_up)] })
}

/// Reads the keys that all links of a channel must have in common.
fn channel(reader: &Reader<'_>) -> Result<WifiSpec, Error> {
    let turns = match reader.value(Keys::turns)? {
        TurnsName::Airtime => Turns::Airtime,
        TurnsName::Transmissions => Turns::Transmissions,
        TurnsName::Arrival => Turns::Arrival,
    };
    let eifs = reader.value(Keys::eifs)?;
    let ack_timeout = reader.value(Keys::ack_timeout)?;
    let Or(beacon, _) = reader.value(Keys::beacon)?;
    if beacon.is_some_and(|interval| interval < Duration::from_millis(10)) {
        return Err(reader.refuse(Keys::beacon, "a time of at least 10 ms", ""));
    }
    Ok(WifiSpec { turns, eifs, ack_timeout, beacon })
}

fn phy(reader: &Reader<'_>) -> Result<Phy, Error> {
    let name = reader.value(Keys::standard)?;
    let standard = match name {
        StandardName::A | StandardName::G => Standard::Ofdm,
        StandardName::N => Standard::Ht,
        StandardName::Ac => Standard::Vht,
        StandardName::Ax => Standard::He,
    };
    let usual = if name == StandardName::G { BandName::Ghz2 } else { BandName::Ghz5 };
    let band = match reader.or(Keys::band, usual, "default")? {
        BandName::Ghz2 => Band::Ghz2,
        BandName::Ghz5 => Band::Ghz5,
    };
    let bad_band = match name {
        StandardName::A | StandardName::Ac => (band != Band::Ghz5).then_some("\"5 GHz\""),
        StandardName::G => (band != Band::Ghz2).then_some("\"2.4 GHz\""),
        StandardName::N | StandardName::Ax => None,
    };
    if let Some(expected) = bad_band {
        return Err(reader.refuse(
            Keys::band,
            expected,
            format!("802.11{} has no other band", name.show().trim_matches('"')),
        ));
    }
    let widest = match standard {
        Standard::Ofdm => Width::Mhz20,
        Standard::Ht => Width::Mhz40,
        Standard::Vht | Standard::He => Width::Mhz160,
    };
    let usual = match (standard, band) {
        (Standard::Vht | Standard::He, Band::Ghz5) => Width::Mhz80,
        _ => Width::Mhz20,
    };
    let width = reader.or(Keys::width, usual, "default")?;
    if width > widest {
        return Err(reader.refuse(
            Keys::width,
            format!("at most {}", widest.show()),
            "the standard has no wider channel",
        ));
    }
    let most = match standard {
        Standard::Ofdm => 1,
        Standard::Ht => 4,
        Standard::Vht | Standard::He => 8,
    };
    let Whole(streams) = reader.or(Keys::streams, Whole::<1, 8>(most.min(2)), "default")?;
    if streams > most {
        return Err(reader.refuse(Keys::streams, format!("at most {most} with this standard"), ""));
    }
    let guard = match reader.value(Keys::guard)? {
        GuardName::Short => Guard::Short,
        GuardName::Normal => Guard::Normal,
        GuardName::Double => Guard::Double,
        GuardName::Quadruple => Guard::Quadruple,
    };
    let fits = match guard {
        Guard::Normal => true,
        Guard::Short => matches!(standard, Standard::Ht | Standard::Vht),
        Guard::Double | Guard::Quadruple => standard == Standard::He,
    };
    if !fits {
        let expected = match standard {
            Standard::Ofdm => "\"0.8 us\"",
            Standard::Ht | Standard::Vht => "\"0.4 us\" or \"0.8 us\"",
            Standard::He => "\"0.8 us\", \"1.6 us\" or \"3.2 us\"",
        };
        return Err(reader.refuse(Keys::guard, expected, "the standard has no other"));
    }
    Ok(Phy { standard, band, width: width as u32, streams, guard })
}

/// Reads the loss of frames on the air: down, up.
fn losses(reader: &Reader<'_>) -> Result<[FrameLoss; 2], Error> {
    if let (true, Some(other)) =
        (reader.has(Keys::snr), [Keys::frame_loss, Keys::frame_loss_up].into_iter().find(|key| reader.has(*key)))
    {
        let message = "snr already decides the loss of frames; remove one of the two".to_owned();
        return Err(reader.fail(other, Problem::Conflict(message)));
    }
    if reader.has(Keys::frame_loss) {
        if reader.has(Keys::snr_up) {
            let message = "requires snr; remove it, or give both ways as frame_loss and frame_loss_up".to_owned();
            return Err(reader.fail(Keys::snr_up, Problem::Conflict(message)));
        }
        let loss = reader.required::<Fraction>(Keys::frame_loss)?;
        let up = reader.or_derived(Keys::frame_loss_up, loss, "as frame_loss")?;
        return Ok([loss, up].map(|loss| FrameLoss::Fixed(loss.get())));
    }
    let decibels = |key: Key, value: f64| {
        if value.abs() <= 100.0 { Ok(value) } else { Err(reader.refuse(key, "decibels from -100 to 100", "")) }
    };
    if !reader.has(Keys::snr) {
        let expected = "the signal-to-noise ratio in dB, e.g. 25, or frame_loss, e.g. \"5 %\"".to_owned();
        return Err(reader.fail(Keys::snr, Problem::Missing { expected }));
    }
    let Number(snr) = reader.required(Keys::snr)?;
    let Number(up) = reader.or_derived(Keys::snr_up, Number(snr), "as snr")?;
    Ok([FrameLoss::Snr(decibels(Keys::snr, snr)?), FrameLoss::Snr(decibels(Keys::snr_up, up)?)])
}

fn control(reader: &Reader<'_>, phy: &Phy) -> Result<Control, Error> {
    let fixed = reader.has(Keys::mcs);
    match reader.or(Keys::control, if fixed { ControlName::Fixed } else { ControlName::Minstrel }, "default")? {
        ControlName::Minstrel if fixed => {
            let message = "requires control = \"fixed\"; minstrel chooses the rate itself".to_owned();
            Err(reader.fail(Keys::mcs, Problem::Conflict(message)))
        }
        ControlName::Minstrel => Ok(Control::Minstrel),
        ControlName::Fixed => {
            let Whole(mcs) = reader.required::<Whole<0, 11>>(Keys::mcs)?;
            let most = u32::from(phy.rates()) - 1;
            if mcs > most {
                return Err(reader.refuse(Keys::mcs, format!("a number from 0 to {most}"), ""));
            }
            Ok(Control::Fixed(RateIndex(mcs as u8)))
        }
    }
}
