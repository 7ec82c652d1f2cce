//! Settings that only the lab uses, with real packets.

use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Duration;

use crate::Error;
use crate::nodes::Nodes;
use crate::reader::{Reader, Value};
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
    /// Timers, initial window and options of the kernel's TCP.
    pub settings: KernelSettings,
    /// Maximum 99th percentile of frames' delays after their due time on the emulated links. Above it, a run is void.
    pub lateness: Duration,
}

const KEYS: [&str; 6] = ["endpoints", "hosts", "congestion", "sack", "settings", "lateness"];

/// Reads `[lab]`, which may be absent.
pub(crate) fn read(root: &Reader<'_>, nodes: &Nodes) -> Result<LabSpec, Error> {
    let reader = root.section("lab")?;
    reader.allow(&KEYS)?;
    let common = reader.or("endpoints", Endpoints::Auto, "default")?;
    let mut endpoints = vec![common; nodes.hosts.len()];
    for (name, own) in reader.named("hosts")? {
        let Some(host) = nodes.host(&name) else {
            let hosts = nodes.hosts.iter().map(|host| host.name.as_str());
            return Err(reader.section("hosts")?.unknown_name(&name, "host", &name, hosts));
        };
        own.allow(&["endpoints"])?;
        endpoints[host] = own.required("endpoints")?;
    }
    let source = "default: the scenario's if a kernel has it, otherwise reno";
    let Or(congestion, _) = reader.or::<Or<ByScheme, Congestion>>("congestion", None.into(), source)?;
    let congestion = congestion.map(|Congestion(name)| name);
    let Or(sack, _) = reader.or::<Or<ByScheme, Switch>>("sack", None.into(), "default: on if recovery is sack")?;
    let settings = reader.or("settings", KernelSettings::Scenario, "default")?;
    let Positive(lateness) = reader.or("lateness", Positive(Duration::from_millis(1)), "default")?;
    Ok(LabSpec { endpoints, relays: common, congestion, sack, settings, lateness })
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
