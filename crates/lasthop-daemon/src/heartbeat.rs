//! Heartbeat for BPF programs at interfaces: while it is recent they redirect packets to a process, otherwise they let
//! them pass. Packets thus pass regardless of the process's fate.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use lasthop_sys::bpf::assembler::{Assembler, Helper, Label, R0, R1, R2, R7, R10, Reg, Size, When};
use lasthop_sys::bpf::{Layout, Map, MapKind};
use lasthop_sys::privileges::not_held;
use rustix::thread::CapabilitySet;
use rustix::time::ClockId;

/// Stack offset of a map's key in programs.
pub const KEY: i16 = -8;
/// First kernel version that supports BPF programs at an interface in this way (tcx).
const NEEDED: (u32, u32) = (6, 6);

/// Number of beats within the silence after which packets pass.
const BEATS: u32 = 10;

/// Heartbeat of the process.
#[derive(Debug)]
pub struct Heartbeat {
    /// Time of the last beat on the monotonic clock, in nanoseconds; 0 while stopped.
    map: Map,
    last: Duration,
    silence: Duration,
}

impl Heartbeat {
    /// Creates a stopped heartbeat. Without a beat for longer than `silence`, programs let packets pass.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn new(silence: Duration) -> io::Result<Self> {
        let map = Map::new(MapKind::Array, Layout { key: 4, value: 8, entries: 1 })?;
        Ok(Self { map, last: Duration::ZERO, silence })
    }

    /// Records a beat, unless the last one is recent. If the last beat was so old that packets bypassed the daemon,
    /// returns the time since then.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn beat(&mut self) -> io::Result<Option<Duration>> {
        let now = rustix::time::clock_gettime(ClockId::Monotonic);
        let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
        let since = (!self.last.is_zero()).then(|| now.saturating_sub(self.last));
        if since.is_some_and(|since| since < self.silence / BEATS) {
            return Ok(None);
        }
        self.last = now;
        self.map.set_first(now.as_nanos() as u64)?;
        Ok(since.filter(|since| *since > self.silence))
    }

    /// Stops the heartbeat: packets pass until the next beat.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn rest(&mut self) -> io::Result<()> {
        if self.last.is_zero() {
            return Ok(());
        }
        self.last = Duration::ZERO;
        self.map.set_first(0)
    }

    /// Emits code that jumps to `silent` if the last beat is too old. It changes all registers except the context and
    /// `R8`.
    pub fn listen(&self, program: &mut Assembler, silent: Label) {
        look_up_first(program, &self.map, silent);
        program.load(Size::Double, R7, R0, 0).call(Helper::Nanoseconds).subtract(R0, R7);
        program.jump_if(R0, When::Greater, i32::try_from(self.silence.as_nanos()).unwrap_or(i32::MAX), silent);
    }
}

/// Emits code that loads the address of a stack offset into `to`.
pub fn address_of(program: &mut Assembler, to: Reg, place: i16) {
    program.copy(to, R10).add(to, place.into());
}

/// Emits code that loads into `R0` the address of the value of the key at [`KEY`], and jumps to `missing` if the map
/// has no such key.
pub fn look_up(program: &mut Assembler, map: &Map, missing: Label) {
    address_of(program, R2, KEY);
    program.load_map(R1, map.as_fd()).call(Helper::Lookup).jump_if(R0, When::Equal, 0, missing);
}

/// Emits the code of [`look_up`] for the only value of an array.
pub fn look_up_first(program: &mut Assembler, map: &Map, missing: Label) {
    program.store_value(Size::Word, R10, KEY, 0);
    look_up(program, map, missing);
}

/// Returns a remedy if the kernel refuses such programs: empty, or a clause that starts with a semicolon.
pub fn hint(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            let needed = CapabilitySet::BPF | CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
            not_held(needed).map(|missing| format!("; {missing}")).unwrap_or_default()
        }
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => {
            let uname = rustix::system::uname();
            let release = uname.release().to_string_lossy();
            match version(&release) {
                Some(version) if version < NEEDED => format!("; Linux 6.6 or later is required (this is {release})"),
                _ => format!("; this kernel ({release}) may have been built without BPF"),
            }
        }
        _ => String::new(),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
