//! BPF programs of an end on a bridge.
//!
//! | at | sees | action |
//! |---|---|---|
//! | the interface towards the hop | outgoing frames | redirects them to the device while the heartbeat is recent |
//! | the interface towards the hop | received frames | drops the tunnel's own frames, which the packet socket receives |
//! | the device | outgoing frames | drops frames that were not redirected there |
//! | the device | frames written by this end | redirects them as received by the interface towards the hop |
//!
//! The kernel's bridge, if the interface is a port of one, thus learns and forwards as without the tunnel: frames leave
//! by the port towards the hop and arrive there. All programs disappear with the process; without a heartbeat the first
//! one lets all frames pass.
//!
//! Never redirected to the device: frames that this end sends, which have its mark; frames to link-local addresses
//! (01:80:C2:00:00:00 to 0F, which no bridge forwards, IEEE 802.1Q §8.6.3); EAPOL, with which this end authenticates to
//! a radio (802.1X).
//!
//! With several lines, the device can be the port of the bridge in place of the interface towards the hop, if the bridge
//! has disabled that one. Frames then enter and leave by the device, and none by the interface:
//!
//! | at | sees | action |
//! |---|---|---|
//! | the interface towards the hop | outgoing frames | drops them while the heartbeat is recent |
//! | the interface towards the hop | received frames | drops them |
//! | the device | outgoing frames | accepts them while the heartbeat is recent |
//! | the device | frames written by this end | lets them pass to the bridge |

use std::io;

use lasthop_daemon::bridge::programs::{
    DESTINATION, MARK, TYPE as TYPE_AT, VLAN_PRESENT, accept_unless, drop_unless, pass_at,
};
use lasthop_daemon::heartbeat::{Heartbeat, look_up_first};
use lasthop_sys::bpf::assembler::{Assembler, Helper, Instruction, Label, R0, R1, R2, R6, R7, RECEIVED, Size, When};
use lasthop_sys::bpf::{Hook, Link, Map, Program, ProgramKind};

use crate::ethernet::TYPE;

const EAPOL: i32 = 0x888e;
/// First four bytes of link-local addresses, and maximum of the last two.
const CABLE: i32 = 0x0180_c200;
const LAST_OF_CABLE: i32 = 0x0f;

/// Indices of the two interfaces, and the mark of frames that this end sends and redirects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Interface towards the hop.
    pub hop: u32,
    /// The device.
    pub device: u32,
    /// Unpredictable mark below 2³¹, so that its sign is not extended.
    pub mark: u32,
}

/// Loads the filter of the packet socket, which accepts the tunnel's own frames.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn filter() -> io::Result<Program> {
    Program::load(ProgramKind::SocketFilter, &filter_code())
}

/// Attaches the programs until the returned links are dropped. They redirect nothing to the device before the first
/// beat. The only value of `stand_in` differs from 0 while the device is the port of the bridge; without this map, it
/// never is.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn attach(ends: Ends, heartbeat: &Heartbeat, stand_in: Option<&Map>) -> io::Result<Vec<Link>> {
    let load = |code: Vec<Instruction>| Program::load(ProgramKind::Classifier, &code);
    // The programs that receive redirected frames come before the one that redirects them.
    Ok(vec![
        load(leaving_device(ends.mark, heartbeat, stand_in))?.attach(ends.device, Hook::Egress)?,
        load(entering_device(ends, stand_in))?.attach(ends.device, Hook::Ingress)?,
        load(entering_hop(ends.mark, stand_in))?.attach(ends.hop, Hook::Ingress)?,
        load(leaving_hop(ends, heartbeat, stand_in))?.attach(ends.hop, Hook::Egress)?,
    ])
}

/// Converts to an immediate value.
fn number(value: u32) -> i32 {
    value.cast_signed()
}

fn filter_code() -> Vec<Instruction> {
    let other = Label::new("other");
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.load_packet(Size::Half, TYPE_AT).jump_if(R0, When::Differ, TYPE.into(), other);
    // A frame in a VLAN is not the tunnel's.
    program.load(Size::Word, R0, R6, VLAN_PRESENT).jump_if(R0, When::Differ, 0, other);
    accept_unless(program, other)
}

