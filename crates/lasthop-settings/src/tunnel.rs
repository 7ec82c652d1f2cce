//! Configuration of the tunnel: TOML parsed into checked types, with the same messages as scenarios.
//!
//! ```
//! use lasthop_settings::tunnel::{Security, Tunnel};
//!
//! let text = "listen = '0.0.0.0:51900'\nprivate_key_file = '/etc/lasthop/tunnel.key'\n\
//!             [[peer]]\nname = 'shore'\npublic_key = '3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08='\n\
//!             endpoint = 'shore.example.net:51900'\nallowed = '10.20.0.0/16'\n\
//!             rate = '10 Mbps'\n";
//! let tunnel = Tunnel::parse("tunnel.toml", text)?;
//! assert!(matches!(tunnel.security, Security::Noise { .. }));
//! # Ok::<(), lasthop_settings::Error>(())
//! ```
//!
//! `docs/tunnel.md` describes every key. Key files are only named here; their users read them.

mod paths;
mod values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use lasthop_proto::link::hybrid::Multipath;
use lasthop_proto::time::Duration;

use self::values::{
    Control, DeviceName, HopInterface, Interface, KeyFile, KeyText, Listen, Metrics, Name, Own, Prefix,
};
use crate::daemon::{AbsolutePath, Group, LogLevel};
use crate::document::quote;
use crate::error::{Error, Problem};
use crate::key::{self, Key};
use crate::reader::Reader;
use crate::reading;
use crate::units::{ByteSize, Fraction};
use crate::values::{Auto, Choice, List, Off, Or, Positive, Whole};

pub use self::paths::{Cap, PeerPath};
pub use self::values::Endpoint;

/// Maximum size of a configuration, in bytes.
const LARGEST_FILE: u64 = 128 << 10;
/// Maximum number of peers, and of prefixes of a peer.
const MOST_PEERS: usize = 256;
const MOST_PREFIXES: usize = 256;
/// Range of keep-alive intervals.
const KEEPALIVES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3_600)];

/// Range of the silence after which the other end of a bridge counts as disconnected.
const SILENCES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
const SILENCE: Duration = Duration::from_millis(30);

/// Default path of the control socket.
pub const DEFAULT_CONTROL: &str = "/run/lasthop/tunnel.sock";
/// Default path of the file that stores the data volumes of paths.
const USAGE: &str = "/var/lib/lasthop/tunnel-usage.json";
/// Default name of the device.
const DEVICE: &str = "lasthop0";
/// Maximum number of own addresses.
const MOST_ADDRESSES: usize = 16;
/// Maximum share of the flows that may remain unrepaired.
const MOST_UNREPAIRED: Fraction = Fraction::HALF;
/// Minimum memory for the packets of a peer: some 230 in flight.
const LEAST_MEMORY: u64 = 1 << 20;

/// Configuration of one end.
#[derive(Clone, PartialEq, Debug)]
pub struct Tunnel {
    /// Source of packets, and their transport over the hop.
    pub mode: Mode,
    /// Protection of packets.
    pub security: Security,
    /// Name of the TUN or TAP device to create.
    pub device: String,
    /// Unix socket on which the daemon answers.
    pub control: PathBuf,
    /// Group whose users may access the socket; by default, the group that the daemon runs with.
    pub control_group: Option<Group>,
    /// Loopback address that serves metrics.
    pub metrics: Option<SocketAddr>,
    /// File that stores the data volumes of paths with a cap.
    pub usage: PathBuf,
    /// Minimum severity of logged messages: "error", "warn", "info", "debug" or "trace".
    pub log: String,
    /// Other ends, in the order of the file.
    pub peers: Vec<Peer>,
}

/// Source of packets, and their transport over the hop.
#[derive(Clone, PartialEq, Debug)]
pub enum Mode {
    /// Packets of a TUN device, as UDP datagrams.
    Tun {
        /// Local UDP address.
        listen: SocketAddr,
        /// This end's own addresses in the inner network, with their networks.
        address: Vec<IpNet>,
        /// Responsibility for routes to the peers' addresses into the device.
        routes: Routes,
    },
    /// Frames that leave through an Ethernet interface, in frames of the link's own type.
    Bridge {
        /// Interface towards the hop.
        interface: String,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum ModeName {
    Tun,
    Bridge,
}

impl Choice for ModeName {
    const CHOICES: &'static [(&'static str, Self)] = &[("tun", Self::Tun), ("bridge", Self::Bridge)];
}

