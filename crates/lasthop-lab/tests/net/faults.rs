//! Tests of faults and unusual behaviour of peers, kernels and paths.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use lasthop_lab::host::HostError;
use lasthop_proto::channel::{Drop, DropFrame, ErrorSpec, Frames};
use lasthop_proto::event::Event;
use lasthop_proto::tcp::config::{Clock, Preset, Recovery, SenderConfig, Switch, TcpConfig};
use lasthop_proto::time::Duration;
use lasthop_sys::clock::Clock as Timepiece;
use socket2::{Domain, Protocol, Socket, Type};

use super::*;

/// Size of a transfer that exceeds every buffer on the path.
const ENDLESS: u64 = 1 << 40;

fn pause(millis: u64) {
    thread::sleep(std::time::Duration::from_millis(millis));
}

/// Returns our TCP with timeouts so short that giving up takes a second or two.
fn impatient() -> TcpConfig {
    let short = Duration::from_millis(50);
    rfc().with(|c| {
        c.common.rto_initial = short;
        c.common.rto_min = short;
        c.common.rto_max = Duration::from_millis(200);
        c.common.max_retries = 5;
    })
}

/// Closes with a reset.
fn cut(stream: TcpStream) {
    Socket::from(stream).set_linger(Some(std::time::Duration::ZERO)).expect("SO_LINGER");
}

#[test]
fn a_kernel_resets_what_we_send() {
    if namespace().is_none() {
        return;
    }
    let host = open(&lossy(0.0), 1);
    let listener = TcpListener::bind((KERNEL, 5000)).expect("port");
    let kernel = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("connection");
        stream.read_exact(&mut [0; 50_000]).expect("data");
        cut(stream);
    });
    let outcome = host.send(Sending { bytes: ENDLESS, ..sending(rfc(), 4000, 5000) }).expect("host");
    kernel.join().expect("kernel");
    assert_eq!(outcome.ending, Ending::Reset);
    // Data that the kernel received and had not acknowledged is unknown here.
    assert!(outcome.end > outcome.start && outcome.acked > 0, "{}", outcome.acked);
    // The port is closed: the SYN is refused.
    let outcome = host.send(sending(rfc(), 4001, 5000)).expect("host");
    assert_eq!((outcome.ending, outcome.acked), (Ending::Reset, 0));
}

#[test]
fn a_kernel_resets_what_it_sends() {
    if namespace().is_none() {
        return;
    }
    let host = open(&lossy(0.0), 1);
    let ours = host.start_receiving(receiving(rfc(), 4000)).expect("host");
    let mut stream = TcpStream::connect((OURS, 4000)).expect("connection");
    let mut bytes = vec![0; 50_000];
    pattern::fill(0, &mut bytes);
    stream.write_all(&bytes).expect("data");
    pause(400);
    cut(stream);
    let outcome = ours.wait().expect("host");
    assert_eq!((outcome.ending, outcome.received, outcome.mismatch), (Ending::Reset, 50_000, None));
}

#[test]
fn we_reset_what_we_send() {
    if namespace().is_none() {
        return;
    }
    let host = open(&lossy(0.0), 1);
    let listener = TcpListener::bind((KERNEL, 5000)).expect("port");
    let kernel = thread::spawn(move || receive(&listener));
    let ours = host.start_sending(Sending { bytes: ENDLESS, ..sending(rfc(), 4000, 5000) }).expect("host");
    pause(400);
    ours.abort();
    let outcome = ours.wait().expect("host");
    assert_eq!(outcome.ending, Ending::Aborted);
    assert!(outcome.acked > 0);
    let kernel = kernel.join().expect("kernel").expect_err("no end of the stream");
    assert!(kernel.contains("reset"), "{kernel}");
}

#[test]
fn we_reset_what_we_receive() {
    if namespace().is_none() {
        return;
    }
    let host = open(&lossy(0.0), 1);
    let ours = host.start_receiving(receiving(rfc(), 4000)).expect("host");
    let mut stream = TcpStream::connect((OURS, 4000)).expect("connection");
    pause(400);
    ours.abort();
    assert_eq!(ours.wait().expect("host").ending, Ending::Aborted);
    let error = stream.read(&mut [0; 10]).expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    // Dropping the host resets the other connections, and answers waiting callers.
    let ours = host.start_receiving(receiving(rfc(), 4000)).expect("host");
    let waits = host.start_receiving(receiving(rfc(), 4001)).expect("host");
    let mut stream = TcpStream::connect((OURS, 4000)).expect("connection");
    stream.write_all(&[0]).expect("data");
    pause(400);
    drop(host);
    let outcome = ours.wait().expect("an outcome");
    assert_eq!((outcome.ending, outcome.mismatch), (Ending::Aborted, Some(0)));
    assert_eq!(waits.wait().expect("an outcome").ending, Ending::Aborted);
    assert_eq!(stream.read(&mut [0; 10]).map_err(|error| error.kind()), Err(std::io::ErrorKind::ConnectionReset));
}

