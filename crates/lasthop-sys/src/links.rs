//! Interfaces towards the lossy hops: indices and MTUs, updated whenever the kernel reports a change (rtnetlink); and
//! ports of bridges.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NlasIterator};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::netlink::{DONE, HEADER, LARGEST, Request, Socket, messages};
use crate::poll::wait;

/// Time to wait for the kernel's answers, which are immediate.
const PATIENCE: Duration = Duration::from_millis(100);
/// Maximum number of datagrams read per call, so that a storm of them does not block the caller.
const TURN: usize = 256;

/// Length of `ifinfomsg`, in bytes.
const INFO: usize = 16;

/// Makes an interface a port of a bridge, both given by their indices, or of none.
///
/// # Errors
///
/// Returns the kernel's error.
pub fn set_bridge(socket: &mut Socket, interface: u32, bridge: Option<u32>) -> io::Result<()> {
    let mut header = [0; INFO];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    let request = Request::one(libc::RTM_NEWLINK, &header);
    socket.ask(request.with(libc::IFLA_MASTER, &bridge.unwrap_or(0).to_ne_bytes()), PATIENCE, |_, _| {})
}

/// One of the interfaces.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Link {
    name: String,
    index: u32,
    mtu: u32,
}

/// State of the requested interfaces.
#[derive(Debug)]
pub struct Links {
    changes: Changes,
    names: Vec<String>,
    found: Vec<Link>,
}

/// Completeness of a requested list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    Open,
    Complete,
}

impl Links {
    /// Listens for changes; no interface is known yet.
    pub fn open() -> io::Result<Self> {
        Ok(Self { changes: Changes::listen()?, names: Vec::new(), found: Vec::new() })
    }

    /// Requests the interfaces with these names, existing and future ones. Existing ones are known on return.
    pub fn follow(&mut self, names: Vec<String>) -> io::Result<()> {
        self.names = names;
        self.found.clear();
        self.ask()?;
        let end = Instant::now() + PATIENCE;
        while self.take()? == List::Open {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The rest is read like any change.
                break;
            }
            wait(&mut [PollFd::new(&self.changes.socket, PollFlags::IN)], left)?;
        }
        Ok(())
    }

    /// Reads pending changes.
    pub fn read(&mut self) -> io::Result<()> {
        self.take().map(drop)
    }

    /// Returns whether an interface has this index.
    pub fn contains(&self, index: u32) -> bool {
        self.found.iter().any(|link| link.index == index)
    }

    /// Returns the index of the interface with this name.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.found.iter().find(|link| link.name == name).map(|link| link.index)
    }

    /// Returns the smallest of the interfaces' MTUs, in bytes; `None` without interfaces.
    pub fn mtu(&self) -> Option<u16> {
        let least = self.found.iter().map(|link| link.mtu).min()?;
        Some(u16::try_from(least).unwrap_or(u16::MAX))
    }

    /// Requests the list of all interfaces.
    fn ask(&self) -> io::Result<()> {
        let mut request = NetlinkBuffer::new([0; HEADER + INFO]);
        request.set_length((HEADER + INFO) as u32);
        request.set_message_type(libc::RTM_GETLINK);
        request.set_flags(NLM_F_REQUEST | NLM_F_DUMP);
        rustix::net::send(&self.changes.socket, &request.into_inner(), SendFlags::empty())?;
        Ok(())
    }

    fn take(&mut self) -> io::Result<List> {
        let Self { changes, names, found } = self;
        let mut list = List::Open;
        let heard = changes.take(|kind, body| match kind {
            libc::RTM_NEWLINK => note(found, names, body),
            libc::RTM_DELLINK => forget(found, body),
            DONE => list = List::Complete,
            _ => {}
        })?;
        if heard == Heard::Gaps {
            self.ask()?;
        }
        Ok(list)
    }
}

impl AsFd for Links {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.socket.as_fd()
    }
}

/// Watches whether an interface goes down and up again, which removes its routes and IPv6 addresses.
#[derive(Debug)]
pub struct Watch {
    changes: Changes,
    number: u32,
    is_down: bool,
}

impl Watch {
    /// Listens for changes of the interface with this index, which must be up.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn open(number: u32) -> io::Result<Self> {
        Ok(Self { changes: Changes::listen()?, number, is_down: false })
    }

    /// Returns whether the interface is up and, as far as known, was down since the last call.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel reports an error.
    pub fn is_up_again(&mut self) -> io::Result<bool> {
        let Self { changes, number, is_down } = self;
        let mut again = false;
        let heard = changes.take(|kind, body| {
            let of_it = body.first() == Some(&(libc::AF_UNSPEC as u8)) && index(body) == Some(*number);
            match flags(body).filter(|_| kind == libc::RTM_NEWLINK && of_it) {
                Some(flags) if flags & libc::IFF_UP as u32 == 0 => *is_down = true,
                Some(_) => again |= std::mem::take(is_down),
                None => {}
            }
        })?;
        // A lost message may have concerned this interface.
        Ok((again || heard == Heard::Gaps) && !self.is_down)
    }
}

/// Socket on which the kernel reports changes of interfaces.
#[derive(Debug)]
struct Changes {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// Completeness of the reported changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    All,
    /// Some changes were lost because the socket's buffer was full.
    Gaps,
}

