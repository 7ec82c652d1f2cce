//! `kind = "srp"`: a split connection whose wireless half is selective repeat over datagrams, at both ends of the link.

use std::sync::Arc;

use lasthop_proto::link::arq::Timer;
use lasthop_proto::node::Node;
use lasthop_proto::pep::srp::{SrpConfig, SrpEnd};
use lasthop_proto::scheme::Scheme;
use lasthop_proto::tcp::config::{Nagle, TcpConfig};
use lasthop_proto::time::Duration;
use lasthop_sim::element::{AnyElement, Element, Ends, Role, Site};
use lasthop_sim::sim::tick_phase;

use super::arq::timer;
use super::part::{AnyPart, Beyond, Duty, Kind, Part};
use super::split::{Keys as RelayKeys, Relay, endpoint, relay_end};
use crate::Error;
use crate::reader::Reader;
use crate::tcp::TcpSpec;
use crate::values::{Off, Or, Positive, Whole};

pub(super) static KIND: Kind = Kind {
    name: "srp",
    keys: &[Keys::NAMES, key_names!(RelayKeys: split_buffer, wired_tcp)],
    rows: &[],
    ends: Ends::Both,
    read: |reader, common| {
        let keys = read(reader)?;
        let (buffer, wired) = relay_end(reader, common)?;
        Ok(AnyPart::new(SrpPart { keys, buffer, wired }))
    },
};

keys! {
    /// Keys of selective repeat below a split connection.
    pub(crate) Keys {
        window: Whole<1, 32_768> = Whole(32);
        // IPv4, UDP, the number of selective repeat, the session and the datagram's fields, rounded up to a multiple of
        // four.
        header: Whole<0, 64> = Whole(40);
        timer, timer_min;
        nack_again: Or<Off, Positive<Duration>> = Some(Positive(Duration::from_millis(100))).into();
    }
}

/// One end of the wireless half.
#[derive(Clone, PartialEq, Debug)]
pub struct Srp {
    /// Configuration of the protocol on the link.
    pub config: SrpConfig,
    /// Endpoint that faces this end's own side.
    pub tcp: Arc<TcpConfig>,
}

/// Settings of the protocol in a scenario.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SrpSettings {
    window: u16,
    header: u16,
    timer: Timer,
    nack_again: Option<Duration>,
}

/// The protocol, and the base station's endpoint towards the wire.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SrpPart {
    keys: SrpSettings,
    buffer: u32,
    wired: TcpSpec,
}

impl SrpPart {
    /// Creates the part, with the base station's settings for all split connections.
    pub(crate) fn new(keys: &SrpSettings, relay: &Relay) -> Self {
        Self { keys: keys.clone(), buffer: relay.buffer, wired: relay.wired.clone() }
    }
}

/// Reads the keys from a table, which may be absent.
pub(crate) fn read(reader: &Reader<'_>) -> Result<SrpSettings, Error> {
    let Whole(window) = reader.value(Keys::window)?;
    let Whole(header) = reader.value(Keys::header)?;
    let timer =
        timer(reader, [Keys::timer, Keys::timer_min], Timer::Estimated { min: Duration::from_millis(200) }, "default")?;
    let Or(nack_again, _) = reader.value(Keys::nack_again)?;
    let nack_again = nack_again.map(|Positive(span)| span);
    Ok(SrpSettings { window: window as u16, header: header as u16, timer, nack_again })
}

impl Part for SrpPart {
    fn place(&self, scheme: &Scheme, _: &mut Beyond<'_>) -> AnyElement {
        let SrpSettings { window, header, timer, nack_again } = self.keys;
        AnyElement::new(Srp {
            config: SrpConfig { window, header, timer, nack_again, buffer: self.buffer },
            tcp: Arc::new(Duty::of(scheme.recovery).apply(&self.wired)),
        })
    }
}

impl Element for Srp {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn role(&self) -> Role {
        Role::Relay
    }

    fn ends(&self) -> Ends {
        Ends::Both
    }

    /// Returns the mobile host's end. There is no network between it and the host's TCP, so data is passed on at once.
    fn at_other_end(&self) -> Option<AnyElement> {
        let initial_window = (self.config.buffer / self.tcp.common.mss.max(1)).max(1);
        let tcp = TcpConfig::clone(&self.tcp).with(|c| {
            c.common.initial_window = initial_window;
            c.common.nagle = Nagle::Off;
        });
        Some(AnyElement::new(Self { tcp: Arc::new(tcp), ..self.clone() }))
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Node<()>> {
        let phase = tick_phase(site.root, site.node, &self.tcp);
        SrpEnd::boxed(self.config.clone(), self.tcp.clone(), phase)
    }

    fn describe(&self) -> String {
        let window = self.config.window;
        format!("split: {} here; selective repeat of {window} datagrams on the link", endpoint(&self.tcp))
    }

    fn endpoints(&self) -> Option<[&Arc<TcpConfig>; 2]> {
        Some([&self.tcp, &self.tcp])
    }
}