#[test]
fn a_kernel_that_dies() {
    if namespace().is_none() {
        return;
    }
    // The first 60 frames of each direction pass, none after them.
    let dies =
        ErrorSpec::Replay { trace: Arc::new((0..100_000).map(|frame| frame >= 60).collect()), frames: Frames::All };
    let host = open(&[dies.clone(), dies], 1);
    let listener = TcpListener::bind((KERNEL, 5000)).expect("port");
    let _kernel = thread::spawn(move || receive(&listener));
    let outcome = host.send(Sending { bytes: 1_000_000, ..sending(impatient(), 4000, 5000) }).expect("host");
    assert_eq!(outcome.ending, Ending::GaveUp);
    assert!(outcome.sender.timeouts >= 5, "{}", outcome.sender.timeouts);
    assert!(outcome.acked > 0 && outcome.acked < 1_000_000, "{}", outcome.acked);
    assert!(outcome.events.iter().any(|(_, event)| *event == Event::Aborted));
    // The peer is unreachable.
    let outcome = host.send(sending(impatient(), 4001, 5000)).expect("host");
    assert_eq!((outcome.ending, outcome.acked), (Ending::GaveUp, 0));
    // A receiver gets nothing, and does not give up before its limit.
    let waiting = Receiving { limit: Duration::from_millis(200), ..receiving(impatient(), 4000) };
    assert_eq!(host.receive(waiting).expect("host").ending, Ending::OutOfTime);
}

#[test]
fn what_finds_no_connection_is_refused() {
    if namespace().is_none() {
        return;
    }
    let host = open(&lossy(0.0), 1);
    let refused = TcpStream::connect((OURS, 4000)).expect_err("nobody listens");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let elsewhere = Sending { local: SocketAddr::from((KERNEL, 4000)), ..sending(rfc(), 4000, 5000) };
    assert!(matches!(host.send(elsewhere), Err(HostError::NotOurs(_))));
    let mixed = Sending { remote: SocketAddr::from((Ipv6Addr::LOCALHOST, 5000)), ..sending(rfc(), 4000, 5000) };
    assert!(matches!(host.send(mixed), Err(HostError::Families(..))));
    let listener = TcpListener::bind((KERNEL, 5000)).expect("port");
    let twice = || Sending { bytes: ENDLESS, ..sending(rfc(), 4000, 5000) };
    let first = host.start_sending(twice()).expect("host");
    assert!(matches!(host.start_sending(twice()), Err(HostError::Busy(..))));
    first.abort();
    drop(listener);
    assert!(matches!(
        Host::open(HostConfig { device: "lh/1".to_owned(), ..config(&lossy(0.0), 1) }, Timepiece::start()),
        Err(HostError::Device { .. })
    ));
}

/// Accepts a connection with a receive buffer of `buffer` bytes (the kernel doubles it), and reads it slowly, after a
/// pause in which it fills.
fn read_slowly(port: u16, buffer: usize) -> thread::JoinHandle<u64> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("socket");
    socket.set_recv_buffer_size(buffer).expect("SO_RCVBUF");
    socket.bind(&SocketAddr::from((KERNEL, port)).into()).expect("port");
    socket.listen(1).expect("listen");
    let listener = TcpListener::from(socket);
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("connection");
        pause(500);
        let mut received = 0;
        let mut buffer = [0; 700];
        loop {
            match stream.read(&mut buffer).expect("data") {
                0 => break received,
                len => {
                    assert_eq!(pattern::mismatch(received, &buffer[..len]), None);
                    received += len as u64;
                    pause(1);
                }
            }
        }
    })
}

