//! Both ends' configurations of the two-ended link, and the keys that are made for them.

use std::io::Write;
use std::path::{Path, PathBuf};

use lasthop_scenario::tunnel::Tunnel;
use lasthop_study::advise::HopRates;
use lasthop_tunnel::{PrivateKey, PublicKey};

use crate::cli::{AdviseArgs, TunnelEndsArgs};
use crate::commands::tunnel::secrets;
use crate::error::Error;
use crate::output::write_file;

/// The UDP port of both ends.
const PORT: u16 = 51_900;
/// The ends' own addresses in the inner network.
const INNER: [&str; 2] = ["10.98.76.1", "10.98.76.2"];
/// The share of the hop's rate that an end sends at, so that packets wait there and not in the modem; on a medium on which one end
/// sends at a time, less than half.
const SHARE: f64 = 0.95;
const SHARE_IN_TURNS: f64 = 0.45;
/// A host that nobody has (RFC 6761, section 6.4): `check` names it.
const NOBODY: &str = "far-end.invalid";

/// One end's file, and what is in it.
struct End<'a> {
    /// Its name as the other end's peer.
    name: &'a str,
    file: &'a Path,
    key_file: &'a Path,
    /// The address that it listens at.
    listen: &'a str,
    /// How fast it sends, bits a second.
    rate: u64,
    inner: &'a str,
    /// The other end.
    peer: Peer<'a>,
}

struct Peer<'a> {
    name: &'a str,
    key: PublicKey,
    endpoint: Option<String>,
    inner: &'a str,
    networks: &'a [String],
}

/// Writes `near`, the configuration of the end in front of the hop, and beside it the other end's and the keys that are missing. Says what
/// to do with them.
pub fn write(args: &AdviseArgs, near: &Path, rates: Option<HopRates>) -> Result<String, Error> {
    let ends = &args.tunnel;
    let near = &absolute(near)?;
    let far = &beside(near, "-far.toml");
    let near_key_file = ends.near_key.as_deref().map(absolute).transpose()?.unwrap_or_else(|| beside(near, ".key"));
    let far_key_file = beside(near, "-far.key");
    for path in [far, &far_key_file] {
        let is_written = path == far || ends.far_public_key.is_none();
        if is_written && path.exists() && !args.force {
            return Err(Error::Exists { path: path.clone() });
        }
    }
    let near_key = key(&near_key_file)?;
    let far_key = match ends.far_public_key {
        Some(public) => Key { public, made: None },
        None => key(&far_key_file)?,
    };
    let share = |rate: u64, in_turns: bool| (rate as f64 * if in_turns { SHARE_IN_TURNS } else { SHARE }) as u64;
    let [down, up] = match rates {
        Some(HopRates { down, up, takes_turns }) => [down, up].map(|rate| share(rate, takes_turns).max(8_000)),
        None => [10_000_000; 2],
    };
    let endpoint = |given: &Option<String>| given.as_deref().map(with_port);
    // One end is enough that calls.
    let far_endpoint = endpoint(&ends.far).or_else(|| ends.near.is_none().then(|| with_port(NOBODY)));
    let near_endpoint = endpoint(&ends.near);
    let is_v6 = [&near_endpoint, &far_endpoint].into_iter().flatten().any(|endpoint| endpoint.starts_with('['));
    let listen = if is_v6 { "[::]" } else { "0.0.0.0" };
    let near_end = End {
        name: "near",
        file: near,
        key_file: &near_key_file,
        listen,
        rate: down,
        inner: INNER[0],
        peer: Peer {
            name: "far",
            key: far_key.public,
            endpoint: far_endpoint,
            inner: INNER[1],
            networks: &ends.behind_far,
        },
    };
    let far_end = End {
        name: "far",
        file: far,
        // As it is there: both files go to the same folder.
        key_file: &far_key_file,
        listen,
        rate: up,
        inner: INNER[1],
        peer: Peer {
            name: "near",
            key: near_key.public,
            endpoint: near_endpoint,
            inner: INNER[0],
            networks: &ends.behind_near,
        },
    };
    let texts = [&near_end, &far_end].map(|end| (end.file, configuration(end)));
    for (file, text) in &texts {
        // What `check` would refuse is not written.
        Tunnel::parse(&file.display().to_string(), text)?;
    }
    keep(&near_key, &near_key_file)?;
    keep(&far_key, &far_key_file)?;
    for (path, text) in texts {
        write_file(path, |file| file.write_all(text.as_bytes()).map_err(Error::file(path)))?;
    }
    Ok(next(ends, [near, far], &far_key_file))
}

