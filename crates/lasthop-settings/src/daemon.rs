//! Settings common to all daemons: sockets, access, and the log level.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::document::{Data, quote};
use crate::reader::Value;

/// An absolute path.
#[derive(Clone, PartialEq, Debug)]
pub struct AbsolutePath(pub PathBuf);

impl Value for AbsolutePath {
    fn expected() -> String {
        // The kernel's limit on the names of Unix sockets.
        "an absolute path of at most 107 bytes, e.g. \"/run/lasthop/gateway.sock\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(text) if text.len() <= 107 && !text.contains('\0') => {
                let path = PathBuf::from(text);
                if path.is_absolute() { Ok(Self(path)) } else { Err("the path is relative".to_owned()) }
            }
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(&self.0.display().to_string())
    }
}

/// A group of users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Group {
    /// Name in `/etc/group`.
    Named(String),
    /// Number.
    Numbered(u32),
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Numbered(number) => number.fmt(f),
        }
    }
}

impl Value for Group {
    fn expected() -> String {
        "the name or number of a group of users, e.g. \"netdev\" or 108".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(name) => {
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
                let named = (1..=32).contains(&name.len()) && name.chars().all(plain) && !name.starts_with('-');
                if named { Ok(Self::Named(name.clone())) } else { Err("not a valid group name".to_owned()) }
            }
            // The highest number means no group.
            Data::Integer(number) => match u32::try_from(*number) {
                Ok(number) if number < u32::MAX => Ok(Self::Numbered(number)),
                _ => Err("not a valid group number".to_owned()),
            },
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        match self {
            Self::Named(name) => quote(name),
            Self::Numbered(number) => number.to_string(),
        }
    }
}

/// A loopback address with its port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Address(pub SocketAddr);

impl Value for Address {
    fn expected() -> String {
        "a loopback address with a port, e.g. \"127.0.0.1:9469\" or \"[::1]:9469\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let Data::String(text) = data else { return Err(String::new()) };
        match text.parse::<SocketAddr>() {
            Ok(address) if !address.ip().is_loopback() => Err("other machines could reach it".to_owned()),
            Ok(address) => Ok(Self(address)),
            Err(_) => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(&self.0.to_string())
    }
}

/// Minimum severity of logged messages.
#[derive(Clone, PartialEq, Debug)]
pub struct LogLevel(pub String);

impl Value for LogLevel {
    fn expected() -> String {
        "one of \"error\", \"warn\", \"info\", \"debug\", \"trace\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        match data {
            Data::String(level) if ["error", "warn", "info", "debug", "trace"].contains(&level.as_str()) => {
                Ok(Self(level.clone()))
            }
            _ => Err(String::new()),
        }
    }
    fn show(&self) -> String {
        quote(&self.0)
    }
}
