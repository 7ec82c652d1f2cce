//! Values of keys in the tunnel's configuration.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use base64ct::{Base64, Encoding};
use ipnet::IpNet;

use crate::daemon::{AbsolutePath, Address};
use crate::document::{Data, quote};
use crate::reader::Value;
use crate::units::DataVolume;

/// Returns the text in `data`.
fn text(data: &Data) -> Result<&str, String> {
    match data {
        Data::String(text) => Ok(text),
        _ => Err(String::new()),
    }
}

/// A prefix of inner addresses, or a single one.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Prefix(pub IpNet);

impl Value for Prefix {
    fn expected() -> String {
        "an address or network, e.g. \"10.20.0.0/16\" or \"2001:db8::/32\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let text = text(data)?;
        let prefix = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text.parse::<IpNet>().map_err(|_| format!("{} is not valid", quote(text)))?,
        };
        if prefix.trunc() != prefix {
            return Err(format!("{} has host bits set", quote(text)));
        }
        Ok(Self(prefix))
    }
    fn show(&self) -> String {
        quote(&self.0.to_string())
    }
}

/// An own address, with its network.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Own(pub IpNet);

impl Value for Own {
    fn expected() -> String {
        "an address with its network's prefix, e.g. \"10.20.0.1/24\" or \"fd00:20::1/64\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let text = text(data)?;
        if text.parse::<IpAddr>().is_ok() {
            return Err("the prefix is missing".to_owned());
        }
        let own = text.parse::<IpNet>().map_err(|_| format!("{} is not valid", quote(text)))?;
        let (address, bits) = (own.addr(), own.max_prefix_len() - own.prefix_len());
        if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            return Err("it is not a host address".to_owned());
        }
        if bits > 1 && address == own.network() && address.is_ipv4() {
            return Err("it is the address of the network".to_owned());
        }
        Ok(Self(own))
    }
    fn show(&self) -> String {
        quote(&self.0.to_string())
    }
}

/// Name of a device to create: not a pattern for the kernel, nor an option for programs.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct DeviceName(pub String);

impl Value for DeviceName {
    fn expected() -> String {
        "a name of 1 to 15 letters, digits, `-`, `_` and `.` for the device, e.g. \"lasthop0\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let text = text(data)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        let named = (1..=15).contains(&text.len()) && text.chars().all(plain) && begins && text != "lo";
        if named { Ok(Self(text.to_owned())) } else { Err(String::new()) }
    }
    fn show(&self) -> String {
        quote(&self.0)
    }
}

/// Path of the control socket.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Control(pub PathBuf);

impl Value for Control {
    fn expected() -> String {
        format!("an absolute path of at most 107 bytes, e.g. {}", quote(super::DEFAULT_CONTROL))
    }
    fn read(data: &Data) -> Result<Self, String> {
        AbsolutePath::read(data).map(|AbsolutePath(path)| Self(path))
    }
    fn show(&self) -> String {
        quote(&self.0.display().to_string())
    }
}

/// Address that serves metrics.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Metrics(pub SocketAddr);

impl Value for Metrics {
    fn expected() -> String {
        "a loopback address with a port, e.g. \"127.0.0.1:9470\" or \"[::1]:9470\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        Address::read(data).map(|Address(address)| Self(address))
    }
    fn show(&self) -> String {
        quote(&self.0.to_string())
    }
}

/// Data volume of a month, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MonthlyCap(pub u64);

/// Minimum data volume of a month: keep-alives alone take some of it.
const LEAST_CAP: u64 = 1_000_000;

impl Value for MonthlyCap {
    fn expected() -> String {
        "a data volume of at least 1 MB per month, e.g. \"20 GB/month\" (MB, GB, TB)".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let volume = text(data)?.strip_suffix("/month").ok_or("`/month` is missing at its end")?;
        let DataVolume(bytes) =
            volume.trim_end().parse().map_err(|error: crate::units::UnitError| error.to_string())?;
        if bytes < LEAST_CAP { Err(String::new()) } else { Ok(Self(bytes)) }
    }
    fn show(&self) -> String {
        quote(&format!("{}/month", DataVolume(self.0)))
    }
}

/// A local address with its port.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Listen(pub SocketAddr);

impl Value for Listen {
    fn expected() -> String {
        "a local address with a port, e.g. \"0.0.0.0:51900\" or \"[::]:51900\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match text(data)?.parse::<SocketAddr>() {
            Ok(address) if address.port() == 0 => Err("peers cannot know the port".to_owned()),
            Ok(address) if address.ip().is_multicast() => Err("it is a multicast address".to_owned()),
            Ok(address) => Ok(Self(address)),
            Err(_) => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(&self.0.to_string())
    }
}

