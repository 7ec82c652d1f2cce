//! The two BPF programs of a bridge port, and the maps between them.
//!
//! The kernel shows each frame that a port receives first to packet sockets, then to programs at the interface, then to the
//! bridge; all on one processor, with nothing else received on it in between. The filter of the port's socket decides whether
//! the gateway takes the frame, and leaves word for the program at the interface, which drops what was taken: so that each
//! frame goes on exactly once, in the gateway or in the bridge. Where there is no socket any more, no word is left, and
//! everything passes.
//!
//! Taken is what is TCP, leaves by the other port, and comes while the gateway's heart beats. Which way a frame leaves is
//! learned from source addresses, as by the bridge itself: the bridge's own frames, those for its other ports, broadcast and
//! what nobody knows stay with the bridge.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use lasthop_daemon::heartbeat::{Heartbeat, KEY, address_of, look_up, look_up_first};
use lasthop_sys::bpf::assembler::{
    Assembler, Helper, Instruction, Label, R0, R1, R2, R3, R4, R6, R7, R8, R10, Size, When,
};
use lasthop_sys::bpf::{Layout, Map, MapKind, Program, ProgramKind};
use lasthop_sys::packet_socket::LONGEST;

/// The heart has stopped when it was silent for so long: five beats. Well below the 200 ms after which a sender at the
/// earliest repeats itself, so that what it repeats passes.
pub const SILENCE: Duration = Duration::from_millis(100);
/// Most hosts whose ports are remembered.
const HOSTS: u32 = 16_384;

/// Of `struct __sk_buff`.
const LEN: i16 = 0;
const IFINDEX: i16 = 40;
/// In a frame: addresses, type of the packet, and the protocols in IPv4 and IPv6 headers.
const DESTINATION: i32 = 0;
const SOURCE: i32 = 6;
const TYPE: i32 = 12;
const PROTOCOL_V4: i32 = 14 + 9;
const PROTOCOL_V6: i32 = 14 + 6;
const IPV4: i32 = 0x0800;
const IPV6: i32 = 0x86dd;
/// Of addresses of several hosts, in the first four bytes.
const GROUP: i32 = 0x0100_0000;
/// What programs say: nothing, all of it; on to the next program, not on at all.
const NOTHING: i32 = 0;
const ALL: i32 = -1;
const NEXT: i32 = -1;
const DROP: i32 = 2;
/// Where the value of a map lies on the stack, beside its key.
const VALUE: i16 = -16;

/// What the programs of all ports know.
#[derive(Debug)]
pub struct Maps {
    /// Says that the gateway gets on.
    pub heartbeat: Heartbeat,
    /// The port whose frame was taken just now, once for each processor; 0 when it was not.
    taken: Map,
    /// The port at which a host is, by Ethernet address.
    hosts: Map,
}

impl Maps {
    /// Makes them; the heart does not beat yet.
    ///
    /// # Errors
    ///
    /// As the kernel says.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            heartbeat: Heartbeat::new()?,
            taken: Map::new(MapKind::PerCpuArray, Layout { key: 4, value: 4, entries: 1 })?,
            hosts: Map::new(MapKind::LruHash, Layout { key: 8, value: 4, entries: HOSTS })?,
        })
    }

    /// Loads the filter for the socket of a port; takes what leaves by the port with the number `other`.
    ///
    /// # Errors
    ///
    /// As the kernel says.
    pub fn load_filter(&self, other: u32) -> io::Result<Program> {
        Program::load(ProgramKind::SocketFilter, &self.filter(other))
    }

    /// Loads the program for the ports of the bridge.
    ///
    /// # Errors
    ///
    /// As the kernel says.
    pub fn load_classifier(&self) -> io::Result<Program> {
        Program::load(ProgramKind::Classifier, &self.classifier())
    }

    fn filter(&self, other: u32) -> Vec<Instruction> {
        let [v4, protocol, pass] = ["v4", "protocol", "pass"].map(Label::new);
        let mut program = Assembler::default();
        program.copy(R6, R1);
        look_up_first(&mut program, &self.taken, pass);
        program.copy(R8, R0).store_value(Size::Word, R8, 0, 0);
        // What is too long for one message.
        program.load(Size::Word, R0, R6, LEN).jump_if(R0, When::Greater, LONGEST as i32, pass);
        // TCP.
        program.load_packet(Size::Half, TYPE).jump_if(R0, When::Equal, IPV4, v4).jump_if(R0, When::Differ, IPV6, pass);
        program.load_packet(Size::Byte, PROTOCOL_V6).jump(protocol);
        program.place(v4).load_packet(Size::Byte, PROTOCOL_V4);
        program.place(protocol).jump_if(R0, When::Differ, libc::IPPROTO_TCP, pass);
        // By the other port.
        load_address(&mut program, DESTINATION);
        look_up(&mut program, &self.hosts, pass);
        program.load(Size::Word, R0, R0, 0).set(R7, other as i32).jump_if_register(R0, When::Differ, R7, pass);
        // While the heart beats.
        self.heartbeat.listen(&mut program, SILENCE, pass);
        program.load(Size::Word, R0, R6, IFINDEX).store(Size::Word, R8, 0, R0).set(R0, ALL).exit();
        program.place(pass).set(R0, NOTHING).exit();
        program.finish()
    }

    fn classifier(&self) -> Vec<Instruction> {
        let [learn, decide, pass] = ["learn", "decide", "pass"].map(Label::new);
        let mut program = Assembler::default();
        program.copy(R6, R1).load(Size::Word, R7, R6, IFINDEX);
        look_up_first(&mut program, &self.taken, pass);
        program.load(Size::Word, R8, R0, 0).store_value(Size::Word, R0, 0, 0);
        // Where is who sends this? Written only when it is news: the map is shared by all processors.
        load_address(&mut program, SOURCE);
        program.load(Size::Word, R0, R10, KEY).jump_if(R0, When::Common, GROUP, decide);
        look_up(&mut program, &self.hosts, learn);
        program.load(Size::Word, R0, R0, 0).jump_if_register(R0, When::Equal, R7, decide);
        program.place(learn).store(Size::Word, R10, VALUE, R7);
        address_of(&mut program, R2, KEY);
        address_of(&mut program, R3, VALUE);
        program.load_map(R1, self.hosts.as_fd()).set(R4, 0).call(Helper::Update);
        program.place(decide).jump_if_register(R8, When::Differ, R7, pass).set(R0, DROP).exit();
        program.place(pass).set(R0, NEXT).exit();
        program.finish()
    }
}

/// The key on the stack = the Ethernet address at a place in the frame
fn load_address(program: &mut Assembler, at: i32) {
    program.load_packet(Size::Word, at).store(Size::Word, R10, KEY, R0);
    program.load_packet(Size::Half, at + 4).store(Size::Word, R10, KEY + 4, R0);
}
