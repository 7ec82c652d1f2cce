//! BPF instructions, written down in Rust: no compiler is needed where they run.
//!
//! As many as the programs of this workspace use. The instruction set is RFC 9669.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reg(u8);

/// Results, and the first four arguments of calls, which calls and loads of packet bytes overwrite.
pub const R0: Reg = Reg(0);
/// The first argument; at the start the context.
pub const R1: Reg = Reg(1);
/// The second argument.
pub const R2: Reg = Reg(2);
/// The third argument.
pub const R3: Reg = Reg(3);
/// The fourth argument.
pub const R4: Reg = Reg(4);
/// Kept over calls; loads of packet bytes take the context from here.
pub const R6: Reg = Reg(6);
/// Kept over calls.
pub const R7: Reg = Reg(7);
/// Kept over calls.
pub const R8: Reg = Reg(8);
/// The end of the stack, which lies below it.
pub const R10: Reg = Reg(10);

/// How much is read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// One byte.
    Byte = 0x10,
    /// Two bytes.
    Half = 0x08,
    /// Four bytes.
    Word = 0x00,
    /// Eight bytes.
    Double = 0x18,
}

/// When a jump is taken; numbers are unsigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// The two are equal.
    Equal = 0x10,
    /// The first is greater.
    Greater = 0x20,
    /// They have bits in common.
    Common = 0x40,
    /// They differ.
    Differ = 0x50,
}

/// A function of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Helper {
    /// `R0` = address of the value of key `*R2` in map `R1`, or 0.
    Lookup = 1,
    /// Sets key `*R2` of map `R1` to `*R3`, under the flags `R4`.
    Update = 2,
    /// `R0` = nanoseconds of the monotonic clock.
    Nanoseconds = 5,
    /// The packet goes to the interface with the number `R1` when the program ends with `R0`: leaves by it, or under the flag
    /// [`RECEIVED`] in `R2` comes in by it.
    Redirect = 23,
}

/// `BPF_F_INGRESS`.
pub const RECEIVED: i32 = 1;

/// A place that jumps lead to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Label(&'static str);

impl Label {
    /// The place called `name`, which is one of its own in the program.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }
}

/// The kernel's `struct bpf_insn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Instruction {
    code: u8,
    /// Source in the upper half, destination in the lower.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A program in the making.
#[derive(Clone, Default, Debug)]
pub struct Assembler {
    code: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    places: BTreeMap<Label, usize>,
}

const LOAD_ABSOLUTE: u8 = 0x20;
const LOAD_REGISTER: u8 = 0x61;
const STORE: u8 = 0x62;
const STORE_REGISTER: u8 = 0x63;
const LOAD_64: u8 = 0x18;
const MOVE: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const ADD: u8 = 0x07;
const SUBTRACT_REGISTER: u8 = 0x1f;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// As a source register of [`LOAD_64`]: the number is a map's file descriptor.
const MAP: Reg = Reg(1);

impl Assembler {
    fn push(&mut self, code: u8, to: Reg, from: Reg, offset: i16, immediate: i32) -> &mut Self {
        self.code.push(Instruction { code, registers: from.0 << 4 | to.0, offset, immediate });
        self
    }

    /// `to = value`
    pub fn set(&mut self, to: Reg, value: i32) -> &mut Self {
        self.push(MOVE, to, R0, 0, value)
    }

    /// `to = from`
    pub fn copy(&mut self, to: Reg, from: Reg) -> &mut Self {
        self.push(MOVE_REGISTER, to, from, 0, 0)
    }

    /// `to += value`
    pub fn add(&mut self, to: Reg, value: i32) -> &mut Self {
        self.push(ADD, to, R0, 0, value)
    }

    /// `to -= from`
    pub fn subtract(&mut self, to: Reg, from: Reg) -> &mut Self {
        self.push(SUBTRACT_REGISTER, to, from, 0, 0)
    }