impl Changes {
    fn listen() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // NETLINK_ROUTE is protocol 0.
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, libc::RTMGRP_LINK as u32))?;
        Ok(Self { socket, buffer: vec![0; LARGEST] })
    }

    /// Passes pending messages, up to a limit, to `message`, as kind and body.
    fn take(&mut self, mut message: impl FnMut(u16, &[u8])) -> io::Result<Heard> {
        let mut heard = Heard::All;
        for _ in 0..TURN {
            match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => messages(&self.buffer[..len]).for_each(|(kind, body)| message(kind, body)),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(Errno::NOBUFS) => heard = Heard::Gaps,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(heard)
    }
}

fn flags(body: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(body.get(8..12)?.try_into().ok()?))
}

fn index(body: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?))
}

/// Records an existing interface, possibly with a new name or MTU.
fn note(found: &mut Vec<Link>, names: &[String], body: &[u8]) {
    let (Some(index), Some(attributes)) = (index(body), body.get(INFO..)) else { return };
    let (mut name, mut mtu) = (None, None);
    for attribute in NlasIterator::new(attributes).map_while(Result::ok) {
        match (attribute.kind(), attribute.value()) {
            (libc::IFLA_IFNAME, value) => {
                name = std::ffi::CStr::from_bytes_until_nul(value).ok().map(|name| name.to_bytes().to_owned());
            }
            (libc::IFLA_MTU, value) => mtu = value.try_into().ok().map(u32::from_ne_bytes),
            _ => {}
        }
    }
    let (Some(name), Some(mtu)) = (name, mtu) else { return };
    found.retain(|link| link.index != index);
    if let Some(name) = names.iter().find(|wanted| wanted.as_bytes() == name) {
        found.push(Link { name: name.clone(), index, mtu });
    }
}

/// Removes an interface. Messages of a bridge about its ports (`AF_BRIDGE`) do not remove one.
fn forget(found: &mut Vec<Link>, body: &[u8]) {
    if body.first() == Some(&(libc::AF_UNSPEC as u8))
        && let Some(index) = index(body)
    {
        found.retain(|link| link.index != index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, family: u8, index: u32, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![family, 0, 0, 0];
        body.extend_from_slice(&index.to_ne_bytes());
        body.resize(INFO, 0);
        for (kind, value) in attributes {
            body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
            body.extend_from_slice(&kind.to_ne_bytes());
            body.extend_from_slice(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let mut bytes = NetlinkBuffer::new(vec![0; HEADER]);
        bytes.set_length((HEADER + body.len()) as u32);
        bytes.set_message_type(kind);
        [bytes.into_inner(), body].concat()
    }

    fn link(name: &str, index: u32, mtu: u32) -> Link {
        Link { name: name.to_owned(), index, mtu }
    }

    fn new(index: u32, name: &str, mtu: u32) -> Vec<u8> {
        let name = [name.as_bytes(), &[0]].concat();
        let attributes = [(9999, &[1; 7][..]), (libc::IFLA_IFNAME, &name), (libc::IFLA_MTU, &mtu.to_ne_bytes())];
        message(libc::RTM_NEWLINK, 0, index, &attributes)
    }

    fn apply(found: &mut Vec<Link>, bytes: &[u8]) -> Vec<u16> {
        let names = ["wl0".to_owned(), "wl1".to_owned()];
        let kinds = messages(bytes).map(|(kind, body)| {
            match kind {
                libc::RTM_NEWLINK => note(found, &names, body),
                libc::RTM_DELLINK => forget(found, body),
                _ => {}
            }
            kind
        });
        kinds.collect()
    }

    #[test]
    fn interfaces_come_change_and_go() {
        let mut found = Vec::new();
        let list = [new(1, "lo", 65_536), new(7, "wl0", 1500), message(DONE, 0, 0, &[])].concat();
        assert_eq!(apply(&mut found, &list), [libc::RTM_NEWLINK, libc::RTM_NEWLINK, DONE]);
        assert_eq!(found, [link("wl0", 7, 1500)]);
        apply(&mut found, &[new(7, "wl0", 1200), new(9, "wl1", 9000)].concat());
        assert_eq!(found, [link("wl0", 7, 1200), link("wl1", 9, 9000)]);
        apply(&mut found, &new(9, "other", 9000));
        apply(&mut found, &message(libc::RTM_DELLINK, libc::AF_BRIDGE as u8, 7, &[]));
        assert_eq!(found, [link("wl0", 7, 1200)]);
        apply(&mut found, &message(libc::RTM_DELLINK, 0, 7, &[]));
        assert_eq!(found, []);
    }

    #[test]
    fn what_is_cut_short_is_passed_over() {
        let whole = new(7, "wl0", 1500);
        for len in 0..whole.len() {
            let mut found = Vec::new();
            apply(&mut found, &whole[..len]);
            assert_eq!(found, []);
        }
        let mut found = Vec::new();
        apply(&mut found, &message(libc::RTM_NEWLINK, 0, 7, &[(libc::IFLA_MTU, &[1, 2]), (libc::IFLA_IFNAME, b"wl0")]));
        assert_eq!(found, []);
    }

    #[test]
    fn the_loopback_interface_is_found() {
        let mut links = Links::open().unwrap();
        links.follow(vec!["lo".to_owned()]).unwrap();
        assert!(links.contains(1) && links.mtu().is_some(), "{links:?}");
        links.follow(vec!["no-such".to_owned()]).unwrap();
        assert!(!links.contains(1) && links.mtu().is_none(), "{links:?}");
        links.read().unwrap();
    }
}
