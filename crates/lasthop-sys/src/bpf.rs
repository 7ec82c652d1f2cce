//! The kernel's BPF objects, through `bpf(2)`: maps, programs, and the links that attach programs to interfaces. They
//! exist as long as a descriptor refers to them, and disappear with the process.

pub mod assembler;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use self::assembler::Instruction;

/// Commands of `bpf(2)`.
const MAP_CREATE: libc::c_int = 0;
pub(crate) const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
pub(crate) const LINK_CREATE: libc::c_int = 28;
/// Value of `BPF_TCX_INGRESS`.
const TCX_INGRESS: u32 = 46;
/// Value of `BPF_TCX_EGRESS`.
const TCX_EGRESS: u32 = 47;
/// Flag `BPF_F_BEFORE`: ahead of existing programs.
const BEFORE: u32 = 1 << 3;
/// Size of the verifier's log, in bytes.
const LOG: usize = 64 << 10;

/// Type of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// Values by index.
    Array = 2,
    /// Values by index, separate for each CPU.
    PerCpuArray = 6,
    /// Values by key; the least recently used is evicted when the map is full.
    LruHash = 9,
}

/// Type of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProgramKind {
    /// Socket filter: returns the number of bytes of a packet to accept.
    SocketFilter = 1,
    /// Classifier at an interface: returns the fate of a packet.
    Classifier = 3,
}

/// Direction of the packets that a program at an interface sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// Received packets.
    Ingress = TCX_INGRESS as isize,
    /// Outgoing packets.
    Egress = TCX_EGRESS as isize,
}

/// Dimensions of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Size of a key, in bytes.
    pub key: u32,
    /// Size of a value, in bytes.
    pub value: u32,
    /// Maximum number of entries.
    pub entries: u32,
}

/// A map.
#[derive(Debug)]
pub struct Map(OwnedFd);

/// Program that the verifier has accepted.
#[derive(Debug)]
pub struct Program(OwnedFd);

/// Program attached to an interface.
#[derive(Debug)]
pub struct Link {
    _fd: OwnedFd,
}

/// Calls `bpf(2)` with the attributes of `command`.
///
/// # Safety
///
/// `attributes` is laid out as `command` expects, and its pointers refer to memory of the given lengths.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads the given number of bytes; the caller guarantees the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// Takes ownership of the descriptor that a command just returned.
///
/// # Safety
///
/// The descriptor has no other owner.
unsafe fn owned(fd: libc::c_int) -> OwnedFd {
    // SAFETY: it is open, and the caller guarantees that it has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

impl Map {
    /// Creates a map.
    ///
    /// # Errors
    ///
    /// Returns an error without `CAP_BPF`, or if the kernel does not support such maps.
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

    /// Sets the only value of a map with 32-bit indices as keys and 64-bit numbers as values.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
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
        // SAFETY: key and value are eight bytes each, and no map of this program has longer ones that are set here;
        // both outlive the call.
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
    /// Returns an error without `CAP_BPF` (and `CAP_NET_ADMIN`, for classifiers), or if the verifier rejects it; the
    /// error then contains its message.
    pub fn load(kind: ProgramKind, code: &[Instruction]) -> io::Result<Self> {
        Self::attempt(kind, code, &mut []).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL | libc::EACCES) => {
                let mut log = vec![0; LOG];
                let outcome = Self::attempt(kind, code, &mut log);
                let text = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default());
                // The last line counts the verified instructions.
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
        // SAFETY: these are the command's first attributes; code, licence and log are of the lengths given and outlive
        // the call, and nothing else refers to the log during it. It returns a new descriptor.
        unsafe { bpf(PROG_LOAD, &attributes).map(|fd| Self(owned(fd))) }
    }

    /// Attaches a classifier to an interface's received or outgoing packets, ahead of all other processing, including
    /// existing programs.
    ///
    /// # Errors
    ///
    /// Returns an error on kernels before Linux 6.6, or if the interface does not exist.
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