/// Tests a kernel's minimum receive buffer, where the window never quite closes, and a larger one, where it does.
#[test]
fn a_kernel_with_a_tiny_window() {
    if namespace().is_none() {
        return;
    }
    let host = open(&lossy(0.0), 1);
    let mut transfers = Vec::new();
    for preset in [Preset::Rfc, Preset::Ns2, Preset::BsdLite] {
        // Otherwise probes would be sent after 4.4BSD's 5 s, and after increasing intervals if they are refused.
        let config = TcpConfig::preset(preset).with(|c| {
            c.common.clock = Clock::Fine;
            c.common.rto_min = Duration::from_millis(100);
            c.common.rto_max = Duration::from_millis(200);
        });
        for (buffer, bytes) in [(2304, 15_000), (8000, 60_000)] {
            let port = 5000 + transfers.len() as u16;
            let kernel = read_slowly(port, buffer);
            let ours = host.start_sending(Sending { bytes, ..sending(config.clone(), port, port) }).expect("host");
            transfers.push((buffer, bytes, ours, kernel));
        }
    }
    for (buffer, bytes, ours, kernel) in transfers {
        let outcome = ours.wait().expect("host");
        assert_eq!(kernel.join().expect("kernel"), bytes);
        assert!(outcome.is_intact(), "{outcome:?}");
        let closed = outcome.events.iter().any(|(_, event)| *event == Event::ZeroWindow);
        assert!(closed || buffer == 2304, "{:?}", outcome.events);
    }
}

/// Tests a receive buffer of lasthop's TCP that is smaller than two segments.
#[test]
fn a_tiny_window_of_ours() {
    if namespace().is_none() {
        return;
    }
    let host = open(&lossy(0.0), 1);
    let config = rfc().with(|c| {
        c.receiver.receive_buffer = 2000;
        c.receiver.window_scale = None;
    });
    let ours = host.start_receiving(receiving(config, 4000)).expect("host");
    assert_eq!(send((OURS, 4000), 20_000), Ok(20_000));
    let outcome = ours.wait().expect("host");
    assert!(outcome.is_intact() && outcome.received == 20_000, "{outcome:?}");
}

/// Tests a kernel that offers less (no window scaling, small segments) and one that requests more (ECN).
#[test]
fn a_kernel_that_offers_less_or_more() {
    if namespace().is_none() {
        return;
    }
    sysctl("tcp_window_scaling", "0");
    sysctl("tcp_ecn", "1");
    let host = open(&lossy(0.0), 1);
    for (mss, port) in [(536, 5000), (100, 5001)] {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("socket");
        socket.set_tcp_mss(mss).expect("TCP_MAXSEG");
        socket.bind(&SocketAddr::from((KERNEL, port)).into()).expect("port");
        socket.listen(1).expect("listen");
        let listener = TcpListener::from(socket);
        let kernel = thread::spawn(move || receive(&listener));
        let outcome = host.send(sending(rfc(), port, port)).expect("host");
        assert_eq!(kernel.join().expect("kernel"), Ok(100_000));
        // The kernel's maximum includes timestamps (RFC 6691).
        assert!(outcome.is_intact() && outcome.segments >= 100_000_u64.div_ceil(u64::from(mss) - 12), "{outcome:?}");
        let ours = host.start_receiving(receiving(rfc(), port)).expect("host");
        assert_eq!(send((OURS, port), 300_000), Ok(300_000));
        assert!(ours.wait().expect("host").is_intact());
    }
}

/// Both ends open at the same time, and one of the two SYNs is lost.
#[test]
fn both_open_at_once() {
    if namespace().is_none() {
        return;
    }
    let first_syn = ErrorSpec::List(Arc::new(vec![Drop { flow: None, frame: DropFrame::Syn(1) }]));
    for (port, errors) in [(5000, [first_syn.clone(), ErrorSpec::None]), (5001, [first_syn.clone(), first_syn])] {
        let host = open(&errors, 1);
        let kernel = thread::spawn(move || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("socket");
            socket.bind(&SocketAddr::from((KERNEL, port)).into()).expect("port");
            socket.connect(&SocketAddr::from((OURS, port)).into()).expect("connection");
            let mut stream = TcpStream::from(socket);
            stream.shutdown(Shutdown::Write).expect("half-close");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("data");
            assert_eq!(pattern::mismatch(0, &bytes), None);
            bytes.len() as u64
        });
        pause(400);
        let outcome = host.send(sending(rfc(), port, port)).expect("host");
        assert_eq!(kernel.join().expect("kernel"), 100_000);
        assert!(outcome.is_intact(), "{outcome:?}");
    }
}