/// Protection of packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Security {
    /// Noise IKpsk2: encrypted and authenticated.
    Noise {
        /// File with this end's private key in base64.
        private_key_file: PathBuf,
    },
    /// No protection, on an interface that is declared trusted.
    None {
        /// Only interface from which datagrams are accepted.
        trusted_interface: String,
        /// Name by which peers identify this end.
        name: String,
    },
}

/// Responsibility for routes to the peers' addresses into the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routes {
    /// The daemon: it adds a route for each allowed network.
    Allowed,
    /// Other software.
    Off,
}

impl Choice for Routes {
    const CHOICES: &'static [(&'static str, Self)] = &[("allowed", Self::Allowed), ("off", Self::Off)];
}

/// Repair of losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repair {
    /// Retransmission, with copies and a code for losses that retransmission would repair too late.
    Hybrid,
    /// Retransmission.
    Arq,
}

impl Choice for Repair {
    const CHOICES: &'static [(&'static str, Self)] = &[("hybrid", Self::Hybrid), ("arq", Self::Arq)];
}

/// Medium of a hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A separate one for each direction.
    Own,
    /// A common medium, with both ends taking turns, as on Wi-Fi.
    Shared,
}

impl Choice for Medium {
    const CHOICES: &'static [(&'static str, Self)] = &[("own", Self::Own), ("shared", Self::Shared)];
}

/// Another end.
#[derive(Clone, PartialEq, Debug)]
pub struct Peer {
    /// Unique name, shown with statistics. Without security it identifies the peer.
    pub name: String,
    /// Public key, X25519; `None` without security.
    pub public_key: Option<[u8; 32]>,
    /// File with the additional key shared by both ends, in base64.
    pub preshared_key_file: Option<PathBuf>,
    /// Paths to the peer, at least one. Both ends list them in the same order.
    pub paths: Vec<PeerPath>,
    /// Use of several paths.
    pub multipath: Multipath,
    /// Inner addresses of the peer; empty on a bridge.
    pub allowed: Vec<IpNet>,
    /// Interval of keep-alives without other traffic.
    pub keepalive: Option<Duration>,
    /// On a bridge: time without packets from the peer after which it counts as disconnected.
    pub silence: Duration,
    /// Repair of losses in the direction of the peer.
    pub repair: Repair,
    /// Indicates whether both directions of the hop share a medium.
    pub medium: Medium,
    /// Maximum number of packets queued for the peer; `None`: follows the hop.
    pub queue: Option<u32>,
    /// Memory for packets, in bytes.
    pub memory: u64,
    /// Share of the flows that remain unrepaired, for comparison: at most half.
    pub ab: Fraction,
}

#[derive(Clone, Copy, PartialEq)]
enum SecurityName {
    Noise,
    None,
}

impl Choice for SecurityName {
    const CHOICES: &'static [(&'static str, Self)] = &[("noise", Self::Noise), ("none", Self::None)];
}

impl Tunnel {
    /// Reads the configuration file at `path`.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or is invalid.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        reading::load(path.as_ref(), LARGEST_FILE, read).map(|(tunnel, _)| tunnel)
    }

    /// Parses a configuration from its text; `name` identifies it in messages.
    ///
    /// # Errors
    /// Returns an error if it is invalid.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        reading::parse(name, text, read)
    }
}

