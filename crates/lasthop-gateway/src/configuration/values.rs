//! Values in the gateway's configuration: addresses, ports, names of interfaces.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use lasthop_settings::check_interface_name;
use lasthop_settings::reading::{Data, Value, quote};

/// Network, or a single address: `10.0.0.0/8`, `2001:db8::1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// First address: all bits after the prefix are zero.
    pub address: IpAddr,
    /// Prefix length, in bits.
    pub prefix: u8,
}

impl Network {
    /// Returns whether the network contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = |ours: u128, theirs: u128, width: u32| {
            let behind = width - u32::from(self.prefix);
            (ours ^ theirs).checked_shr(behind).unwrap_or(0) != 0
        };
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => !differs(ours.to_bits().into(), theirs.to_bits().into(), 32),
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => !differs(ours.to_bits(), theirs.to_bits(), 128),
            _ => false,
        }
    }
}

impl FromStr for Network {
    /// Reason why the text is invalid.
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| format!("{} is not an address", quote(address)))?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix.map(str::parse::<u8>) {
            None => width,
            Some(Ok(prefix)) if prefix <= width => prefix,
            Some(_) => return Err(format!("the prefix length of {} is not 0 to {width}", quote(text))),
        };
        let hosts = match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let behind = u32::from(width - prefix);
        let mask = 1_u128.checked_shl(behind).map_or(u128::MAX, |bit| bit - 1);
        if hosts & mask != 0 {
            return Err(format!("{} has host bits set", quote(text)));
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Single port, or range of ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// First port.
    pub first: u16,
    /// Last port, at least `first`.
    pub last: u16,
}

/// Formats the range in the syntax of iptables: `80`, `8000:8100`.
impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}:{}", self.first, self.last) }
    }
}

impl Value for Network {
    fn expected() -> String {
        "an address or network, such as \"192.0.2.7\" or \"2001:db8::/32\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(text) => text.parse(),
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(&self.to_string())
    }
}

impl Value for PortRange {
    fn expected() -> String {
        "a port from 1 to 65535, or a range, such as \"8000-8100\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let (first, last) = match data {
            Data::Integer(port) => (u16::try_from(*port), u16::try_from(*port)),
            Data::String(text) => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let port =
                    |text: &str| text.trim().parse::<u16>().map_err(|_| format!("{} is not a port", quote(text)));
                (Ok(port(first)?), Ok(port(last)?))
            }
            _ => return Err(String::new()),
        };
        match (first, last) {
            (Ok(first @ 1..), Ok(last)) if first <= last => Ok(Self { first, last }),
            (Ok(1..), Ok(_)) => Err(format!("{} is reversed", data.describe())),
            _ => Err(format!("{} is not a port", data.describe())),
        }
    }
    fn show(&self) -> String {
        if self.first == self.last { self.first.to_string() } else { quote(&format!("{}-{}", self.first, self.last)) }
    }
}

/// Name of a network interface that is valid for the kernel and contains no pattern.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct InterfaceName(pub String);

impl Value for InterfaceName {
    fn expected() -> String {
        "the name of one interface, such as \"wlan0\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(name) => check_interface_name(name).map(|()| Self(name.clone())).map_err(str::to_owned),
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(&self.0)
    }
}
