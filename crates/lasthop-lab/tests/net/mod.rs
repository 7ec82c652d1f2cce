//! A host and the kernel in a separate namespace.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;

mod faults;
use crate::skip as skipping;

pub use lasthop_lab::host::{Ending, Host, HostConfig, Outcome, Payload, Receiving, Sending, pattern};
use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::tcp::config::{Preset, Switch, TcpConfig};
use lasthop_proto::time::Duration;
use lasthop_sys::clock::Clock;
use skipping::skip;

/// Address of the kernel on the device.
pub const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the host.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Moves the calling thread, and threads that it starts later, to a new network namespace, which is removed with the
/// last of them. Returns `None` without permission, and prints that the test is skipped.
pub fn namespace() -> Option<()> {
    let entered = lasthop_sys::namespace::enter_new();
    if entered.is_err() || !std::path::Path::new("/dev/net/tun").exists() {
        skip("lasthop's own TCP on real packets: it takes root and /dev/net/tun");
        return None;
    }
    Some(())
}

/// Sets a kernel parameter of the namespace.
pub fn sysctl(name: &str, value: &str) {
    let path = format!("/proc/sys/net/ipv4/{name}");
    std::fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Returns errors that lose frames with this probability in both directions.
pub fn lossy(frame_loss: f64) -> [ErrorSpec; 2] {
    let errors = match frame_loss {
        0.0 => ErrorSpec::None,
        frame_loss => ErrorSpec::Uniform { frame_loss, frames: Frames::All },
    };
    [errors.clone(), errors]
}

/// Returns the configuration of a host at [`OURS`], with the kernel at [`KERNEL`].
pub fn config(errors: &[ErrorSpec; 2], seed: u64) -> HostConfig {
    HostConfig {
        name: "host".to_owned(),
        device: "lhtun0".to_owned(),
        kernel_v4: Some((KERNEL, 24)),
        kernel_v6: None,
        addresses: vec![IpAddr::V4(OURS)],
        mtu: 1500,
        seed,
        errors: errors.clone(),
        watch: Switch::Off,
    }
}

/// Opens the host of [`config`].
pub fn open(errors: &[ErrorSpec; 2], seed: u64) -> Host {
    Host::open(config(errors, seed), Clock::start()).expect("host")
}

/// Returns the TCP of current RFCs.
pub fn rfc() -> TcpConfig {
    TcpConfig::preset(Preset::Rfc)
}

/// Returns a transfer from the host's port to the kernel's.
pub fn sending(config: TcpConfig, local: u16, remote: u16) -> Sending {
    Sending {
        config: Arc::new(config),
        local: SocketAddr::from((OURS, local)),
        remote: SocketAddr::from((KERNEL, remote)),
        bytes: 100_000,
        close: Switch::On,
        limit: Duration::from_secs(20),
    }
}

/// Returns a transfer to the host's port.
pub fn receiving(config: TcpConfig, local: u16) -> Receiving {
    Receiving {
        config: Arc::new(config),
        local: SocketAddr::from((OURS, local)),
        remote: None,
        bytes: None,
        payload: Payload::Pattern,
        meter: None,
        limit: Duration::from_secs(20),
    }
}

/// Accepts a connection and reads the pattern to its end. Returns its length, or the position of a wrong byte.
pub fn receive(listener: &TcpListener) -> Result<u64, String> {
    let (mut stream, _) = listener.accept().map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 65536];
    let mut received = 0;
    loop {
        match stream.read(&mut buffer).map_err(|error| format!("at {received}: {error}"))? {
            0 => return Ok(received),
            len => {
                if let Some(at) = pattern::mismatch(received, &buffer[..len]) {
                    return Err(format!("wrong byte at {at}"));
                }
                received += len as u64;
            }
        }
    }
}

/// Connects, sends the pattern, closes, and waits for the peer to close too.
pub fn send(to: impl ToSocketAddrs, bytes: u64) -> Result<u64, String> {
    let mut stream = TcpStream::connect(to).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; bytes as usize];
    pattern::fill(0, &mut buffer);
    stream.write_all(&buffer).map_err(|error| error.to_string())?;
    stream.shutdown(std::net::Shutdown::Write).map_err(|error| error.to_string())?;
    match stream.read(&mut buffer) {
        Ok(0) => Ok(bytes),
        other => Err(format!("instead of its end the peer sent {other:?}")),
    }
}