    /// `to = *(from + offset)`
    pub fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) -> &mut Self {
        self.push(LOAD_REGISTER | size as u8, to, from, offset, 0)
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, size: Size, to: Reg, offset: i16, from: Reg) -> &mut Self {
        self.push(STORE_REGISTER | size as u8, to, from, offset, 0)
    }

    /// `*(to + offset) = value`
    pub fn store_value(&mut self, size: Size, to: Reg, offset: i16, value: i32) -> &mut Self {
        self.push(STORE | size as u8, to, R0, offset, value)
    }

    /// `R0` = the packet's bytes from `at` on, in network order; ends the program with 0 where there are none.
    pub fn load_packet(&mut self, size: Size, at: i32) -> &mut Self {
        self.push(LOAD_ABSOLUTE | size as u8, R0, R0, 0, at)
    }

    /// `to` = the map
    pub fn load_map(&mut self, to: Reg, map: BorrowedFd<'_>) -> &mut Self {
        // It takes the room of two instructions.
        self.push(LOAD_64, to, MAP, 0, map.as_raw_fd()).push(0, R0, R0, 0, 0)
    }

    /// Calls a function of the kernel.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(CALL, R0, R0, 0, helper as i32)
    }

    /// Goes on at `label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP, R0, R0, 0, 0)
    }

    /// Goes on at `label` if so.
    pub fn jump_if(&mut self, first: Reg, when: When, second: i32, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP | when as u8, first, R0, 0, second)
    }

    /// Goes on at `label` if so.
    pub fn jump_if_register(&mut self, first: Reg, when: When, second: Reg, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP | when as u8 | 0x08, first, second, 0, 0)
    }

    /// Ends with `R0`.
    pub fn exit(&mut self) -> &mut Self {
        self.push(EXIT, R0, R0, 0, 0)
    }

    /// Here is `label`.
    pub fn place(&mut self, label: Label) -> &mut Self {
        self.places.insert(label, self.code.len());
        self
    }

    /// The program. A jump whose label has no place leads nowhere, which the kernel refuses to load.
    pub fn finish(&self) -> Vec<Instruction> {
        let mut code = self.code.clone();
        for &(at, label) in &self.jumps {
            let distance = self.places.get(&label).and_then(|&place| i16::try_from(place as i64 - at as i64 - 1).ok());
            code[at].offset = distance.unwrap_or(i16::MAX);
        }
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_to_their_labels() {
        let (on, back) = (Label::new("on"), Label::new("back"));
        let mut program = Assembler::default();
        program.place(back).load_packet(Size::Half, 12).jump_if(R0, When::Equal, 0x800, on).jump(back);
        program.place(on).set(R0, -1).exit();
        let bytes = |instruction: &Instruction| {
            (instruction.code, instruction.registers, instruction.offset, instruction.immediate)
        };
        let code: Vec<_> = program.finish().iter().map(bytes).collect();
        let expected = [(0x28, 0, 0, 12), (0x15, 0, 1, 0x800), (0x05, 0, -3, 0), (0xb7, 0, 0, -1), (0x95, 0, 0, 0)];
        assert_eq!(code, expected);
        assert_eq!(Assembler::default().jump(on).finish()[0].offset, i16::MAX);
    }

    #[test]
    fn operands_are_where_the_kernel_looks_for_them() {
        let mut program = Assembler::default();
        program.load(Size::Word, R7, R6, 40).store(Size::Double, R10, -8, R0).store_value(Size::Word, R8, 0, 1);
        program.subtract(R0, R7).jump_if_register(R8, When::Differ, R7, Label::new("x"));
        let code: Vec<_> = program.finish().iter().map(|i| (i.code, i.registers, i.offset, i.immediate)).collect();
        let expected = [
            (0x61, 0x67, 40, 0),
            (0x7b, 0x0a, -8, 0),
            (0x62, 0x08, 0, 1),
            (0x1f, 0x70, 0, 0),
            (0x5d, 0x78, i16::MAX, 0),
        ];
        assert_eq!(code, expected);
    }
}