/// What to do with the files.
fn next(ends: &TunnelEndsArgs, [near, far]: [&Path; 2], far_key_file: &Path) -> String {
    let (near, folder) = (near.display(), far.parent().unwrap_or(Path::new("/")).display());
    let mut said = format!("and {}, for the other end", far.display());
    said += &match ends.far_public_key {
        Some(_) => format!(": its private key goes there as {}", far_key_file.display()),
        None => format!(", with its key {0}: move both to {folder} there, and remove {0} here", far_key_file.display()),
    };
    if ends.near.is_none() && ends.far.is_none() {
        said += &format!("; write where the other end is reached in the place of {NOBODY} in {near}");
    }
    said + &format!("; then at each end, with its file: lasthop tunnel check {near} && lasthop tunnel run {near}")
}

/// A private key and its file, which is written when all else is right.
struct Key {
    public: PublicKey,
    made: Option<PrivateKey>,
}

/// The key in a file, or a new one for it.
fn key(file: &Path) -> Result<Key, Error> {
    let broken = |what: String| Error::TunnelKey { path: file.to_path_buf(), what };
    if file.try_exists().map_err(Error::file(file))? {
        let text = lasthop_tunneld::secrets::read(file).map_err(|what| Error::TunnelKeyFile { what })?;
        let key = PrivateKey::from_base64(&text).map_err(|error| broken(error.to_string()))?;
        return Ok(Key { public: key.public(), made: None });
    }
    let made = PrivateKey::generate(&mut secrets::entropy()?);
    Ok(Key { public: made.public(), made: Some(made) })
}

fn keep(key: &Key, file: &Path) -> Result<(), Error> {
    let Some(made) = &key.made else { return Ok(()) };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    secrets::write(file, &made.to_base64())
}

fn configuration(end: &End<'_>) -> String {
    let End { name, key_file, listen, rate, inner, peer, .. } = end;
    let endpoint = match &peer.endpoint {
        Some(endpoint) if endpoint.starts_with(NOBODY) => {
            format!("# TO BE SET: host and UDP port where the other end is reached.\nendpoint = \"{endpoint}\"\n")
        }
        Some(endpoint) => format!("endpoint = \"{}\"\n", endpoint.escape_default()),
        None => "# No endpoint: that end calls, and is answered where it is.\n".to_owned(),
    };
    let allowed: Vec<String> = std::iter::once(peer.inner)
        .chain(peer.networks.iter().map(String::as_str))
        .map(|it| format!("\"{}\"", it.escape_default()))
        .collect();
    format!(
        "# The {name} end of the two-ended link, as `lasthop advise` found it best; docs/tunnel.md has all keys.\n\
         listen = \"{listen}:{PORT}\"\n\
         private_key_file = \"{}\"\n\
         address = [\"{inner}/30\"]\n\
         \n\
         [[peer]]\n\
         name = \"{}\"\n\
         public_key = \"{}\"\n\
         {endpoint}\
         # Inner addresses behind that end: packets to them go there.\n\
         allowed = [{}]\n\
         # A little below what the hop carries, so that packets wait here.\n\
         rate = \"{} kbps\"\n\
         keepalive = \"10 s\"\n",
        key_file.display().to_string().escape_default(),
        peer.name,
        peer.key,
        allowed.join(", "),
        (rate / 1000).max(8),
    )
}

/// `tunnel.toml` as `tunnel-far.toml`, `tunnel.key`.
fn beside(near: &Path, end: &str) -> PathBuf {
    let stem = near.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    near.with_file_name(stem + end)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(Error::file(path))
}

/// A host with the port where it has none.
fn with_port(host: &str) -> String {
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    match host.rsplit_once(':') {
        _ if is_v6 => format!("[{host}]:{PORT}"),
        Some((_, port)) if !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()) => host.to_owned(),
        _ => format!("{host}:{PORT}"),
    }
}
