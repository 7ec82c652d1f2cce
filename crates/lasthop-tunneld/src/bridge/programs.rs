//! The BPF programs of a bridge's end.
//!
//! | at | sees | does |
//! |---|---|---|
//! | the interface towards the hop | what leaves by it | while the heart beats: leads it to the device |
//! | the interface towards the hop | what it receives | drops the tunnel's own frames: the packet socket has them |
//! | the device | what leaves by it | drops what was not led there |
//! | the device | what this end writes | has it come in by the interface towards the hop |
//!
//! So the kernel's bridge, if the interface is a port of one, learns and decides as it would without: frames leave by the port towards
//! the hop, and come in by it. All programs go with the process; without a heartbeat the first one lets everything pass.
//!
//! Never led to the device: frames that this end sends, which bear its mark; frames for the other end of the cable alone (the addresses
//! 01:80:C2:00:00:00 to 0F that no bridge passes on, IEEE 802.1Q §8.6.3); EAPOL, by which a radio lets this end in (802.1X).

use std::io;
use std::time::Duration;

use lasthop_daemon::heartbeat::Heartbeat;
use lasthop_sys::bpf::assembler::{Assembler, Helper, Instruction, Label, R0, R1, R2, R6, R7, RECEIVED, Size, When};
use lasthop_sys::bpf::{Hook, Link, Program, ProgramKind};

use crate::ethernet::TYPE;

/// Of `struct __sk_buff`.
const MARK: i16 = 8;
const VLAN_PRESENT: i16 = 20;
/// In a frame.
const DESTINATION: i32 = 0;
const TYPE_AT: i32 = 12;
const EAPOL: i32 = 0x888e;
/// The first four bytes of addresses for the other end of a cable, and the last of the last two.
const CABLE: i32 = 0x0180_c200;
const LAST_OF_CABLE: i32 = 0x0f;
/// What programs say: nothing of it, all of it; on to the next program, not on at all.
const NOTHING: i32 = 0;
const ALL: i32 = -1;
const NEXT: i32 = -1;
const DROP: i32 = 2;

/// The two interfaces by number, and the mark of what this end sends and leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// The interface towards the hop.
    pub hop: u32,
    /// The device.
    pub device: u32,
    /// Below 2³¹, so that no sign is extended; nobody else knows it.
    pub mark: u32,
}

/// The filter of the packet socket: the tunnel's own frames.
///
/// # Errors
///
/// As the kernel says.
pub fn filter() -> io::Result<Program> {
    Program::load(ProgramKind::SocketFilter, &filter_code())
}

/// Puts the programs where they belong; they stay as long as what is returned. They lead nothing to the device before the first beat.
///
/// # Errors
///
/// As the kernel says.
pub fn attach(ends: Ends, heartbeat: &Heartbeat, silence: Duration) -> io::Result<Vec<Link>> {
    let load = |code: Vec<Instruction>| Program::load(ProgramKind::Classifier, &code);
    // What is led there must be taken before anything is led there.
    Ok(vec![
        load(leaving_device(ends.mark))?.attach(ends.device, Hook::Egress)?,
        load(entering_device(ends))?.attach(ends.device, Hook::Ingress)?,
        load(entering_hop(ends.mark))?.attach(ends.hop, Hook::Ingress)?,
        load(leaving_hop(ends, heartbeat, silence))?.attach(ends.hop, Hook::Egress)?,
    ])
}

/// As an immediate value.
fn number(value: u32) -> i32 {
    value.cast_signed()
}

fn filter_code() -> Vec<Instruction> {
    let other = Label::new("other");
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.load_packet(Size::Half, TYPE_AT).jump_if(R0, When::Differ, TYPE.into(), other);
    // In a VLAN it is somebody else's.
    program.load(Size::Word, R0, R6, VLAN_PRESENT).jump_if(R0, When::Differ, 0, other);
    program.set(R0, ALL).exit();
    program.place(other).set(R0, NOTHING).exit();
    program.finish()
}

fn leaving_hop(ends: Ends, heartbeat: &Heartbeat, silence: Duration) -> Vec<Instruction> {
    let [pass, lead] = ["pass", "lead"].map(Label::new);
    let mut program = Assembler::default();
    program.copy(R6, R1);
    // What this end sends.
    program.load(Size::Word, R7, R6, MARK).set(R0, number(ends.mark));
    program.jump_if_register(R7, When::Equal, R0, pass);
    program.load_packet(Size::Half, TYPE_AT).jump_if(R0, When::Equal, EAPOL, pass);
    program.load_packet(Size::Word, DESTINATION).jump_if(R0, When::Differ, CABLE, lead);
    program.load_packet(Size::Half, DESTINATION + 4).jump_if(R0, When::Greater, LAST_OF_CABLE, lead);
    program.jump(pass);
    program.place(lead);
    heartbeat.listen(&mut program, silence, pass);
    program.store_value(Size::Word, R6, MARK, number(ends.mark));
    program.set(R1, number(ends.device)).set(R2, 0).call(Helper::Redirect).exit();
    program.place(pass).set(R0, NEXT).exit();
    program.finish()
}

fn entering_hop(mark: u32) -> Vec<Instruction> {
    let [came, other] = ["came", "other"].map(Label::new);
    let mut program = Assembler::default();
    program.copy(R6, R1);
    // What this end wrote to the device is an inner frame, whatever its type.
    program.load(Size::Word, R7, R6, MARK).set(R0, number(mark));
    program.jump_if_register(R7, When::Differ, R0, came);
    program.store_value(Size::Word, R6, MARK, 0).jump(other);
    program.place(came);
    program.load_packet(Size::Half, TYPE_AT).jump_if(R0, When::Differ, TYPE.into(), other);
    program.set(R0, DROP).exit();
    program.place(other).set(R0, NEXT).exit();
    program.finish()
}

fn leaving_device(mark: u32) -> Vec<Instruction> {
    let led = Label::new("led");
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.load(Size::Word, R7, R6, MARK).set(R0, number(mark));
    program.jump_if_register(R7, When::Equal, R0, led);
    program.set(R0, DROP).exit();
    program.place(led).set(R0, NEXT).exit();
    program.finish()
}

fn entering_device(ends: Ends) -> Vec<Instruction> {
    let mut program = Assembler::default();
    program.store_value(Size::Word, R1, MARK, number(ends.mark));
    program.set(R1, number(ends.hop)).set(R2, RECEIVED).call(Helper::Redirect).exit();
    program.finish()
}