keys! {
    /// Keys of a tunnel.
    Keys {
        /// {} | IP packets of a TUN device in UDP, or (`"bridge"`) Ethernet frames [between two
        /// bridges](#between-two-bridges)
        mode: ModeName = ModeName::Tun;
        /// – | with `bridge`: interface towards the hop
        interface;
        /// – | local UDP address; `"[::]:51900"` accepts IPv4 too
        listen;
        /// {} | or `"none"`: neither [encrypted nor authenticated](#without-encryption)
        security: SecurityName = SecurityName::Noise;
        /// – | with `noise`: absolute path of this end's key; not readable by others
        private_key_file;
        /// – | with `none`: the only interface whose datagrams are accepted
        trusted_interface;
        /// – | with `none`: the name by which peers know this end
        name;
        /// {} | TUN (with `bridge` TAP) device
        device: DeviceName = DeviceName(DEVICE.to_owned());
        /// none | inner addresses, as `["10.20.0.1/24", "fd00:20::1/64"]`
        address: List<Own> = List(Vec::new());
        /// {} | a route into the device for each allowed network; `"off"`: you set up routing
        routes: Routes = Routes::Allowed;
        /// {} | control socket
        control: Control = Control(DEFAULT_CONTROL.into());
        /// the tunnel's | [as for the gateway](gateway.md#configuration)
        control_group;
        /// {} | [as for the gateway](gateway.md#configuration)
        metrics: Or<Off, Metrics> = None.into(), log: LogLevel = LogLevel("info".to_owned());
        /// {} | file that stores the data volumes of paths with a [`cap`](#several-lines)
        usage: AbsolutePath = AbsolutePath(USAGE.into());
        peer;
    }

    /// Keys of a peer.
    PeerKeys {
        /// – | unique; with `none` it identifies the peer
        name;
        /// – | with `noise`
        public_key;
        /// none | with `noise`: additional shared secret
        preshared_key_file;
        /// none | host and UDP port; not for an end that only answers
        endpoint;
        /// – | the peer's inner networks, as destination of packets to it and source of packets from it. The longest
        /// prefix wins
        allowed;
        /// {} | sends one after this long without traffic, 1 s to 1 h, and starts the session at once
        keepalive: Or<Off, Positive<Duration>> = None.into();
        /// {} | with `bridge`: the other end counts as gone after this long without an authenticated frame, 20 ms to 1 s.
        /// Alike at both ends
        silence: Positive<Duration> = Positive(SILENCE);
        /// – | sending rate with IP headers, slightly below the hop's capacity, so that packets queue here, under
        /// FQ-CoDel. `"auto"` [estimates it](models/two-ended-link.md#rate-estimation), between 8 kbps and 100 Gbps;
        /// prefer a number if the rate is known and constant
        rate;
        /// {} | retransmissions, copies of real-time packets, coding before pauses; `"arq"`: retransmissions only. Each
        /// end may differ
        repair: Repair = Repair::Hybrid;
        /// {} | each direction has its own; `"shared"`: one for both, as on Wi-Fi, for `rate = "auto"`. Alike at both ends
        medium: Medium = Medium::Own;
        /// {} | packets waiting for the peer; `"auto"`: what the hop carries in three round trips, at least 1000
        queue: Or<Auto, Whole<1, 100_000>> = Or(None, Auto);
        /// {} | for the peer's packets: a third each for those in flight, those held for an earlier one, and the queue if
        /// `"auto"`; at least 1 MiB
        memory: ByteSize = ByteSize(64 << 20);
        /// {} | share of flows, at most 50 %, left unrepaired to [measure the gain](#what-repair-gains). Alike at both ends
        ab: Fraction = Fraction::ZERO;
        /// {} | with several [paths](#several-lines): packets are spread over all; `"redundant"`: each is sent on two;
        /// `"failover"`: the first path that works carries all. Each end may differ
        multipath: Multipath = Multipath::Bond;
        path;
    }
}

/// Returns the table of these keys in Markdown: "tunnel", "tunnel-peer" or "tunnel-path".
pub fn key_table(name: &str) -> Option<String> {
    let rows = match name {
        "tunnel" => Keys::ROWS,
        "tunnel-peer" => PeerKeys::ROWS,
        "tunnel-path" => paths::PathKeys::ROWS,
        _ => return None,
    };
    Some(key::table(&["key", "default", "meaning"], &[("", rows)]))
}

fn read(root: &Reader<'_>) -> Result<Tunnel, Error> {
    root.allow(Keys::NAMES)?;
    let mode = mode(root)?;
    let security = match root.value(Keys::security)? {
        SecurityName::Noise => {
            for key in [Keys::trusted_interface, Keys::name] {
                if root.has(key) {
                    let message = "requires security = \"none\"".to_owned();
                    return Err(root.fail(key, Problem::Conflict(message)));
                }
            }
            refuse_key(root, Keys::private_key_file)?;
            let KeyFile(private_key_file) = root.required(Keys::private_key_file)?;
            Security::Noise { private_key_file }
        }
        SecurityName::None => {
            if root.has(Keys::private_key_file) {
                let message = "not allowed with security = \"none\"".to_owned();
                return Err(root.fail(Keys::private_key_file, Problem::Conflict(message)));
            }
            let Interface(trusted_interface) = root.required(Keys::trusted_interface)?;
            let Name(name) = root.required(Keys::name)?;
            Security::None { trusted_interface, name }
        }
    };
    let DeviceName(device) = root.value(Keys::device)?;
    if matches!(&security, Security::None { trusted_interface, .. } if *trusted_interface == device) {
        return Err(root.refuse(Keys::device, "another name", "it is the trusted interface"));
    }
    if let Mode::Bridge { interface } = &mode {
        if *interface == device {
            return Err(root.refuse(Keys::device, "another name", "it is the interface towards the hop"));
        }
        if matches!(&security, Security::None { trusted_interface, .. } if trusted_interface != interface) {
            let expected = format!("{}, the interface towards the hop", quote(interface));
            return Err(root.refuse(Keys::trusted_interface, expected, "the other end is reachable only through it"));
        }
    }
    let Control(control) = root.value(Keys::control)?;
    let control_group = root.get(Keys::control_group)?;
    let Or(metrics, _) = root.value(Keys::metrics)?;
    let LogLevel(log) = root.value(Keys::log)?;
    let AbsolutePath(usage) = root.value(Keys::usage)?;
    let peers = peers(root, &security, &mode)?;
    let is_device = |path: &PeerPath| path.interface.as_ref() == Some(&device);
    if peers.iter().flat_map(|peer| &peer.paths).any(is_device) {
        return Err(root.refuse(Keys::device, "another name", "it is the interface of a path"));
    }
    Ok(Tunnel {
        mode,
        security,
        device,
        control,
        control_group,
        metrics: metrics.map(|Metrics(address)| address),
        usage,
        log,
        peers,
    })
}

