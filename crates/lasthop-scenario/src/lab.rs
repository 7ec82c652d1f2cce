//! Settings that only the lab uses, with real packets.

use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Duration;

use crate::Error;
use crate::nodes::Nodes;
use crate::reader::{Reader, Value};
use crate::shared_keys::RootKeys;
use crate::values::{ByScheme, Or, Positive, Text, choices};

/// TCP implementation of a host in the lab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Endpoints {
    /// The kernel's if a kernel supports the scheme at this host, otherwise the simulator's.
    Auto,
    /// The kernel's.
    Kernel,
    /// The simulator's.
    Own,
}

/// Settings of the kernel's TCP, if they differ from the scenario's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelSettings {
    /// Values closest to the scenario's.
    Scenario,
    /// Defaults of the kernel.
    Kernel,
}

choices! {
    Endpoints { "auto" = Auto, "kernel" = Kernel, "own" = Own }
    KernelSettings { "scenario" = Scenario, "kernel" = Kernel }
}

/// Settings of the lab.
#[derive(Clone, PartialEq, Debug)]
pub struct LabSpec {
    /// TCP implementation per host, in the scenario's order.
    pub endpoints: Vec<Endpoints>,
    /// TCP implementation of the relays of split connections.
    pub relays: Endpoints,
    /// Name of the kernel's congestion control; `None` means that of the scheme and the scenario's TCP.
    pub congestion: Option<String>,
    /// Selective acknowledgments; `None` means that of the scheme.
    pub sack: Option<Switch>,
    /// Multipath TCP over the links of bundles, at all hosts.
    pub mptcp: Switch,
    /// Timers, initial window and options of the kernel's TCP.
    pub settings: KernelSettings,
    /// Maximum 99th percentile of the scheduling delay of frames on the emulated links. Above it, a run is void.
    pub lateness: Duration,
}

keys! {
    /// Keys of the lab.
    pub(crate) Keys {
        /// {} | TCP of hosts and relays: `"kernel"`, `"own"` (lasthop's), `"auto"`: the kernel's if it supports the
        /// scheme
        endpoints: Endpoints = Endpoints::Auto;
        hosts;
        /// {} | the kernel's; `"scheme"`: that of the scheme where `recovery` is `rack`, otherwise `"reno"`
        congestion: Or<ByScheme, Congestion> = None.into();
        /// {} | `"on"`, `"off"`; `"scheme"`: on where `recovery` is `sack`
        sack: Or<ByScheme, Switch> = None.into();
        /// {} | `"on"`: the kernel's Multipath TCP (RFC 8684) over all links of a bundle, for schemes without elements on it
        mptcp: Switch = Switch::Off;
        /// {} | timers, initial window, options as close to `[tcp]` as possible; `"kernel"`: not. `mss` and buffers
        /// always follow
        settings: KernelSettings = KernelSettings::Scenario;
        /// {} | a run is void, and repeated, if 1 % of its frames leave an emulated link later than this
        lateness: Positive<Duration> = Positive(Duration::from_millis(1));
    }

    /// Keys of a host in the lab.
    pub(crate) LabHostKeys {
        /// as `endpoints` | of one host
        endpoints;
    }
}

/// Reads `[lab]`, which may be absent.
pub(crate) fn read(root: &Reader<'_>, nodes: &Nodes) -> Result<LabSpec, Error> {
    let reader = root.section(RootKeys::lab)?;
    reader.allow(Keys::NAMES)?;
    let common = reader.value(Keys::endpoints)?;
    let mut endpoints = vec![common; nodes.hosts.len()];
    for (name, own) in reader.named(Keys::hosts)? {
        let Some(host) = nodes.host(&name) else {
            let hosts = nodes.hosts.iter().map(|host| host.name.as_str());
            return Err(reader.section(Keys::hosts)?.unknown_name(&name, "host", &name, hosts));
        };
        own.allow(LabHostKeys::NAMES)?;
        endpoints[host] = own.required(LabHostKeys::endpoints)?;
    }
    let source = "default: the scenario's if a kernel has it, otherwise reno";
    let Or(congestion, _) = reader.value_from(Keys::congestion, source)?;
    let congestion = congestion.map(|Congestion(name)| name);
    let Or(sack, _) = reader.value_from(Keys::sack, "default: on if recovery is sack")?;
    let mptcp = reader.value(Keys::mptcp)?;
    let settings = reader.value(Keys::settings)?;
    let Positive(lateness) = reader.value(Keys::lateness)?;
    Ok(LabSpec { endpoints, relays: common, congestion, sack, mptcp, settings, lateness })
}

/// Name that may be a congestion control of a kernel.
struct Congestion(String);

impl Value for Congestion {
    fn expected() -> String {
        "the name of a kernel's congestion control, e.g. \"reno\", \"cubic\" or \"bbr\"".to_owned()
    }
    fn read(data: &crate::document::Data) -> Result<Self, String> {
        // TCP_CA_NAME_MAX is 16, including the terminating zero.
        const LONGEST: usize = 15;
        let Text(name) = Text::read(data)?;
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if plain && (1..=LONGEST).contains(&name.len()) { Ok(Self(name)) } else { Err(String::new()) }
    }
    fn show(&self) -> String {
        crate::document::quote(&self.0)
    }
}
