//! lasthop's TCP and the kernel's, over a TUN device in a network namespace that vanishes with the test's threads.

mod net;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use lasthop_live::clock::Clock;
use lasthop_live::host::{Ending, Host, HostConfig, Payload, Receiving, Sending, pattern};
use lasthop_proto::channel::{ErrorSpec, Frames};
use lasthop_proto::tcp::config::{Preset, Recovery, Switch, TcpConfig};
use lasthop_proto::time::Duration;
use net::*;

#[test]
fn one_clean_transfer() {
    let Some(_inside) = namespace() else { return };
    let host = open(&lossy(0.0), 1);
    let listener = TcpListener::bind((KERNEL, 5001)).expect("port");
    let peer = thread::spawn(move || receive(&listener));
    let outcome = host.send(Sending { bytes: 1_000_000, ..sending(rfc(), 40_001, 5001) }).expect("host");
    assert_eq!(peer.join().expect("peer"), Ok(1_000_000));
    assert!(outcome.is_intact(), "{outcome:?}");
}
