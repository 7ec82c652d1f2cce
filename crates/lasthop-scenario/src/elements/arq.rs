//! `kind = "arq"`: a link protocol, at both ends of its link.

use lasthop_proto::link::arq::{self, ArqConfig, Delivery, Protocol, Timer};
use lasthop_proto::node::Node;
use lasthop_proto::scheme::Scheme;
use lasthop_proto::time::Duration;
use lasthop_sim::Bytes;
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};

use super::part::{AnyPart, Beyond, Kind, Part};
use crate::key::Key;
use crate::reader::Reader;
use crate::values::{Count, Estimated, Off, Or, Positive, Unlimited, Whole, choices};
use crate::{Error, Problem};

pub(super) static KIND: Kind = Kind {
    name: "arq",
    keys: &[Keys::NAMES],
    rows: &[],
    ends: Ends::Both,
    read: |reader, _| Ok(AnyPart::new(Arq(read(reader)?))),
};

/// One end of automatic repeat request.
#[derive(Clone, PartialEq, Debug)]
pub struct Arq(pub ArqConfig);

impl Part for Arq {
    fn place(&self, _: &Scheme, _: &mut Beyond<'_>) -> AnyElement {
        AnyElement::new(self.clone())
    }
}

impl Element for Arq {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::LinkEnd
    }

    fn build(&self, _: &Site<'_>) -> Box<dyn Node<()>> {
        arq::Arq::boxed(self.0.clone())
    }

    fn build_on_bytes(&self, _: &Site<'_>) -> Option<Box<dyn Node<Bytes> + Send>> {
        Some(Box::new(arq::Arq::<Bytes>::new(self.0.clone())))
    }

    fn describe(&self) -> String {
        "selective repeat with the other end of the link".to_owned()
    }
}

keys! {
    /// Keys of a link protocol.
    pub(crate) Keys {
        /// none | of the keys below: `"cdma"`, `"tdma"` ([presets](models/arq.md#presets))
        preset;
        /// {} | or `"go-back-n"`, `"stop-and-wait"`
        protocol: Protocol = DEFAULT.protocol;
        /// {} | unacknowledged frames, 1 to 32768; bytes added to a frame, and of a control frame
        window: Whole<1, 32_768> = Whole(DEFAULT.window.into()), header: Whole<0, 64> = Whole(DEFAULT.header.into());
        /// `"900 ms"`, `"200 ms"` | retransmission timer; `"estimated"`: as RFC 6298, and its minimum
        timer, timer_min;
        /// {} | interval at which the receiver repeats a request
        nack_again: Or<Off, Positive<Duration>> = DEFAULT.nack_again.map(Positive).into();
        /// {} | per frame, which is then abandoned
        max_retransmissions: Or<Unlimited, Whole<0, 1000>> = DEFAULT.max_retransmissions.map(Whole).into();
        /// {} | `"immediate"`: also behind a gap
        delivery: Delivery = DEFAULT.delivery;
        /// {} | packets waiting for the window; the excess is dropped
        queue: Count = Whole(DEFAULT.queue);
    }
}

/// Defaults: the values that fit the second study best (docs/models/arq.md).
const DEFAULT: ArqConfig = ArqConfig {
    protocol: Protocol::SelectiveRepeat,
    window: 16,
    header: 4,
    timer: Timer::Fixed(Duration::from_millis(900)),
    nack_again: None,
    max_retransmissions: None,
    delivery: Delivery::InOrder,
    queue: 50,
};

/// Link protocols of digital cellular systems, as values of the other keys (docs/models/arq.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkPreset {
    /// Retransmission on request, at most three times: IS-99 and IS-707.
    Cdma,
    /// Retransmission until a frame has arrived, and in-order delivery: GSM 04.22, IS-130.
    Tdma,
}

choices! {
    LinkPreset { "cdma" = Cdma, "tdma" = Tdma }
}

impl LinkPreset {
    /// Returns the preset's values.
    pub const fn config(self) -> ArqConfig {
        match self {
            // The receiver requests a frame as soon as it detects a gap, and twice more; the sender keeps it until
            // then.
            Self::Cdma => ArqConfig {
                window: 128,
                timer: Timer::Estimated { min: Duration::from_millis(200) },
                nack_again: Some(Duration::from_millis(200)),
                max_retransmissions: Some(3),
                ..DEFAULT
            },
            // GSM's T1 is for frames of 20 ms; packets take longer on a slow link, and a window of them much longer.
            Self::Tdma => {
                let timer = Timer::Estimated { min: Duration::from_millis(480) };
                ArqConfig { window: 61, timer, ..DEFAULT }
            }
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::Cdma => "preset cdma",
            Self::Tdma => "preset tdma",
        }
    }
}

/// Reads the keys of a link protocol from a table, which may be absent.
pub(crate) fn read(reader: &Reader<'_>) -> Result<ArqConfig, Error> {
    let preset = reader.get::<LinkPreset>(Keys::preset)?;
    let (base, source) = preset.map_or((DEFAULT, "default"), |preset| (preset.config(), preset.source()));
    let protocol = reader.or(Keys::protocol, base.protocol, source)?;
    let Whole(window) = reader.or::<Whole<1, 32_768>>(Keys::window, Whole(base.window.into()), source)?;
    let Whole(header) = reader.or::<Whole<0, 64>>(Keys::header, Whole(base.header.into()), source)?;
    let timer = timer(reader, [Keys::timer, Keys::timer_min], base.timer, source)?;
    let again = base.nack_again.map(Positive);
    let Or(nack_again, _) = reader.or::<Or<Off, Positive<Duration>>>(Keys::nack_again, again.into(), source)?;
    let most = base.max_retransmissions.map(Whole);
    let Or(most, _) = reader.or::<Or<Unlimited, Whole<0, 1000>>>(Keys::max_retransmissions, most.into(), source)?;
    let delivery = reader.or(Keys::delivery, base.delivery, source)?;
    let Whole(queue) = reader.or::<Count>(Keys::queue, Whole(base.queue), source)?;
    Ok(ArqConfig {
        protocol,
        window: window as u16,
        header: header as u16,
        timer,
        nack_again: nack_again.map(|Positive(span)| span),
        max_retransmissions: most.map(|Whole(most)| most),
        delivery,
        queue,
    })
}

/// Reads `timer`, a time, or "estimated" with `timer_min`. The default is `default`, which comes from `source`.
pub(super) fn timer(
    reader: &Reader<'_>,
    [timer, timer_min]: [Key; 2],
    default: Timer,
    source: &str,
) -> Result<Timer, Error> {
    let (fixed, least) = match default {
        Timer::Fixed(span) => (Or(Some(Positive(span)), Estimated), Duration::from_millis(200)),
        Timer::Estimated { min } => (Or(None, Estimated), min),
    };
    Ok(match reader.or::<Or<Estimated, Positive<Duration>>>(timer, fixed, source)? {
        Or(Some(Positive(span)), _) => {
            if reader.has(timer_min) {
                let message = "requires timer = \"estimated\"".to_owned();
                return Err(reader.fail(timer_min, Problem::Conflict(message)));
            }
            Timer::Fixed(span)
        }
        Or(None, _) => {
            let Positive(min) = reader.or(timer_min, Positive(least), source)?;
            Timer::Estimated { min }
        }
    })
}