#[test]
fn ipv6() {
    if namespace().is_none() {
        return;
    }
    let [kernel, ours] = [1, 2].map(|last| Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last));
    let config = HostConfig { kernel_v6: Some((kernel, 64)), addresses: vec![ours.into()], ..config(&lossy(0.02), 1) };
    let host = Host::open(config, Timepiece::start()).expect("host");
    // An IPv6 address can be used a moment after it was added.
    let bound = (0..100).find_map(|_| TcpListener::bind((kernel, 5000)).map_err(|_| pause(20)).ok());
    let listener = bound.expect("port");
    let peer = thread::spawn(move || receive(&listener));
    let addresses = (SocketAddr::from((ours, 4000)), SocketAddr::from((kernel, 5000)));
    let sending = Sending { local: addresses.0, remote: addresses.1, ..sending(impatient_but_steady(), 4000, 5000) };
    assert!(host.send(sending).expect("host").is_intact());
    assert_eq!(peer.join().expect("kernel"), Ok(100_000));
    let receiving = Receiving { local: addresses.0, ..receiving(impatient_but_steady(), 4000) };
    let waiting = host.start_receiving(receiving).expect("host");
    assert_eq!(send((ours, 4000), 100_000), Ok(100_000));
    assert!(waiting.wait().expect("host").is_intact());
}

fn impatient_but_steady() -> TcpConfig {
    impatient().with(|c| c.common.max_retries = 30)
}

/// Returns two hosts with lasthop's TCP, each behind a device, with the kernel as the router between them.
fn two_hosts(errors: &[ErrorSpec; 2], watch: Switch) -> [Host; 2] {
    sysctl("ip_forward", "1");
    let clock = Timepiece::start();
    let first = HostConfig { watch, ..config(&lossy(0.0), 1) };
    let second = HostConfig {
        device: "lhtun1".to_owned(),
        kernel_v4: Some((Ipv4Addr::new(10, 78, 0, 1), 24)),
        addresses: vec![FAR.into()],
        ..config(errors, 2)
    };
    [first, second].map(|config| Host::open(config, clock).expect("host"))
}

const FAR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);

fn across(hosts: &[Host; 2], config: &TcpConfig, bytes: u64) -> [Outcome; 2] {
    let to = Receiving { local: SocketAddr::from((FAR, 5000)), ..receiving(config.clone(), 5000) };
    let to = hosts[1].start_receiving(to).expect("host");
    let from = Sending { remote: SocketAddr::from((FAR, 5000)), bytes, ..sending(config.clone(), 4000, 5000) };
    let from = hosts[0].send(from).expect("host");
    [from, to.wait().expect("host")]
}

/// Tests the schemes that no kernel has between two hosts with lasthop's TCP, over errors that damage payloads.
#[test]
fn our_schemes_between_hosts_of_ours() {
    if namespace().is_none() {
        return;
    }
    let damaging = ErrorSpec::Exponential { mean_bytes: 40_000.0, frames: Frames::Data };
    for recovery in [Recovery::SMART, Recovery::ELN, Recovery::ELN_RXMT, Recovery::SACK] {
        let hosts = two_hosts(&[damaging.clone(), ErrorSpec::None], Switch::On);
        let config = impatient_but_steady().with(|c| {
            c.sender = SenderConfig::new(Preset::Rfc, recovery);
            c.receiver.smart_acks = if recovery == Recovery::SMART { Switch::On } else { Switch::Off };
            c.common.sack_eln = if recovery == Recovery::SACK { Switch::On } else { Switch::Off };
        });
        let [from, to] = across(&hosts, &config, 1_000_000);
        assert!(from.is_intact() && to.is_intact() && to.received == 1_000_000, "{recovery:?} {from:?} {to:?}");
        assert!(from.sender.recoveries > 0 && from.sender.source_retransmissions > 0, "{recovery:?}");
        assert!(to.damaged > 0, "{recovery:?}");
        let flow = Outcome::flow_report(&from, &to);
        assert!(flow.complete && !flow.aborted && flow.throughput() > 0.0 && flow.end <= from.end, "{flow:?}");
    }
}

/// The far device has a smaller MTU than announced: the router reports it, and the transfer continues.
#[test]
fn a_path_that_takes_less() {
    if namespace().is_none() {
        return;
    }
    let hosts = two_hosts(&lossy(0.0), Switch::Off);
    let set = Command::new("ip").args(["link", "set", "lhtun1", "mtu", "1000"]).status().expect("ip");
    assert!(set.success());
    let [from, to] = across(&hosts, &rfc(), 200_000);
    assert!(from.is_intact() && to.is_intact() && to.received == 200_000, "{from:?} {to:?}");
    // 948 bytes each, without timeouts: segments that were too large were retransmitted at once.
    assert!(from.segments >= 211 && from.sender.timeouts == 0, "{from:?}");
}