/// Rejects keys without a meaning in this mode.
fn refuse_keys(reader: &Reader<'_>, keys: &[&str], meaning: &str) -> Result<(), Error> {
    match keys.iter().find(|key| reader.has(key)) {
        Some(key) => Err(reader.fail(key, Problem::Conflict(meaning.to_owned()))),
        None => Ok(()),
    }
}

const NOT_ON_A_BRIDGE: &str = "not allowed with mode = \"bridge\", which has no addresses";
const ON_A_BRIDGE: &str = "requires mode = \"bridge\"";

fn mode(root: &Reader<'_>) -> Result<Mode, Error> {
    match root.value(Keys::mode)? {
        ModeName::Bridge => {
            refuse_keys(root, key_names!(Keys: listen, address, routes), NOT_ON_A_BRIDGE)?;
            let HopInterface(interface) = root.required(Keys::interface)?;
            Ok(Mode::Bridge { interface })
        }
        ModeName::Tun => {
            refuse_keys(root, key_names!(Keys: interface), ON_A_BRIDGE)?;
            let Listen(listen) = root.required(Keys::listen)?;
            let List(address) = root.value(Keys::address)?;
            if address.len() > MOST_ADDRESSES {
                return Err(root.refuse(Keys::address, format!("at most {MOST_ADDRESSES}"), ""));
            }
            let address = address.into_iter().map(|Own(address)| address).collect();
            Ok(Mode::Tun { listen, address, routes: root.value(Keys::routes)? })
        }
    }
}

fn peers(root: &Reader<'_>, security: &Security, mode: &Mode) -> Result<Vec<Peer>, Error> {
    let what = match mode {
        Mode::Tun { .. } => "name, public_key and allowed",
        Mode::Bridge { .. } => "name and public_key",
    };
    let readers = root.array(Keys::peer, &format!("tables, e.g. [[peer]] with {what}"))?;
    if readers.is_empty() {
        let expected = format!("at least one peer, e.g. [[peer]] with {what}");
        return Err(root.fail(Keys::peer, Problem::Missing { expected }));
    }
    if let (Mode::Bridge { .. }, Some(second)) = (mode, readers.get(1)) {
        return Err(second.fail_here(Problem::Conflict("a bridge supports only one peer".to_owned())));
    }
    if let Some(beyond) = readers.get(MOST_PEERS) {
        return Err(beyond.fail_here(Problem::Conflict(format!("there are more than {MOST_PEERS} peers"))));
    }
    let mut peers: Vec<Peer> = Vec::new();
    for reader in &readers {
        let peer = peer(reader, security, mode)?;
        if peers.iter().any(|other| other.name == peer.name) {
            return Err(reader.refuse(PeerKeys::name, "a unique name", "another peer has it"));
        }
        if peer.public_key.is_some() && peers.iter().any(|other| other.public_key == peer.public_key) {
            return Err(reader.refuse(PeerKeys::public_key, "a unique key", "another peer has it"));
        }
        // Overlaps are permitted: the longest prefix is selected. A repeated prefix is a mistake.
        for prefix in &peer.allowed {
            if let Some(other) = peers.iter().find(|other| other.allowed.contains(prefix)) {
                let reason = format!("{prefix} is already assigned to peer \"{}\"", other.name);
                return Err(reader.refuse(PeerKeys::allowed, "addresses not assigned to another peer", reason));
            }
        }
        peers.push(peer);
    }
    Ok(peers)
}

/// Rejects a secret in place of its file, without showing it.
fn refuse_key(reader: &Reader<'_>, key: Key) -> Result<(), Error> {
    if reader.items().any(|(name, item)| name == key.name() && values::is_key(&item.data)) {
        let message = "is the key itself; store it in a file that only root can read, and give its path".to_owned();
        return Err(reader.fail(key, Problem::Conflict(message)));
    }
    Ok(())
}

