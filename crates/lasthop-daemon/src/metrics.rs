//! Metrics of a daemon for Prometheus, over HTTP on a loopback address: `GET /metrics` only.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use crate::clients;

/// Maximum size of a request with its headers, in bytes.
const LONGEST_REQUEST: usize = 8192;

/// The address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics on {address}: {error}")]
pub struct MetricsError {
    address: SocketAddr,
    error: io::Error,
}

/// Binds the address.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn bind(address: SocketAddr) -> Result<TcpListener, MetricsError> {
    TcpListener::bind(address).map_err(|error| MetricsError { address, error })
}

/// Serves the text from `encode` in threads of its own.
///
/// # Errors
///
/// Returns an error if no thread can be started.
pub fn serve(
    listener: TcpListener,
    encode: impl Fn() -> Result<String, fmt::Error> + Send + Sync + 'static,
) -> io::Result<()> {
    const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let address = listener.local_addr()?.ip();
    clients::serve("metrics", listener, BUSY, move |client| {
        let headers_end = |bytes: &[u8]| bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        client.hear(LONGEST_REQUEST, headers_end, |request| {
            answer(&String::from_utf8_lossy(request), address, &encode)
        })?;
        Ok(())
    })
}

fn answer(request: &str, address: IpAddr, encode: impl Fn() -> Result<String, fmt::Error>) -> io::Result<Vec<u8>> {
    let mut words = request.split_ascii_whitespace();
    let (status, kind, body) = match (words.next(), words.next()) {
        _ if !request.ends_with("\r\n\r\n") => (
            "431 Request Header Fields Too Large",
            "text/plain",
            format!("a request has at most {LONGEST_REQUEST} bytes\n"),
        ),
        _ if !is_meant_for(request, address) => {
            let text = format!("this host name is not served; use localhost or {address}\n");
            ("421 Misdirected Request", "text/plain", text)
        }
        (Some("GET"), Some("/metrics")) => {
            let body = encode().map_err(io::Error::other)?;
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", body)
        }
        (Some("GET"), Some(_)) => ("404 Not Found", "text/plain", "not found; metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "only GET is supported\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    Ok((head + &body).into_bytes())
}

/// Returns whether a request is addressed to `address`, or to this machine by a loopback name. Otherwise another site's
/// page could read the answer through a name that resolves to this address (DNS rebinding).
fn is_meant_for(request: &str, address: IpAddr) -> bool {
    let hosts = request.lines().skip(1).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let admitted = |host: &str| {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let known = |ip: IpAddr| ip.is_loopback() || ip == address;
        name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(known)
    };
    let hosts: Vec<_> = hosts.collect();
    matches!(hosts[..], [host] if admitted(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_the_configured_address_are_served() {
        let address = "127.0.0.9".parse().unwrap();
        let asked = |headers: &str| is_meant_for(&format!("GET /metrics HTTP/1.1\r\n{headers}\r\n\r\n"), address);
        for host in ["localhost", "LOCALHOST:9469", "127.0.0.1:9469", "127.0.0.9", "[::1]:80"] {
            assert!(asked(&format!("Accept: */*\r\nhost:{host}")), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example:9469", "127.0.0.1.evil.example", "192.0.2.1", "", "::", "[::1"]
        {
            assert!(!asked(&format!("Host: {host}")), "{host}");
        }
        assert!(!asked("Accept: */*") && !asked("Host: localhost\r\nHost: evil.example"));
    }
}
