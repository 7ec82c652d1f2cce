//! The kernel's BPF objects, by `bpf(2)`: maps, programs, and the links by which programs hold on to interfaces. All of them
//! live as long as somebody has them: they go away with the process, however it ends.

pub mod assembler;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use self::assembler::Instruction;

/// Commands of `bpf(2)`.
const MAP_CREATE: libc::c_int = 0;
pub(crate) const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
pub(crate) const LINK_CREATE: libc::c_int = 28;
/// `BPF_TCX_INGRESS`.
const TCX_INGRESS: u32 = 46;
/// `BPF_TCX_EGRESS`.
const TCX_EGRESS: u32 = 47;
/// `BPF_F_BEFORE`: ahead of the programs that are there.
const BEFORE: u32 = 1 << 3;
/// What the kernel may say about a program that it refuses.
const LOG: usize = 64 << 10;

/// What kind of map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// Values by index.
    Array = 2,
    /// The same, once for each processor.
    PerCpuArray = 6,
    /// Values by key; the least recently used go when it is full.
    LruHash = 9,
}

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramKind {
    /// At a socket: says how many bytes of a packet it takes.
    SocketFilter = 1,
    /// At an interface: says what becomes of a packet.
    Classifier = 3,
}

/// Which of an interface's packets a program sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// Those that it receives.
    Ingress = TCX_INGRESS as isize,
    /// Those that leave by it.
    Egress = TCX_EGRESS as isize,
}

/// The sizes of a map, in bytes and entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Most entries.
    pub entries: u32,
}

/// A map.
#[derive(Debug)]
pub struct Map(OwnedFd);

/// A program that the kernel found harmless.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// A program at an interface.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
}

/// Calls `bpf(2)` with the attributes of `command`.
///
/// # Safety
///
/// `attributes` is laid out as `command` expects, and its pointers are to memory of the lengths that it says.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads as many bytes as it is told; the rest is the caller's word.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// The descriptor that a command just returned.
///
/// # Safety
///
/// Nobody else owns it.
unsafe fn owned(fd: libc::c_int) -> OwnedFd {
    // SAFETY: it is open, and the caller says that it has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    ///
    /// Without `CAP_BPF`, or where the kernel has no such maps.
    pub fn new(kind: MapKind, layout: Layout) -> io::Result<Self> {
        #[repr(C)]
        struct Attributes {
            kind: u32,
            key: u32,
            value: u32,
            entries: u32,
            flags: u32,
        }
        let Layout { key, value, entries } = layout;
        let attributes = Attributes { kind: kind as u32, key, value, entries, flags: 0 };
        // SAFETY: these are the first attributes of the command, without pointers; the rest is zero. It returns a new
        // descriptor.
        unsafe { bpf(MAP_CREATE, &attributes).map(|fd| Self(owned(fd))) }
    }

    /// Sets the only value of a map whose keys are 32-bit indices and whose values are 64-bit numbers.
    ///
    /// # Errors
    ///
    /// When the kernel does not take it.
    pub fn set_first(&self, value: u64) -> io::Result<()> {
        #[repr(C)]
        struct Attributes {
            map: u32,
            padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let key = 0_u64;
        let attributes = Attributes {
            map: self.0.as_raw_fd() as u32,
            padding: 0,
            key: (&raw const key) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: key and value are eight bytes each, and no map of this program has longer ones that are set here; both
        // outlive the call.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Program {
    /// Loads a program.
    ///
    /// # Errors
    ///
    /// Without `CAP_BPF` (and `CAP_NET_ADMIN`, for classifiers), or when the kernel finds something wrong with it; then
    /// the error says what.
    pub fn load(kind: ProgramKind, code: &[Instruction]) -> io::Result<Self> {
        Self::attempt(kind, code, &mut []).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::EACCES) => {
                let mut log = vec![0; LOG];
                let outcome = Self::attempt(kind, code, &mut log);
                let text = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default());
                // The last line counts the instructions that were looked at.
                let said = text.lines().rev().find(|line| !line.is_empty() && !line.starts_with("processed "));
                outcome.map_err(|error| match said {
                    Some(said) => io::Error::new(error.kind(), format!("{error}: {said}")),
                    None => error,
                })
            }
            _ => Err(error),
        })
    }

    fn attempt(kind: ProgramKind, code: &[Instruction], log: &mut [u8]) -> io::Result<Self> {
        #[repr(C)]
        struct Attributes {
            kind: u32,
            code_len: u32,
            code: u64,
            license: u64,
            log_level: u32,
            log_len: u32,
            log: u64,
            kernel_version: u32,
            flags: u32,
            name: [u8; 16],
            interface: u32,
            attach_type: u32,
        }
        let attributes = Attributes {
            kind: kind as u32,
            code_len: u32::try_from(code.len()).unwrap_or(u32::MAX),
            code: code.as_ptr() as u64,
            license: c"MIT".as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_len: u32::try_from(log.len()).unwrap_or(0),
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            kernel_version: 0,
            flags: 0,
            name: *b"lasthop\0\0\0\0\0\0\0\0\0",
            interface: 0,
            attach_type: if kind == ProgramKind::Classifier { TCX_INGRESS } else { 0 },
        };
        // SAFETY: these are the command's first attributes; code, licence and log are of the lengths given and outlive the
        // call, and nothing else refers to the log during it. It returns a new descriptor.
        unsafe { bpf(PROG_LOAD, &attributes).map(|fd| Self(owned(fd))) }
    }

    /// Puts a classifier in front of whatever an interface does with the packets that it receives, or that leave by it; other
    /// such programs included.
    ///
    /// # Errors
    ///
    /// On a kernel before 6.6, or when the interface is gone.
    pub fn attach(&self, interface: u32, hook: Hook) -> io::Result<Link> {
        #[repr(C)]
        struct Attributes {
            program: u32,
            interface: u32,
            attach_type: u32,
            flags: u32,
            relative: u32,
            padding: u32,
            revision: u64,
        }
        let attributes = Attributes {
            program: self.0.as_raw_fd() as u32,
            interface,
            attach_type: hook as u32,
            flags: BEFORE,
            relative: 0,
            padding: 0,
            revision: 0,
        };
        // SAFETY: these are the command's first attributes for this kind of program, without pointers. It returns a new
        // descriptor.
        unsafe { bpf(LINK_CREATE, &attributes).map(|fd| Link { _fd: owned(fd) }) }
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
