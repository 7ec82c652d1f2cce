//! Assembler of BPF instructions in Rust, so that no compiler is needed at run time.
//!
//! Supports the instructions that this workspace uses. The instruction set is RFC 9669.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reg(u8);

/// Result register. Calls and loads of packet bytes overwrite it and the argument registers.
pub const R0: Reg = Reg(0);
/// First argument; initially the context.
pub const R1: Reg = Reg(1);
/// Second argument.
pub const R2: Reg = Reg(2);
/// Third argument.
pub const R3: Reg = Reg(3);
/// Fourth argument.
pub const R4: Reg = Reg(4);
/// Preserved across calls; loads of packet bytes use it as the context.
pub const R6: Reg = Reg(6);
/// Preserved across calls.
pub const R7: Reg = Reg(7);
/// Preserved across calls.
pub const R8: Reg = Reg(8);
/// End of the stack, which lies below it.
pub const R10: Reg = Reg(10);

/// Size of a memory access.
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

/// Condition of a jump; comparisons are unsigned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// The two are equal.
    Equal = 0x10,
    /// The first is greater.
    Greater = 0x20,
    /// The two have common bits.
    Common = 0x40,
    /// The two differ.
    Differ = 0x50,
}

/// Helper function of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Helper {
    /// `R0` = address of the value of key `*R2` in map `R1`, or 0.
    Lookup = 1,
    /// Sets key `*R2` of map `R1` to `*R3`, with the flags `R4`.
    Update = 2,
    /// `R0` = time of the monotonic clock, in nanoseconds.
    Nanoseconds = 5,
    /// Sends the packet to the interface with index `R1` when the program returns `R0`: as outgoing, or with the flag
    /// [`RECEIVED`] in `R2` as received.
    Redirect = 23,
}

/// Flag `BPF_F_INGRESS`.
pub const RECEIVED: i32 = 1;

/// Target of jumps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Label(&'static str);

impl Label {
    /// Creates a label with this name, which must be unique in the program.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }
}

/// Layout of the kernel's `struct bpf_insn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Instruction {
    code: u8,
    /// Source register in the upper half, destination in the lower.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Program under construction.
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
/// Source register of [`LOAD_64`] that marks the number as a map's file descriptor.
const MAP: Reg = Reg(1);

impl Assembler {
    fn push(&mut self, code: u8, to: Reg, from: Reg, offset: i16, immediate: i32) -> &mut Self {
        self.code.push(Instruction { code, registers: from.0 << 4 | to.0, offset, immediate });
        self
    }

    /// Emits `to = value`.
    pub fn set(&mut self, to: Reg, value: i32) -> &mut Self {
        self.push(MOVE, to, R0, 0, value)
    }

    /// Emits `to = from`.
    pub fn copy(&mut self, to: Reg, from: Reg) -> &mut Self {
        self.push(MOVE_REGISTER, to, from, 0, 0)
    }

    /// Emits `to += value`.
    pub fn add(&mut self, to: Reg, value: i32) -> &mut Self {
        self.push(ADD, to, R0, 0, value)
    }

    /// Emits `to -= from`.
    pub fn subtract(&mut self, to: Reg, from: Reg) -> &mut Self {
        self.push(SUBTRACT_REGISTER, to, from, 0, 0)
    }

    /// Emits `to = *(from + offset)`.
    pub fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) -> &mut Self {
        self.push(LOAD_REGISTER | size as u8, to, from, offset, 0)
    }

    /// Emits `*(to + offset) = from`.
    pub fn store(&mut self, size: Size, to: Reg, offset: i16, from: Reg) -> &mut Self {
        self.push(STORE_REGISTER | size as u8, to, from, offset, 0)
    }

    /// Emits `*(to + offset) = value`.
    pub fn store_value(&mut self, size: Size, to: Reg, offset: i16, value: i32) -> &mut Self {
        self.push(STORE | size as u8, to, R0, offset, value)
    }

    /// Emits code that loads packet bytes at offset `at`, in network order, into `R0`; the program returns 0 if they do
    /// not exist.
    pub fn load_packet(&mut self, size: Size, at: i32) -> &mut Self {
        self.push(LOAD_ABSOLUTE | size as u8, R0, R0, 0, at)
    }

    /// Emits `to` = map.
    pub fn load_map(&mut self, to: Reg, map: BorrowedFd<'_>) -> &mut Self {
        // The instruction occupies two slots.
        self.push(LOAD_64, to, MAP, 0, map.as_raw_fd()).push(0, R0, R0, 0, 0)
    }

    /// Emits a call of a helper function.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(CALL, R0, R0, 0, helper as i32)
    }

    /// Emits a jump to `label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP, R0, R0, 0, 0)
    }

    /// Emits a jump to `label` if the comparison with a value is true.
    pub fn jump_if(&mut self, first: Reg, when: When, second: i32, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP | when as u8, first, R0, 0, second)
    }

    /// Emits a jump to `label` if the comparison with a register is true.
    pub fn jump_if_register(&mut self, first: Reg, when: When, second: Reg, label: Label) -> &mut Self {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP | when as u8 | 0x08, first, second, 0, 0)
    }

    /// Emits the end of the program, which returns `R0`.
    pub fn exit(&mut self) -> &mut Self {
        self.push(EXIT, R0, R0, 0, 0)
    }

    /// Places `label` here.
    pub fn place(&mut self, label: Label) -> &mut Self {
        self.places.insert(label, self.code.len());
        self
    }

    /// Returns the program. A jump to a label that was not placed has no valid target, and the kernel refuses the
    /// program.
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