/// A host, by name or address, and a UDP port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    host: String,
    port: u16,
    address: Option<SocketAddr>,
}

impl Endpoint {
    /// Returns the host: a name, or an address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the address, unless the host is given by name.
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Value for Endpoint {
    fn expected() -> String {
        "a host with a port, e.g. \"shore.example.net:51900\", \"192.0.2.7:51900\" or \"[2001:db8::7]:51900\""
            .to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let text = text(data)?;
        if let Ok(address) = text.parse::<SocketAddr>() {
            if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
                return Err("it is not the address of a host with a port".to_owned());
            }
            return Ok(Self { host: address.ip().to_string(), port: address.port(), address: Some(address) });
        }
        let Some((host, port)) = text.rsplit_once(':') else { return Err("the port is missing".to_owned()) };
        let port = match port.parse::<u16>() {
            Ok(port @ 1..) => port,
            _ => return Err(format!("{} is not a port", quote(port))),
        };
        // RFC 1123, section 2.1. A name of digits and dots would be an address.
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let named = host.len() <= 253 && host.split('.').all(label);
        let last_is_name = host.rsplit('.').next().is_some_and(|last| !last.chars().all(|c| c.is_ascii_digit()));
        if !(named && last_is_name) {
            return Err(format!("{} is neither a host name nor an address", quote(host)));
        }
        Ok(Self { host: host.to_owned(), port, address: None })
    }
    fn show(&self) -> String {
        quote(&self.to_string())
    }
}

/// A public key.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct KeyText(pub [u8; 32]);

impl Value for KeyText {
    fn expected() -> String {
        "a public key of 44 characters, as `lasthop tunnel keygen` prints it".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let text = text(data)?;
        let length = text.chars().count();
        if length != 44 {
            return Err(format!("it has {length} characters"));
        }
        let mut key = [0; 32];
        match Base64::decode(text, &mut key) {
            Ok(decoded) if decoded.len() == 32 => Ok(Self(key)),
            _ => Err("it is not base64".to_owned()),
        }
    }
    fn show(&self) -> String {
        let mut text = [0; 44];
        quote(Base64::encode(&self.0, &mut text).unwrap_or_default())
    }
}

/// Returns whether the value is the text of a key.
pub(super) fn is_key(data: &Data) -> bool {
    matches!(data, Data::String(text) if Base64::decode(text.trim(), &mut [0; 32]).is_ok_and(|key| key.len() == 32))
}

/// Path of a file with a secret.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct KeyFile(pub PathBuf);

impl Value for KeyFile {
    fn expected() -> String {
        "the absolute path of a file with a key, e.g. \"/etc/lasthop/tunnel.key\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let text = text(data)?;
        if text.contains('\0') || text.len() > 4_095 {
            return Err("not a file name".to_owned());
        }
        let path = PathBuf::from(text);
        if path.is_absolute() { Ok(Self(path)) } else { Err("the path is relative".to_owned()) }
    }
    fn show(&self) -> String {
        quote(&self.0.display().to_string())
    }
}

/// A name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Name(pub String);

impl Value for Name {
    fn expected() -> String {
        "a name of 1 to 32 letters, digits, `-` and `_`".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let text = text(data)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let named = (1..=32).contains(&text.len()) && text.chars().all(plain);
        if named { Ok(Self(text.to_owned())) } else { Err(String::new()) }
    }
    fn show(&self) -> String {
        quote(&self.0)
    }
}

/// Defines names of network interfaces that are valid for the kernel, each with its description in messages.
macro_rules! interfaces {
    ($($(#[doc = $about:literal])* $name:ident = $expected:literal;)*) => {$(
        $(#[doc = $about])*
        #[derive(Clone, PartialEq, Debug)]
        pub(super) struct $name(pub String);

        impl Value for $name {
            fn expected() -> String {
                $expected.to_owned()
            }
            fn read(data: &Data) -> Result<Self, String> {
                interface(data).map(Self)
            }
            fn show(&self) -> String {
                quote(&self.0)
            }
        }
    )*};
}

interfaces! {
    /// Interface towards the hop.
    HopInterface = "the name of the interface towards the hop, e.g. \"eth1\"";
    /// Interface by which a path leaves.
    PathInterface = "the name of the interface by which the path leaves, e.g. \"wwan0\"";
    /// Interface that is trusted.
    Interface = "the name of an interface on which no third party can send, e.g. \"wg0\"";
}

fn interface(data: &Data) -> Result<String, String> {
    let name = text(data)?;
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '"' | '\'' | '\\');
    let named = (1..=15).contains(&name.len()) && name.chars().all(plain) && name != "." && name != "..";
    if named { Ok(name.to_owned()) } else { Err("it is not an interface name".to_owned()) }
}