/// Emits code that jumps to `stands_in` while the device is the port of the bridge. It changes all registers except the
/// context and `R8`.
fn ask_stand_in(program: &mut Assembler, stand_in: Option<&Map>, stands_in: Label) {
    let Some(map) = stand_in else { return };
    let port = Label::new("port");
    look_up_first(program, map, port);
    program.load(Size::Double, R7, R0, 0).jump_if(R7, When::Differ, 0, stands_in).place(port);
}

/// Emits code that jumps to `cable` for EAPOL and for frames to link-local addresses.
fn ask_cable(program: &mut Assembler, cable: Label) {
    let other = Label::new("other");
    program.load_packet(Size::Half, TYPE_AT).jump_if(R0, When::Equal, EAPOL, cable);
    program.load_packet(Size::Word, DESTINATION).jump_if(R0, When::Differ, CABLE, other);
    program.load_packet(Size::Half, DESTINATION + 4).jump_if(R0, When::Greater, LAST_OF_CABLE, other);
    program.jump(cable).place(other);
}

fn leaving_hop(ends: Ends, heartbeat: &Heartbeat, stand_in: Option<&Map>) -> Vec<Instruction> {
    let [pass, discard] = ["pass", "discard"].map(Label::new);
    let mut program = Assembler::default();
    program.copy(R6, R1);
    // Frames that this end sends.
    program.load(Size::Word, R7, R6, MARK).set(R0, number(ends.mark));
    program.jump_if_register(R7, When::Equal, R0, pass);
    ask_cable(&mut program, pass);
    heartbeat.listen(&mut program, pass);
    ask_stand_in(&mut program, stand_in, discard);
    program.store_value(Size::Word, R6, MARK, number(ends.mark));
    program.set(R1, number(ends.device)).set(R2, 0).call(Helper::Redirect).exit();
    if stand_in.is_none() {
        return pass_at(program, pass);
    }
    program.place(discard);
    drop_unless(program, pass)
}

fn entering_hop(mark: u32, stand_in: Option<&Map>) -> Vec<Instruction> {
    let [came, discard, other] = ["came", "discard", "other"].map(Label::new);
    let mut program = Assembler::default();
    program.copy(R6, R1);
    // A frame that this end wrote to the device is an inner frame, regardless of its type.
    program.load(Size::Word, R7, R6, MARK).set(R0, number(mark));
    program.jump_if_register(R7, When::Differ, R0, came);
    program.store_value(Size::Word, R6, MARK, 0).jump(other);
    program.place(came);
    ask_stand_in(&mut program, stand_in, discard);
    program.load_packet(Size::Half, TYPE_AT).jump_if(R0, When::Differ, TYPE.into(), other);
    if stand_in.is_some() {
        program.place(discard);
    }
    drop_unless(program, other)
}

fn leaving_device(mark: u32, heartbeat: &Heartbeat, stand_in: Option<&Map>) -> Vec<Instruction> {
    let [led, stands_in, discard] = ["led", "stands in", "discard"].map(Label::new);
    let mut program = Assembler::default();
    program.copy(R6, R1);
    program.load(Size::Word, R7, R6, MARK).set(R0, number(mark));
    program.jump_if_register(R7, When::Equal, R0, led);
    if stand_in.is_some() {
        ask_stand_in(&mut program, stand_in, stands_in);
        program.jump(discard).place(stands_in);
        ask_cable(&mut program, discard);
        heartbeat.listen(&mut program, discard);
        program.jump(led).place(discard);
    }
    drop_unless(program, led)
}

fn entering_device(ends: Ends, stand_in: Option<&Map>) -> Vec<Instruction> {
    let pass = Label::new("pass");
    let mut program = Assembler::default();
    program.copy(R6, R1);
    ask_stand_in(&mut program, stand_in, pass);
    program.store_value(Size::Word, R6, MARK, number(ends.mark));
    program.set(R1, number(ends.hop)).set(R2, RECEIVED).call(Helper::Redirect).exit();
    if stand_in.is_none() {
        return program.finish();
    }
    pass_at(program, pass)
}
