//! Minimal program between a TUN device and a UDP socket: packets become datagrams and vice versa, in the tunnel's
//! batches, without encryption, numbers or repair. It is the baseline of the tunnel's speed. `bare_tunnel
//! ADDRESS/LENGTH LISTEN PEER` runs until a signal ends it.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use lasthop_proto::packet::Ecn;
use lasthop_sys::poll::wait;
use lasthop_tunnel::SocketId;
use lasthop_tunneld::device::{Device, Reader, Writer};
use lasthop_tunneld::engine::{Datagram, Outbox};
use lasthop_tunneld::plan::Routed;
use lasthop_tunneld::socket::{Batch, Inbox, Sending, Udp};
use rustix::event::{PollFd, PollFlags};

/// MTU of the tunnel over a path of 1500 bytes.
const MTU: u16 = 1442;
/// Maximum number of packets to read from the device before the socket gets its turn, as in the tunnel.
const PACKETS: usize = 1_024;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [address, listen, peer] = &arguments[..] else {
        return Err("usage: bare_tunnel ADDRESS/LENGTH LISTEN PEER".into());
    };
    let address: ipnet::IpNet = address.parse()?;
    let (listen, to): (SocketAddr, SocketAddr) = (listen.parse()?, peer.parse()?);
    let udp = Udp::bind(listen, None)?;
    let routed = Routed { listen, mtu: MTU, address: vec![(address.addr(), address.prefix_len())], routes: Vec::new() };
    let device = Device::open("bare", &routed)?;
    let (mut inbox, mut reader, mut writer, mut batch) =
        (Inbox::default(), Reader::default(), Writer::new(&device), Batch::default());
    println!("ready");
    loop {
        let mut fds = [PollFd::new(&udp, PollFlags::IN), PollFd::new(&device, PollFlags::IN)];
        wait(&mut fds, Duration::from_secs(1))?;
        inbox.fill(&udp)?;
        inbox.for_each(|datagram| writer.put(&device, datagram.bytes));
        writer.flush(&device);
        let mut sending = Sending { udp: &udp, batch: &mut batch };
        let mut taken = 0;
        while taken < PACKETS {
            let count = reader.read(&device, |bytes| {
                sending.put(Datagram { to, socket: SocketId::default(), from: None, ecn: Ecn::NotEct, bytes })
            })?;
            if count == 0 {
                break;
            }
            taken += count;
        }
        batch.flush(&udp);
    }
}