fn peer(reader: &Reader<'_>, security: &Security, mode: &Mode) -> Result<Peer, Error> {
    reader.allow(PeerKeys::NAMES)?;
    let Name(name) = reader.required(PeerKeys::name)?;
    let (public_key, preshared_key_file) = match security {
        Security::Noise { .. } => {
            let KeyText(key) = reader.required(PeerKeys::public_key)?;
            refuse_key(reader, PeerKeys::preshared_key_file)?;
            (Some(key), reader.get::<KeyFile>(PeerKeys::preshared_key_file)?)
        }
        Security::None { name: own, .. } => {
            for key in [PeerKeys::public_key, PeerKeys::preshared_key_file] {
                if reader.has(key) {
                    let message = "not allowed with security = \"none\"".to_owned();
                    return Err(reader.fail(key, Problem::Conflict(message)));
                }
            }
            if name == *own {
                return Err(reader.refuse(PeerKeys::name, "the other end's name", "it is this end's own"));
            }
            (None, None)
        }
    };
    let allowed = match mode {
        Mode::Tun { .. } => {
            refuse_keys(reader, key_names!(PeerKeys: silence), ON_A_BRIDGE)?;
            allowed(reader)?
        }
        Mode::Bridge { .. } => {
            refuse_keys(reader, key_names!(PeerKeys: endpoint, allowed, keepalive), NOT_ON_A_BRIDGE)?;
            Vec::new()
        }
    };
    let paths = paths::paths(reader, mode)?;
    if matches!((mode, security), (Mode::Bridge { .. }, Security::None { .. })) && paths.len() > 1 {
        let message = "several paths of a bridge require security = \"noise\": without, this end accepts frames from \
                       the trusted interface only";
        return Err(reader.fail(PeerKeys::path, Problem::Conflict(message.to_owned())));
    }
    let multipath = reader.value(PeerKeys::multipath)?;
    if reader.has(PeerKeys::multipath) && paths.len() < 2 {
        let message = "requires at least two [[peer.path]]".to_owned();
        return Err(reader.fail(PeerKeys::multipath, Problem::Conflict(message)));
    }
    let silence = reader.value(PeerKeys::silence)?.0;
    if silence < SILENCES[0] || silence > SILENCES[1] {
        return Err(reader.refuse(PeerKeys::silence, "20 ms to 1 s, e.g. \"30 ms\"", ""));
    }
    let Or(keepalive, _) = reader.value(PeerKeys::keepalive)?;
    let keepalive = keepalive.map(|Positive(interval)| interval);
    if keepalive.is_some_and(|interval| interval < KEEPALIVES[0] || interval > KEEPALIVES[1]) {
        return Err(reader.refuse(PeerKeys::keepalive, "1 s to 1 h, e.g. \"10 s\", or \"off\"", ""));
    }
    let preshared_key_file = preshared_key_file.map(|KeyFile(path)| path);
    let repair = reader.value(PeerKeys::repair)?;
    let medium = reader.value(PeerKeys::medium)?;
    let Or(queue, Auto) = reader.value(PeerKeys::queue)?;
    let queue = queue.map(|Whole(packets)| packets);
    let ByteSize(memory) = reader.value(PeerKeys::memory)?;
    if memory < LEAST_MEMORY {
        return Err(reader.refuse(PeerKeys::memory, "at least 1 MiB, e.g. \"64 MiB\"", ""));
    }
    let ab = reader.value(PeerKeys::ab)?;
    if ab > MOST_UNREPAIRED {
        return Err(reader.refuse(PeerKeys::ab, "0 to 50 %, e.g. \"10 %\"", "most flows must be repaired"));
    }
    Ok(Peer {
        name,
        public_key,
        preshared_key_file,
        paths,
        multipath,
        allowed,
        keepalive,
        silence,
        repair,
        medium,
        queue,
        memory,
        ab,
    })
}

fn allowed(reader: &Reader<'_>) -> Result<Vec<IpNet>, Error> {
    let List(allowed) = reader.required::<List<Prefix>>(PeerKeys::allowed)?;
    if allowed.len() > MOST_PREFIXES {
        return Err(reader.refuse(PeerKeys::allowed, format!("at most {MOST_PREFIXES}"), ""));
    }
    let mut prefixes: Vec<IpNet> = Vec::new();
    for Prefix(prefix) in allowed {
        if prefixes.contains(&prefix) {
            return Err(reader.refuse(PeerKeys::allowed, "each prefix once", format!("{prefix} is listed twice")));
        }
        prefixes.push(prefix);
    }
    Ok(prefixes)
}
