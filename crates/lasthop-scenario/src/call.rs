//! Keys of a call.

use lasthop_proto::time::{Duration, Instant};
use lasthop_sim::apps::{CallConfig, Codec};

use crate::document::Data;
use crate::key::Key;
use crate::reader::{Reader, Value};
use crate::shared_keys::OnOffKeys;
use crate::units::ByteSize;
use crate::values::{Positive, Whole, choices};
use crate::{Error, Problem};

keys! {
    /// Keys that only a call has.
    pub(crate) Keys {
        /// {} | `"g711"`, `"g711-plc"` (loss concealment), `"g729a"`, `"g723.1"` (6.3 kbps), `"gsm-efr"`
        codec: CodecName = CodecName::G711Plc;
        /// by codec: 20 ms, G.723.1 30 ms; 160, 160, 20, 24, 31 B | packet interval, 1 ms to 10 s; payload; headers add
        /// 40 bytes
        interval, payload;
        /// by codec: 0 and 4.3, 0 and 25.1, 11 and 19, 15 and 16.1, 5 and 10 | impairment, 0 to 95; loss robustness, 1 to
        /// 1000 (ITU-T G.113)
        ie, bpl;
        /// | for video, instead: frames per second, 1 to 1000; bytes per frame, up to 1 MiB
        frame_rate, frame;
        /// {} | playout delay; later packets are useless
        deadline: Positive<Duration> = Positive(Duration::from_millis(150));
    }
}

/// Keys of speech.
const SPEECH: [Key; 5] = [Keys::codec.plain(), Keys::interval, Keys::payload, Keys::ie, Keys::bpl];

/// Keys of frames that take several packets.
const FRAMES: [Key; 3] = [Keys::frame_rate, Keys::frame, OnOffKeys::packet];

/// Maximum bytes of a packet after the headers of IPv4, UDP and RTP.
const LARGEST_PAYLOAD: u64 = 65_495;

/// Maximum number of packets of a call in a run.
const MOST_PACKETS: u64 = 100_000_000;

/// Name of a codec for speech.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CodecName {
    G711,
    G711Plc,
    G729a,
    G7231,
    GsmEfr,
}

choices! {
    CodecName { "g711" = G711, "g711-plc" = G711Plc, "g729a" = G729a, "g723.1" = G7231, "gsm-efr" = GsmEfr }
}

impl CodecName {
    /// Returns Ie and Bpl: ITU-T G.113 (11/2007), Appendix I.
    const fn codec(self) -> Codec {
        let (ie, bpl) = match self {
            Self::G711 => (0.0, 4.3),
            Self::G711Plc => (0.0, 25.1),
            Self::G729a => (11.0, 19.0),
            Self::G7231 => (15.0, 16.1),
            Self::GsmEfr => (5.0, 10.0),
        };
        Codec { ie, bpl }
    }

    /// Returns the usual interval in milliseconds and size in bytes of its packets: two frames of G.729, one of the
    /// others.
    const fn packet(self) -> (u64, u64) {
        match self {
            Self::G711 | Self::G711Plc => (20, 160),
            Self::G729a => (20, 20),
            Self::G7231 => (30, 24),
            Self::GsmEfr => (20, 31),
        }
    }
}

/// A factor of the E-model.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Factor<const LOW: u32, const HIGH: u32>(f64);

impl<const LOW: u32, const HIGH: u32> Value for Factor<LOW, HIGH> {
    fn expected() -> String {
        format!("a number from {LOW} to {HIGH}")
    }
    fn read(data: &Data) -> Result<Self, String> {
        let value = match data {
            Data::Integer(number) => *number as f64,
            Data::Float(number) => *number,
            _ => return Err(String::new()),
        };
        if (f64::from(LOW)..=f64::from(HIGH)).contains(&value) { Ok(Self(value)) } else { Err(String::new()) }
    }
    fn show(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Reads the keys of a call in a run that ends at `limit`.
pub(crate) fn read(reader: &Reader<'_>, limit: Instant) -> Result<CallConfig, Error> {
    let found = |keys: &[Key]| keys.iter().copied().find(|key| reader.has(key));
    let config = match (found(&FRAMES), found(&SPEECH)) {
        (Some(frame), Some(speech)) => {
            let message = format!(
                "{frame} makes frames of several packets, to which {speech} does not apply; remove one of them"
            );
            return Err(reader.fail(speech, Problem::Conflict(message)));
        }
        (Some(_), None) => frames(reader)?,
        (None, _) => speech(reader)?,
    };
    let packets = limit.as_nanos() / config.interval.as_nanos().max(1) * u64::from(config.packets());
    if packets > MOST_PACKETS {
        let key = if config.codec.is_some() { Keys::interval } else { Keys::frame_rate };
        let message = format!("{packets} packets up to the run's limit; at most {MOST_PACKETS} are supported");
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    Ok(config)
}

/// Reads the playout deadline of packets. ITU-T G.114 considers delays of up to 150 ms good for most users.
fn deadline(reader: &Reader<'_>) -> Result<Duration, Error> {
    let Positive(deadline) = reader.value(Keys::deadline)?;
    Ok(deadline)
}

fn speech(reader: &Reader<'_>) -> Result<CallConfig, Error> {
    let name = reader.value(Keys::codec)?;
    let (interval, payload) = name.packet();
    let from = format!("codec = {}", name.show());
    let Positive(interval) = reader.or_derived(Keys::interval, Positive(Duration::from_millis(interval)), &from)?;
    if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&interval) {
        return Err(reader.refuse(Keys::interval, "a time from 1 ms to 10 s", ""));
    }
    let payload =
        bytes(reader, Keys::payload, reader.or_derived(Keys::payload, ByteSize(payload), &from)?, LARGEST_PAYLOAD)?;
    let Codec { ie, bpl } = name.codec();
    let Factor(ie) = reader.or_derived::<Factor<0, 95>>(Keys::ie, Factor(ie), &from)?;
    let Factor(bpl) = reader.or_derived::<Factor<1, 1000>>(Keys::bpl, Factor(bpl), &from)?;
    let codec = Some(Codec { ie, bpl });
    Ok(CallConfig { interval, frame: payload, packet: payload, deadline: deadline(reader)?, codec })
}

fn frames(reader: &Reader<'_>) -> Result<CallConfig, Error> {
    let Whole(rate) = reader.required::<Whole<1, 1000>>(Keys::frame_rate)?;
    let frame = bytes(reader, Keys::frame, reader.required(Keys::frame)?, 1 << 20)?;
    let packet =
        bytes(reader, OnOffKeys::packet, reader.or(OnOffKeys::packet, ByteSize(1200), "default")?, LARGEST_PAYLOAD)?;
    let interval = Duration::from_nanos(1_000_000_000 / u64::from(rate));
    Ok(CallConfig { interval, frame, packet, deadline: deadline(reader)?, codec: None })
}

fn bytes(reader: &Reader<'_>, key: Key, size: ByteSize, most: u64) -> Result<u32, Error> {
    match u32::try_from(size.0) {
        Ok(bytes) if bytes > 0 && size.0 <= most => Ok(bytes),
        _ => Err(reader.refuse(key, format!("a number of bytes from 1 to {most}"), "")),
    }
}
