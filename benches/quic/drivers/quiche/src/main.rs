//! Sends or receives bulk data over quiche, with the settings of its example applications. A packet leaves at the time
//! that quiche's pacer gives.
//!
//! `bulk-quiche server ADDRESS CERT KEY`, `bulk-quiche client ADDRESS down|up BYTES`

use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quiche::{Config, Connection, ConnectionId, RecvInfo, SendInfo};

type Fallible<T> = Result<T, Box<dyn Error>>;

const DATAGRAM: usize = 1350;
const BLOCK: [u8; 65536] = [0; 65536];
/// Of the client's first bidirectional stream.
const STREAM: u64 = 0;
/// A packet that is due within this time leaves at once: sleeping is not more exact.
const SLACK: Duration = Duration::from_micros(100);

fn main() -> Fallible<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", address, cert, key] => serve(address.parse()?, cert, key),
        ["client", address, way, bytes] => transfer(address.parse()?, way == "up", bytes.parse()?),
        _ => Err("usage: bulk-quiche server ADDRESS CERT KEY | client ADDRESS down|up BYTES".into()),
    }
}

fn config() -> Fallible<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"perf"])?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(DATAGRAM);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_data(10_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_max_stream_data_bidi_remote(1_000_000);
    config.set_initial_max_streams_bidi(100);
    config.set_disable_active_migration(true);
    config.verify_peer(false);
    config.log_keys();
    Ok(config)
}

/// Serves one connection after the other.
fn serve(address: SocketAddr, cert: &str, key: &str) -> Fallible<()> {
    let mut config = config()?;
    config.load_cert_chain_from_pem_file(cert)?;
    config.load_priv_key_from_pem_file(key)?;
    let socket = UdpSocket::bind(address)?;
    println!("ready");
    loop {
        let mut first = [0; 65536];
        socket.set_read_timeout(None)?;
        let (len, from) = socket.recv_from(&mut first)?;
        let id = ConnectionId::from_vec((0..16).map(|index| index ^ first[6 + index as usize]).collect());
        let mut connection = quiche::accept(&id, None, address, from, &mut config)?;
        connection.recv(&mut first[..len], RecvInfo { from, to: address })?;
        let mut work = Answer::default();
        run(&socket, address, &mut connection, |connection| work.step(connection))?;
    }
}

fn transfer(address: SocketAddr, up: bool, bytes: u64) -> Fallible<()> {
    let mut config = config()?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    let local = socket.local_addr()?;
    let id = ConnectionId::from_vec(local.port().to_be_bytes().repeat(8));
    let mut connection = quiche::connect(Some("bulk.test"), &id, local, address, &mut config)?;
    if let Ok(name) = std::env::var("SSLKEYLOGFILE") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(name)?;
        connection.set_keylog(Box::new(file));
    }
    let head = if up { 0 } else { bytes }.to_be_bytes().to_vec();
    let mut source = Source { head, left: if up { bytes } else { 0 }, ended: false };
    run(&socket, local, &mut connection, |connection| {
        if connection.is_established() {
            source.step(connection)?;
            if drain(connection, &mut Vec::new())? {
                connection.close(true, 0, b"")?;
            }
        }
        Ok(())
    })
}

/// Drives a connection until it is closed.
fn run(
    socket: &UdpSocket,
    local: SocketAddr,
    connection: &mut Connection,
    mut step: impl FnMut(&mut Connection) -> Fallible<()>,
) -> Fallible<()> {
    let mut inbound = [0; 65536];
    let mut outbound = [0; DATAGRAM];
    let mut waiting: Option<(usize, SendInfo)> = None;
    while !connection.is_closed() {
        step(connection)?;
        loop {
            let (len, info) = match waiting.take() {
                Some(packet) => packet,
                None => match connection.send(&mut outbound) {
                    Ok(packet) => packet,
                    Err(quiche::Error::Done) => break,
                    Err(error) => return Err(error.into()),
                },
            };
            if info.at > Instant::now() + SLACK {
                waiting = Some((len, info));
                break;
            }
            match socket.peer_addr() {
                Ok(_) => socket.send(&outbound[..len])?,
                Err(_) => socket.send_to(&outbound[..len], info.to)?,
            };
        }
        let timer = connection.timeout().map(|timeout| Instant::now() + timeout);
        let due = timer.into_iter().chain(waiting.map(|(_, info)| info.at)).min();
        let wait = due.map_or(Duration::from_secs(1), |due| due.saturating_duration_since(Instant::now()));
        socket.set_read_timeout(Some(wait.max(Duration::from_micros(50))))?;
        // Everything that has arrived is processed before the next packet is sent, as in quiche's applications.
        loop {
            match socket.recv_from(&mut inbound) {
                Ok((len, from)) => match connection.recv(&mut inbound[..len], RecvInfo { from, to: local }) {
                    Ok(_) | Err(quiche::Error::Done) => socket.set_nonblocking(true)?,
                    Err(error) => return Err(error.into()),
                },
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        socket.set_nonblocking(false)?;
        if timer.is_some_and(|timer| timer <= Instant::now()) {
            connection.on_timeout();
        }
    }
    Ok(())
}

/// Server's side: reads a length and data to their end, then sends as much as the length says.
#[derive(Default)]
struct Answer {
    head: Vec<u8>,
    source: Option<Source>,
}

impl Answer {
    fn step(&mut self, connection: &mut Connection) -> Fallible<()> {
        if self.source.is_none() && drain(connection, &mut self.head)? {
            let left = u64::from_be_bytes(self.head[..].try_into()?);
            self.source = Some(Source { head: Vec::new(), left, ended: false });
        }
        self.source.as_mut().map_or(Ok(()), |source| source.step(connection))
    }
}

/// Bytes to send: a head, then zeros.
struct Source {
    head: Vec<u8>,
    left: u64,
    ended: bool,
}

impl Source {
    fn step(&mut self, connection: &mut Connection) -> Fallible<()> {
        while !self.ended {
            let next =
                if self.head.is_empty() { &BLOCK[..self.left.min(BLOCK.len() as u64) as usize] } else { &self.head };
            let last = if self.head.is_empty() { next.len() as u64 == self.left } else { self.left == 0 };
            match connection.stream_send(STREAM, next, last) {
                Ok(sent) if self.head.is_empty() => {
                    self.ended = last && sent == next.len();
                    self.left -= sent as u64;
                    if sent == 0 && !self.ended {
                        break;
                    }
                }
                Ok(sent) => {
                    self.ended = last && sent == next.len();
                    self.head.drain(..sent);
                }
                Err(quiche::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Reads what has arrived, keeps its first 8 bytes, and returns `true` after the last of it.
fn drain(connection: &mut Connection, head: &mut Vec<u8>) -> Fallible<bool> {
    let mut into = [0; 65536];
    while connection.stream_readable(STREAM) {
        match connection.stream_recv(STREAM, &mut into) {
            Ok((len, end)) => {
                head.extend(into[..len].iter().take(8_usize.saturating_sub(head.len())));
                if end {
                    return Ok(true);
                }
            }
            Err(quiche::Error::Done) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}
