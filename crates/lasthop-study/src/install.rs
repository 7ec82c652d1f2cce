//! What an advice installs: the configuration of the cure, and what to do with it.

pub mod tunnel;

use lasthop_scenario::check_interface_name;
use lasthop_scenario::tunnel::Tunnel;

use self::tunnel::{End, configurations};
use crate::advise::{CURES, Cure, HopRates, Needs};

/// Where each end of the two-ended link keeps its private key, unless somebody says otherwise.
pub const KEY_FILE: &str = "/etc/lasthop/tunnel.key";
/// Keys in the place of those that are not made yet.
const ANY_KEYS: [&str; 2] =
    ["AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="];
/// The other end's file.
const FAR_FILE: &str = "tunnel-far.toml";

/// What is known of where a cure is to be installed.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    /// The gateway's interface towards the hop.
    pub interface: Option<String>,
    /// The end of the two-ended link in front of the hop, and the other one; a key that is empty is missing.
    pub near: End,
    /// The other one.
    pub far: End,
    /// The hop's rates.
    pub rates: Option<HopRates>,
}

/// What a cure installs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// Names and texts of the files.
    pub files: Vec<(&'static str, String)>,
    /// What to do with them, a command each.
    pub steps: Vec<String>,
}

/// Why nothing can be installed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Unfit {
    /// What is missing or wrong: `cure`, `interface`, `near`, `far`, `near-key`, `far-key`, `behind-near`, `behind-far`.
    pub what: &'static str,
    /// What would be right.
    pub message: String,
}

/// The files of the cure of that name at a site. Private keys are made there: the files name where they are.
///
/// # Errors
///
/// What is missing or wrong, and what would be right.
pub fn installed(cure: &str, site: &Site) -> Result<Installed, Unfit> {
    let known = CURES.iter().filter_map(|cure| Some((cure, file_name(cure.needs)?)));
    let Some((cure, file)) = known.clone().find(|(known, _)| known.scheme == cure) else {
        let names: Vec<_> = known.map(|(cure, _)| cure.scheme).collect();
        let message = format!("\"{cure}\" installs nothing; there are {}", names.join(", "));
        return Err(Unfit { what: "cure", message });
    };
    match cure.needs {
        Needs::Boxes => both_ends(site, file),
        Needs::Box => on_gateway(site, cure, file),
        Needs::Sender | Needs::Nothing => {
            let (text, step) = sender(file);
            Ok(Installed { files: vec![(file, text)], steps: vec![step] })
        }
    }
}

/// What an interface is wanted for, as a message ends.
const INTERFACE: &str = "give the gateway's interface towards the hop, as wlan0";

/// Whether a gateway's interface can be called that.
///
/// # Errors
///
/// Why not.
pub fn check_interface(name: &str) -> Result<(), Unfit> {
    let unfit = |why| Unfit { what: "interface", message: format!("\"{name}\": {why}; {INTERFACE}") };
    check_interface_name(name).map_err(unfit)
}

fn on_gateway(site: &Site, cure: &Cure, file: &'static str) -> Result<Installed, Unfit> {
    let missing = || Unfit { what: "interface", message: INTERFACE.to_owned() };
    let interface = site.interface.as_deref().ok_or_else(missing)?;
    check_interface(interface)?;
    let (text, _) = gateway(cure.scheme, interface, file);
    let steps = vec![format!("lasthop gateway check {file}"), format!("sudo lasthop gateway {file}")];
    Ok(Installed { files: vec![(file, text)], steps })
}

fn both_ends(site: &Site, file: &'static str) -> Result<Installed, Unfit> {
    for (what, end) in [("near-key", &site.near), ("far-key", &site.far)] {
        if end.public_key.is_empty() {
            let message =
                format!("give the public key of that end, which `lasthop tunnel keygen {}` prints there", end.key_file);
            return Err(Unfit { what, message });
        }
    }
    if site.near.host.is_none() && site.far.host.is_none() {
        let message = "give the host at which one of the ends is reached, as boat.example".to_owned();
        return Err(Unfit { what: "far", message });
    }
    let [near, far] = checked(&site.near, &site.far, site.rates)?;
    let step = |at, file| format!("{at}: lasthop tunnel check {file} && sudo lasthop tunnel run {file}");
    let steps = vec![step("in front of the hop", file), step("at the other end", FAR_FILE)];
    Ok(Installed { files: vec![(file, near), (FAR_FILE, far)], steps })
}

/// Both ends' configurations, such as the tunnel takes.
fn checked(near: &End, far: &End, rates: Option<HopRates>) -> Result<[String; 2], Unfit> {
    let texts = configurations(near, far, rates);
    // Each file has what was said of the other end.
    let said = [["far", "far-key", "behind-far"], ["near", "near-key", "behind-near"]];
    for (text, [host, key, behind]) in texts.iter().zip(said) {
        Tunnel::parse("", text).map_err(|error| {
            let what = match error.key().and_then(|key| key.rsplit('.').next()) {
                Some("public_key") => key,
                Some("endpoint") => host,
                _ => behind,
            };
            Unfit { what, message: error.problem().to_string() }
        })?;
    }
    Ok(texts)
}

/// Whether a tunnel takes these hosts, and the networks behind them: near and far, before there are keys.
///
/// # Errors
///
/// What is wrong (`near`, `far`, `behind-near`, `behind-far`), and what would be right.
pub fn check_ends(ends: [(Option<&str>, &[String]); 2]) -> Result<(), Unfit> {
    let [near, far] = [0, 1].map(|at| {
        let (host, behind) = ends[at];
        End {
            host: host.map(str::to_owned),
            key_file: KEY_FILE.to_owned(),
            public_key: ANY_KEYS[at].to_owned(),
            behind: behind.to_vec(),
        }
    });
    checked(&near, &far, None).map(|_| ())
}

/// The name of the file that a cure takes: of its first file, where it takes one for each end.
pub const fn file_name(needs: Needs) -> Option<&'static str> {
    match needs {
        Needs::Nothing => None,
        Needs::Sender => Some("90-lasthop-bbr.conf"),
        Needs::Box => Some("gateway.toml"),
        Needs::Boxes => Some("tunnel.toml"),
    }
}

/// The kernel's settings on the machines that send, and the command that installs them from `file`.
pub fn sender(file: &str) -> (String, String) {
    let text = "# BBR on the machines that send, as `lasthop advise` found it best.\n\
                net.core.default_qdisc = fq\n\
                net.ipv4.tcp_congestion_control = bbr\n";
    let next = format!("on each machine that sends: install -m 644 {file} /etc/sysctl.d/ && sysctl --system");
    (text.to_owned(), next)
}

/// The gateway's configuration for `cure` on its `interface` towards the lossy hop, and the commands that start it from `file`.
pub fn gateway(cure: &str, interface: &str, file: &str) -> (String, String) {
    let (mode, interface) = (if cure == "SNOOP" { "snoop" } else { "split" }, interface.escape_default());
    let text = format!(
        "# The gateway's configuration, as `lasthop advise` found it best; docs/gateway.md has all keys.\n\
         \n\
         [limits]\n\
         link = \"16 MiB\"             # for `lasthop gateway report --link`: the packets that crossed the hop last\n\
         \n\
         [[rule]]\n\
         name = \"hop\"\n\
         mode = \"{mode}\"\n\
         interface = \"{interface}\"         # towards the lossy hop\n\
         # A tenth of the connections is left alone, so that `lasthop gateway report` can say what the others gain.\n\
         ab = \"10 %\"\n"
    );
    (text, format!("lasthop gateway check {file} && lasthop gateway {file}"))
}
