//! Common parts of BPF programs at interfaces.

use lasthop_sys::bpf::assembler::{Assembler, Instruction, Label, R0};

/// Offset of a frame's length in `struct __sk_buff`.
pub const LEN: i16 = 0;
/// Offset of a frame's mark.
pub const MARK: i16 = 8;
/// Offset of the field that says whether the kernel removed a VLAN tag from the frame.
pub const VLAN_PRESENT: i16 = 20;
/// Offset of the index of a frame's interface.
pub const IFINDEX: i16 = 40;

/// Offset of the destination address in a frame.
pub const DESTINATION: i32 = 0;
/// Offset of the source address.
pub const SOURCE: i32 = 6;
/// Offset of the EtherType.
pub const TYPE: i32 = 12;

/// Return values. Socket filter: no bytes, all bytes. Classifier: `TCX_NEXT`, `TCX_DROP`.
const NOTHING: i32 = 0;
const ALL: i32 = -1;
const NEXT: i32 = -1;
const DROP: i32 = 2;

/// Completes a socket filter: it accepts the frame here, and ignores it at `other`.
pub fn accept_unless(program: Assembler, other: Label) -> Vec<Instruction> {
    complete(program, ALL, other, NOTHING)
}

/// Completes a program at an interface: it drops the frame here, and passes it on at `pass`.
pub fn drop_unless(program: Assembler, pass: Label) -> Vec<Instruction> {
    complete(program, DROP, pass, NEXT)
}

/// Completes a program at an interface: from the label `pass` on, the program passes the frame on and ends.
pub fn pass_at(mut program: Assembler, pass: Label) -> Vec<Instruction> {
    program.place(pass).set(R0, NEXT).exit();
    program.finish()
}

fn complete(mut program: Assembler, here: i32, other: Label, there: i32) -> Vec<Instruction> {
    program.set(R0, here).exit();
    program.place(other).set(R0, there).exit();
    program.finish()
}
