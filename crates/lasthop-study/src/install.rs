//! What an advice installs: the configuration of the cure, and what to do with it.

pub mod tunnel;

use lasthop_scenario::check_interface_name;
use lasthop_scenario::tunnel::Tunnel;

use self::tunnel::{End, configurations};
use crate::advise::{CURES, Cure, HopRates, Needs};

/// Where each end of the two-ended link keeps its private key, unless somebody says otherwise.
pub const KEY_FILE: &str = "/etc/lasthop/tunnel.key";
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

fn on_gateway(site: &Site, cure: &Cure, file: &'static str) -> Result<Installed, Unfit> {
    let expected = "give the gateway's interface towards the hop, as wlan0";
    let unfit = |message| Unfit { what: "interface", message };
    let interface = site.interface.as_deref().ok_or_else(|| unfit(expected.to_owned()))?;
    check_interface_name(interface).map_err(|why| unfit(format!("\"{interface}\": {why}; {expected}")))?;
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
    let texts = configurations(&site.near, &site.far, site.rates);
    // Each file has what was said of the other end.
    let said = [["far", "far-key", "behind-far"], ["near", "near-key", "behind-near"]];
    for ((file, text), [host, key, behind]) in [file, FAR_FILE].into_iter().zip(&texts).zip(said) {
        Tunnel::parse(file, text).map_err(|error| {
            let what = match error.key().and_then(|key| key.rsplit('.').next()) {
                Some("public_key") => key,
                Some("endpoint") => host,
                _ => behind,
            };
            Unfit { what, message: error.problem().to_string() }
        })?;
    }
    let [near, far] = texts;
    let step = |at, file| format!("{at}: lasthop tunnel check {file} && sudo lasthop tunnel run {file}");
    let steps = vec![step("in front of the hop", file), step("at the other end", FAR_FILE)];
    Ok(Installed { files: vec![(file, near), (FAR_FILE, far)], steps })
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
