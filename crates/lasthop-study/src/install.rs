//! Installation of an advice: the configuration of the cure, and the commands that install it.

pub mod tunnel;

use lasthop_scenario::check_interface_name;
use lasthop_scenario::tunnel::Tunnel;

use self::tunnel::{End, configurations};
use crate::advise::{CURES, Cure, HopRates, Needs, Side};

/// Default private key file of each end of the two-ended link.
pub const KEY_FILE: &str = "/etc/lasthop/tunnel.key";
/// Placeholders for keys that do not exist yet.
const ANY_KEYS: [&str; 2] =
    ["AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="];
/// File of the other end.
const FAR_FILE: &str = "tunnel-far.toml";

/// Properties of the place where a cure is to be installed.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    /// Gateway's interface towards the hop.
    pub interface: Option<String>,
    /// End of the two-ended link in front of the hop. An empty key is missing.
    pub near: End,
    /// Other end of the two-ended link.
    pub far: End,
    /// Rates of the hop.
    pub rates: Option<HopRates>,
}

/// Installation of a cure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// Names and texts of the files.
    pub files: Vec<(&'static str, String)>,
    /// Commands that use the files.
    pub steps: Vec<String>,
}

/// Error that prevents an installation.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Unfit {
    /// Invalid or missing input: `cure`, `interface`, `near`, `far`, `near-key`, `far-key`, `behind-near`,
    /// `behind-far`.
    pub what: &'static str,
    /// Message with the correct form.
    pub message: String,
}

/// Returns the files of the cure of that name at a site. Private keys are generated there: the files contain their
/// paths.
///
/// # Errors
///
/// Returns the missing or invalid input, and the correct form.
pub fn installed(cure: &str, site: &Site) -> Result<Installed, Unfit> {
    let known = CURES.iter().filter_map(|cure| Some((cure, file_name(cure.needs)?)));
    let Some((cure, file)) = known.clone().find(|(known, _)| known.name() == cure) else {
        let names: Vec<_> = known.map(|(cure, _)| cure.name()).collect();
        let message = format!("\"{cure}\" installs nothing; expected one of {}", names.join(", "));
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

/// End of messages about an interface.
const INTERFACE: &str = "give the gateway's interface towards the hop, e.g. wlan0";

/// Checks the name of a gateway's interface.
///
/// # Errors
///
/// Returns the reason why it is invalid.
pub fn check_interface(name: &str) -> Result<(), Unfit> {
    let unfit = |why| Unfit { what: "interface", message: format!("\"{name}\": {why}; {INTERFACE}") };
    check_interface_name(name).map_err(unfit)
}

fn on_gateway(site: &Site, cure: &Cure, file: &'static str) -> Result<Installed, Unfit> {
    let missing = || Unfit { what: "interface", message: INTERFACE.to_owned() };
    let interface = site.interface.as_deref().ok_or_else(missing)?;
    check_interface(interface)?;
    let (text, _) = gateway(cure, interface, file);
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
        let message = "give the host name or address of at least one end, e.g. boat.example".to_owned();
        return Err(Unfit { what: "far", message });
    }
    let [near, far] = checked(&site.near, &site.far, site.rates)?;
    let step = |at, file| format!("{at}: lasthop tunnel check {file} && sudo lasthop tunnel run {file}");
    let steps = vec![step("in front of the hop", file), step("at the other end", FAR_FILE)];
    Ok(Installed { files: vec![(file, near), (FAR_FILE, far)], steps })
}

/// Returns both ends' configurations after the tunnel's parser has accepted them.
fn checked(near: &End, far: &End, rates: Option<HopRates>) -> Result<[String; 2], Unfit> {
    let texts = configurations(near, far, rates);
    // Each file contains the input about the other end.
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

/// Checks that a tunnel accepts these hosts, and the networks behind them: near and far, before keys exist.
///
/// # Errors
///
/// Returns the invalid input (`near`, `far`, `behind-near`, `behind-far`), and the correct form.
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

/// Returns the name of a cure's file, or of the first one if each end has a file.
pub const fn file_name(needs: Needs) -> Option<&'static str> {
    match needs {
        Needs::Nothing => None,
        Needs::Sender => Some("90-lasthop-bbr.conf"),
        Needs::Box => Some("gateway.toml"),
        Needs::Boxes => Some("tunnel.toml"),
    }
}

/// Returns the kernel's settings for the sending machines, and the command that installs them from `file`.
pub fn sender(file: &str) -> (String, String) {
    let text = "# BBR on the sending machines, as advised by `lasthop advise`.\n\
                net.core.default_qdisc = fq\n\
                net.ipv4.tcp_congestion_control = bbr\n";
    let next = format!("on each sending machine: install -m 644 {file} /etc/sysctl.d/ && sysctl --system");
    (text.to_owned(), next)
}

/// Returns the gateway's configuration for `cure` on its `interface` towards the lossy hop, and the commands that start
/// it from `file`.
pub fn gateway(cure: &Cure, interface: &str, file: &str) -> (String, String) {
    let (mode, interface) = (if cure.scheme == "SNOOP" { "snoop" } else { "split" }, interface.escape_default());
    let place = match cure.at {
        Some(Side::Customer) => {
            "# For the customer's router at the end of the hop: it repairs what the customer's hosts send.\n"
        }
        _ => "",
    };
    let text = format!(
        "# Gateway configuration, as advised by `lasthop advise`; docs/gateway.md lists all keys.\n\
         {place}\n\
         [limits]\n\
         link = \"16 MiB\"             # recent packet headers, for `lasthop gateway report --link`\n\
         \n\
         [[rule]]\n\
         name = \"hop\"\n\
         mode = \"{mode}\"\n\
         interface = \"{interface}\"         # towards the lossy hop\n\
         # Leave a tenth of the connections untreated, so that `lasthop gateway report` can measure the gain.\n\
         ab = \"10 %\"\n"
    );
    (text, format!("lasthop gateway check {file} && lasthop gateway {file}"))
}
