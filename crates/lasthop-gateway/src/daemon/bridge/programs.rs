//! BPF programs of a bridge port, and the maps that they share.
//!
//! The kernel passes each frame that a port receives to packet sockets first, then to programs at the interface, then
//! to the bridge; all on one CPU, without another frame received there in between. The filter of the port's socket
//! decides whether the gateway takes the frame, and notes this for the program at the interface, which drops taken
//! frames. Each frame is thus forwarded exactly once, by the gateway or by the bridge. Without a socket nothing is
//! noted, and all frames pass.
//!
//! A frame is taken if it is TCP, or UDP if a rule selects QUIC, leaves by the other port, and arrives while the
//! gateway's heartbeat is recent. As in the bridge itself, the outgoing port is learned from source addresses. Local
//! frames of the bridge, frames for its other ports, broadcasts and frames to unknown addresses stay with the bridge.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use lasthop_daemon::bridge::programs::{DESTINATION, IFINDEX, LEN, SOURCE, TYPE, accept_unless, drop_unless};
use lasthop_daemon::heartbeat::{Heartbeat, KEY, address_of, look_up, look_up_first};
use lasthop_sys::bpf::assembler::{
    Assembler, Helper, Instruction, Label, R0, R1, R2, R3, R4, R6, R7, R8, R10, Size, When,
};
use lasthop_sys::bpf::{Layout, Map, MapKind, Program, ProgramKind};
use lasthop_sys::packet_socket::LONGEST;

/// Maximum age of the heartbeat: five beats. It is well below 200 ms, the minimum retransmission timeout of a sender,
/// so that its retransmissions pass.
pub const SILENCE: Duration = Duration::from_millis(100);
/// Maximum number of hosts whose ports are remembered.
const HOSTS: u32 = 16_384;

/// Offsets in a frame of the protocol fields of IPv4 and IPv6 headers.
const PROTOCOL_V4: i32 = 14 + 9;
const PROTOCOL_V6: i32 = 14 + 6;
const IPV4: i32 = 0x0800;
const IPV6: i32 = 0x86dd;
/// Group bit in the first four bytes of an Ethernet address.
const GROUP: i32 = 0x0100_0000;
/// Stack offset of a map's value, next to its key.
const VALUE: i16 = -16;

/// Protocols that the gateway takes from the bridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocols {
    /// TCP alone.
    Tcp,
    /// TCP, and UDP for rules that select QUIC.
    TcpAndUdp,
}

/// State shared by the programs of all ports.
#[derive(Debug)]
pub struct Maps {
    /// Heartbeat of the gateway.
    pub heartbeat: Heartbeat,
    /// Per-CPU index of the port whose frame was just taken; 0 if it was not.
    taken: Map,
    /// Port of each host, by Ethernet address.
    hosts: Map,
}

impl Maps {
    /// Creates the maps; the heartbeat is stopped.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            heartbeat: Heartbeat::new(SILENCE)?,
            taken: Map::new(MapKind::PerCpuArray, Layout { key: 4, value: 4, entries: 1 })?,
            hosts: Map::new(MapKind::LruHash, Layout { key: 8, value: 4, entries: HOSTS })?,
        })
    }

    /// Loads the filter for the socket of a port. It takes frames of these protocols that leave by the port with index
    /// `other`.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn load_filter(&self, other: u32, protocols: Protocols) -> io::Result<Program> {
        Program::load(ProgramKind::SocketFilter, &self.filter(other, protocols))
    }

    /// Loads the program for the ports of the bridge.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn load_classifier(&self) -> io::Result<Program> {
        Program::load(ProgramKind::Classifier, &self.classifier())
    }

    fn filter(&self, other: u32, protocols: Protocols) -> Vec<Instruction> {
        let [v4, protocol, taken, pass] = ["v4", "protocol", "taken", "pass"].map(Label::new);
        let mut program = Assembler::default();
        program.copy(R6, R1);
        look_up_first(&mut program, &self.taken, pass);
        program.copy(R8, R0).store_value(Size::Word, R8, 0, 0);
        // Frames that are too long for one message.
        program.load(Size::Word, R0, R6, LEN).jump_if(R0, When::Greater, LONGEST as i32, pass);
        // The protocol.
        program.load_packet(Size::Half, TYPE).jump_if(R0, When::Equal, IPV4, v4).jump_if(R0, When::Differ, IPV6, pass);
        program.load_packet(Size::Byte, PROTOCOL_V6).jump(protocol);
        program.place(v4).load_packet(Size::Byte, PROTOCOL_V4);
        program.place(protocol);
        if protocols == Protocols::TcpAndUdp {
            program.jump_if(R0, When::Equal, libc::IPPROTO_UDP, taken);
        }
        program.jump_if(R0, When::Differ, libc::IPPROTO_TCP, pass).place(taken);
        // Leaves by the other port.
        load_address(&mut program, DESTINATION);
        look_up(&mut program, &self.hosts, pass);
        program.load(Size::Word, R0, R0, 0).set(R7, other as i32).jump_if_register(R0, When::Differ, R7, pass);
        // The heartbeat is recent.
        self.heartbeat.listen(&mut program, pass);
        program.load(Size::Word, R0, R6, IFINDEX).store(Size::Word, R8, 0, R0);
        accept_unless(program, pass)
    }

    fn classifier(&self) -> Vec<Instruction> {
        let [learn, decide, pass] = ["learn", "decide", "pass"].map(Label::new);
        let mut program = Assembler::default();
        program.copy(R6, R1).load(Size::Word, R7, R6, IFINDEX);
        look_up_first(&mut program, &self.taken, pass);
        program.load(Size::Word, R8, R0, 0).store_value(Size::Word, R0, 0, 0);
        // Learn the sender's port. Written only if it changed, because all CPUs share the map.
        load_address(&mut program, SOURCE);
        program.load(Size::Word, R0, R10, KEY).jump_if(R0, When::Common, GROUP, decide);
        look_up(&mut program, &self.hosts, learn);
        program.load(Size::Word, R0, R0, 0).jump_if_register(R0, When::Equal, R7, decide);
        program.place(learn).store(Size::Word, R10, VALUE, R7);
        address_of(&mut program, R2, KEY);
        address_of(&mut program, R3, VALUE);
        program.load_map(R1, self.hosts.as_fd()).set(R4, 0).call(Helper::Update);
        program.place(decide).jump_if_register(R8, When::Differ, R7, pass);
        drop_unless(program, pass)
    }
}

/// Stores the Ethernet address at an offset of the frame as the key on the stack.
fn load_address(program: &mut Assembler, at: i32) {
    program.load_packet(Size::Word, at).store(Size::Word, R10, KEY, R0);
    program.load_packet(Size::Half, at + 4).store(Size::Word, R10, KEY + 4, R0);
}
