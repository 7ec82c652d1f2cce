//! What holds only where real packets run: in the lab.

use lasthop_proto::tcp::config::Switch;
use lasthop_proto::time::Duration;

use crate::error::Error;
use crate::nodes::Nodes;
use crate::reader::{Reader, Value};
use crate::values::{ByScheme, Choice, Or, Positive, Text, choices};

/// Whose TCP a host of the lab runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Endpoints {
    /// The kernel's where a kernel has what the scheme asks of the host, otherwise that of the simulator.
    Auto,
    /// The kernel's.
    Kernel,
    /// That of the simulator.
    Own,
}

/// What the kernel's TCP is set to, where the scenario's TCP and the kernel's differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelSettings {
    /// What comes nearest to the scenario's.
    Scenario,
    /// What the kernel comes with.
    Kernel,
}

choices! {
    Endpoints { "auto" = Auto, "kernel" = Kernel, "own" = Own }
    KernelSettings { "scenario" = Scenario, "kernel" = Kernel }
}

/// How the lab runs a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct LabSpec {
    /// Whose TCP, host by host, in the order in which the scenario names them.
    pub endpoints: Vec<Endpoints>,
    /// Whose TCP the relays of split connections run.
    pub relays: Endpoints,
    /// Name of the kernel's congestion control; `None` leaves it to the scheme and the scenario's TCP.
    pub congestion: Option<String>,
    /// Selective acknowledgments; `None` leaves it to the scheme.
    pub sack: Option<Switch>,
    /// Timers, initial window and options of the kernel's TCP.
    pub settings: KernelSettings,
    /// A run is void when the 99th percentile of how late frames left the emulated links is above this.
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
    let source = "default: the scenario's where a kernel has it, otherwise reno";
    let Or(congestion, _) = reader.or::<Or<ByScheme, Congestion>>("congestion", None.into(), source)?;
    let congestion = congestion.map(|Congestion(name)| name);
    let Or(sack, _) = reader.or::<Or<ByScheme, Switch>>("sack", None.into(), "default: on where recovery is sack")?;
    let settings = reader.or("settings", KernelSettings::Scenario, "default")?;
    let Positive(lateness) = reader.or("lateness", Positive(Duration::from_millis(1)), "default")?;
    Ok(LabSpec { endpoints, relays: common, congestion, sack, settings, lateness })
}

/// A name that a kernel may know.
struct Congestion(String);

impl Value for Congestion {
    fn expected() -> String {
        "the name of a kernel's congestion control, as \"reno\", \"cubic\" or \"bbr\"".to_owned()
    }
    fn read(data: &crate::document::Data) -> Result<Self, String> {
        // TCP_CA_NAME_MAX is 16, with the zero at the end.
        const LONGEST: usize = 15;
        let Text(name) = Text::read(data)?;
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if plain && (1..=LONGEST).contains(&name.len()) { Ok(Self(name)) } else { Err(String::new()) }
    }
    fn show(&self) -> String {
        crate::document::quote(&self.0)
    }
}
