//! Whole Ethernet frames in and out of one device, in batches, with the time at which the kernel got each.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// Frames taken with one call.
const BATCH: usize = 32;
/// The longest frame: the longest IPv4 packet behind an Ethernet header.
const LONGEST: usize = 65_535 + 14;
/// Room for what comes while the thread does not run: more than all windows of a lab.
const RECEIVE_BUFFER: libc::c_int = 16 << 20;
const STAMP: usize = 64;
/// Of linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// An `AF_PACKET` socket bound to a device.
pub struct PacketSocket {
    fd: OwnedFd,
    batch: Box<Batch>,
}

/// Where a batch goes; `headers` point into the rest, which is boxed and never moves.
struct Batch {
    frames: Vec<u8>,
    room: usize,
    stamps: [[u64; STAMP / 8]; BATCH],
    vectors: [libc::iovec; BATCH],
    headers: [libc::mmsghdr; BATCH],
}

// SAFETY: the raw pointers in a batch point into its own boxed memory, and are only used by whoever holds it mutably.
unsafe impl Send for Batch {}

impl PacketSocket {
    /// Opens one on `device` of the calling thread's namespace; frames up to `mtu` bytes behind their Ethernet header.
    ///
    /// # Errors
    ///
    /// As the kernel says.
    pub fn open(device: &str, mtu: u32) -> io::Result<Self> {
        let name = CString::new(device)?;
        // SAFETY: `name` is a string that ends in a zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // No protocol yet: a socket hears every device until it is bound.
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call just returned it, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)?;
        set_option(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // SAFETY: all zeros is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` is of the length given and lives through the call.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { fd, batch: Batch::new((mtu as usize + 14).min(LONGEST)) })
    }

    /// Takes what has come, at most one batch; each frame with its age in nanoseconds. Says whether there may be more.
    ///
    /// # Errors
    ///
    /// As the kernel says.
    pub fn receive(&mut self, mut take: impl FnMut(u64, &[u8])) -> io::Result<bool> {
        let batch = &mut *self.batch;
        batch.rewind();
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT as _);
        // SAFETY: the headers point to buffers of the batch of the lengths that they say, which live through the call.
        let count = unsafe { libc::recvmmsg(fd, batch.headers.as_mut_ptr(), BATCH as u32, flags, ptr::null_mut()) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            };
        }
        let now = realtime();
        let count = usize::try_from(count).unwrap_or_default().min(BATCH);
        for index in 0..count {
            let header = &batch.headers[index];
            let len = (header.msg_len as usize).min(batch.room);
            let age = stamp(&header.msg_hdr).map_or(0, |stamp| now.saturating_sub(stamp));
            let start = index * batch.room;
            take(age, &batch.frames[start..start + len]);
        }
        Ok(count == BATCH)
    }

    /// Sends one frame.
    ///
    /// # Errors
    ///
    /// As the kernel says.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: `frame` is valid for its length.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Frames that the kernel dropped because nobody took them in time, since this was last asked.
    ///
    /// # Errors
    ///
    /// As the kernel says.
    pub fn overruns(&self) -> io::Result<u32> {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        let fd = self.fd.as_raw_fd();
        // SAFETY: `stats` is of the length given and lives through the call.
        let outcome = unsafe {
            libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, (&raw mut stats).cast(), &raw mut len)
        };
        if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(stats.tp_drops) }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Batch {
    fn new(room: usize) -> Box<Self> {
        let empty = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Box::new(Self {
            frames: vec![0; room * BATCH],
            room,
            stamps: [[0; STAMP / 8]; BATCH],
            vectors: [empty; BATCH],
            // SAFETY: all zeros is a valid header: null pointers and no lengths.
            headers: unsafe { zeroed() },
        })
    }

    /// Makes every header ready for a frame: the kernel wrote lengths over them.
    fn rewind(&mut self) {
        for (index, room) in self.frames.chunks_exact_mut(self.room).enumerate() {
            self.vectors[index] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.vectors[index];
            header.msg_iovlen = 1;
            header.msg_control = self.stamps[index].as_mut_ptr().cast();
            header.msg_controllen = STAMP as _;
        }
    }
}

/// When the kernel got the frame, in nanoseconds of its wall clock.
fn stamp(header: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel filled the header and its control buffer, which are still there.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            if (*control).cmsg_level == libc::SOL_SOCKET && (*control).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time = ptr::read_unaligned(libc::CMSG_DATA(control).cast::<libc::timespec>());
                return Some(nanos(time));
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

fn realtime() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    nanos(time)
}

fn nanos(time: libc::timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

fn set_option(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is of the length given and lives through the call.
    let outcome = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Switches off checksum and segmentation offloads of a device of the calling thread's namespace, so that each frame is one
/// packet, complete.
///
/// # Errors
///
/// As the kernel says.
pub fn switch_offloads_off(device: &str) -> io::Result<()> {
    /// `struct ethtool_value` of linux/ethtool.h.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    // ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO.
    const COMMANDS: [u32; 4] = [0x17, 0x1f, 0x24, 0x2c];
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    for command in COMMANDS {
        let mut value = Value { command, data: 0 };
        // SAFETY: all zeros is a valid request.
        let mut request: libc::ifreq = unsafe { zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(device.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: `request` names a device and points to a value of the kind that these commands take; both outlive it.
        if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
