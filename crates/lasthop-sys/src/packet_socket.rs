//! Input and output of complete Ethernet frames of one device, in batches, with the time at which the kernel received
//! each; with offload metadata if offloads are on.

pub mod frame;

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use frame::{Offload, Outgoing, Tag};

use crate::option;

/// Maximum number of frames per call.
pub const BATCH: usize = 32;
/// Maximum length of a frame: the longest IPv4 packet after an Ethernet header.
pub const LONGEST: usize = 65_535 + 14;
/// Size of the receive buffer, in bytes: more than all windows of a lab, for times in which the thread does not run.
const RECEIVE_BUFFER: libc::c_int = 16 << 20;
/// Size of the send buffer, in bytes: a burst must not wait for the device's queue, which has its own length.
const SEND_BUFFER: libc::c_int = 8 << 20;
/// Size of the buffer for a frame's timestamp and other metadata, in bytes.
const CONTROL: usize = 96;

/// `AF_PACKET` socket of a device.
pub struct PacketSocket {
    fd: OwnedFd,
    batch: Box<Batch>,
}

/// Buffers of a batch; `headers` point into the others, which are boxed and never move.
struct Batch {
    frames: Vec<u8>,
    room: usize,
    offloads: [Offload; BATCH],
    offloading: Offloading,
    controls: [[u64; CONTROL / 8]; BATCH],
    /// Offload header and frame buffer of each frame.
    vectors: [[libc::iovec; 2]; BATCH],
    headers: [libc::mmsghdr; BATCH],
}

/// Use of offloads on a socket's frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Offloading {
    /// Each frame is one complete packet.
    Off,
    /// Checksums may be missing, and a frame may be a super-segment; each has a header with this metadata.
    On,
}

/// Received frame.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'b> {
    /// Time since the kernel received the frame, in nanoseconds.
    pub age: u64,
    /// VLAN tag that the kernel removed from the frame.
    pub tag: Option<Tag>,
    /// Offload metadata; empty if offloads are off.
    pub offload: Offload,
    /// Bytes, starting at the Ethernet header.
    pub bytes: &'b [u8],
}

// SAFETY: the raw pointers in a batch point into its own boxed memory, and are only used through a mutable reference to it.
unsafe impl Send for Batch {}

impl PacketSocket {
    /// Opens a socket on `device` of the calling thread's namespace, whose offloads must be off, for frames of up to
    /// `mtu` bytes after the Ethernet header.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn open(device: &str, mtu: u32) -> io::Result<Self> {
        Self::open_on(device, (mtu as usize + 14).min(LONGEST), Offloading::Off)
    }

    /// Opens a socket like [`PacketSocket::open`] on a device whose peer passes super-segments to it.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn open_offloaded(device: &str) -> io::Result<Self> {
        Self::open_on(device, LONGEST, Offloading::On)
    }

    fn open_on(device: &str, room: usize, offloading: Offloading) -> io::Result<Self> {
        let name = CString::new(device)?;
        // SAFETY: `name` is a string that ends in a zero.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let prepare = |fd: &OwnedFd| {
            if offloading == Offloading::On {
                option::set(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
            }
            option::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
        };
        let socket = Self::open_with(room, offloading, prepare)?;
        socket.bind(index)?;
        Ok(socket)
    }

    /// Opens a socket for a device whose offloads may be on, and to which [`PacketSocket::bind`] binds it. It accepts
    /// frames according to the BPF program `filter`, starting with the first one.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn offloaded(filter: BorrowedFd<'_>) -> io::Result<Self> {
        Self::open_with(LONGEST, Offloading::On, |fd| {
            option::set(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
            option::set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SEND_BUFFER)?;
            option::set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, filter.as_raw_fd())
        })
    }

    fn open_with(
        room: usize,
        offloading: Offloading,
        prepare: impl FnOnce(&OwnedFd) -> io::Result<()>,
    ) -> io::Result<Self> {
        // No protocol yet: a socket would receive from every device until it is bound.
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call just returned it, and it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        option::set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        option::set(&fd, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        option::set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)?;
        prepare(&fd)?;
        Ok(Self { fd, batch: Batch::new(room, offloading) })
    }

    /// Binds the socket to the device with this index in its namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none.
    pub fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: all zeros is a valid address.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: `address` is of the length given and lives through the call.
        if unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Receives waiting frames, at most one batch. Returns whether there may be more.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel reports an error.
    pub fn receive<'b>(&'b mut self, mut take: impl FnMut(Arrival<'b>)) -> io::Result<bool> {
        self.batch.rewind();
        let (fd, flags) = (self.fd.as_raw_fd(), libc::MSG_DONTWAIT as _);
        let headers = self.batch.headers.as_mut_ptr();
        // SAFETY: the headers point to buffers of the batch of the lengths that they say, which live through the call.
        let count = unsafe { libc::recvmmsg(fd, headers, BATCH as u32, flags, ptr::null_mut()) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            };
        }
        let now = realtime();
        let count = usize::try_from(count).unwrap_or_default().min(BATCH);
        let batch = &*self.batch;
        (0..count).for_each(|index| take(batch.arrival(index, now)));
        Ok(count == BATCH)
    }

    /// Sends one complete frame.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        if self.batch.offloading == Offloading::On {
            let offload = Offload::default();
            // The kernel only reads these bytes.
            let vectors = [offload.bytes(), frame]
                .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
            // SAFETY: the vectors point to bytes of the lengths given, which live through the call.
            let sent = unsafe { libc::writev(self.fd.as_raw_fd(), vectors.as_ptr(), vectors.len() as _) };
            return if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        }
        // SAFETY: `frame` is valid for its length.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sends frames in order through a socket opened by [`PacketSocket::offloaded`]. Returns the number of frames
    /// that the kernel refused, and its last error.
    pub fn send_offloaded(&self, frames: &[Outgoing<'_>]) -> (usize, Option<io::Error>) {
        let (mut refused, mut problem) = (0, None);
        for chunk in frames.chunks(BATCH) {
            let empty = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
            let mut vectors = [[empty; 3]; BATCH];
            // SAFETY: all zeros is a valid header: null pointers and no lengths.
            let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
            for ((frame, vectors), header) in chunk.iter().zip(&mut vectors).zip(&mut headers) {
                let parts = [frame.offload.bytes(), frame.link.bytes(), &frame.packet];
                // The kernel only reads these bytes.
                *vectors =
                    parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
                header.msg_hdr.msg_iov = vectors.as_mut_ptr();
                header.msg_hdr.msg_iovlen = vectors.len() as _;
            }
            let mut done = 0;
            while done < chunk.len() {
                let (rest, count) = (&mut headers[done..], (chunk.len() - done) as u32);
                // SAFETY: at least `count` headers are left, each with three vectors to bytes that live through the
                // call.
                let sent =
                    unsafe { libc::sendmmsg(self.fd.as_raw_fd(), rest.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
                match usize::try_from(sent) {
                    Ok(sent) => done += sent.max(1),
                    // The first frame was refused; the kernel may accept later ones.
                    Err(_) => {
                        problem = Some(io::Error::last_os_error());
                        refused += 1;
                        done += 1;
                    }
                }
            }
        }
        (refused, problem)
    }

    /// Sets the firewall mark of frames sent from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        option::set(&self.fd, libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
    }

    /// Returns the number of frames that the kernel has dropped since the last call because they were not received in
    /// time.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
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
    fn new(room: usize, offloading: Offloading) -> Box<Self> {
        let empty = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Box::new(Self {
            frames: vec![0; room * BATCH],
            room,
            offloads: [Offload::default(); BATCH],
            offloading,
            controls: [[0; CONTROL / 8]; BATCH],
            vectors: [[empty; 2]; BATCH],
            // SAFETY: all zeros is a valid header: null pointers and no lengths.
            headers: unsafe { zeroed() },
        })
    }

    /// Resets every header for a new frame: the kernel has overwritten their lengths.
    fn rewind(&mut self) {
        for (index, room) in self.frames.chunks_exact_mut(self.room).enumerate() {
            let vectors = &mut self.vectors[index];
            let offload = (&raw mut self.offloads[index]).cast();
            vectors[0] = libc::iovec { iov_base: offload, iov_len: size_of::<Offload>() };
            vectors[1] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            let vectors = if self.offloading == Offloading::On { &mut vectors[..] } else { &mut vectors[1..] };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = vectors.as_mut_ptr();
            header.msg_iovlen = vectors.len() as _;
            header.msg_control = self.controls[index].as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
    }

    /// Returns a frame of the last batch, which was received at `now` of the wall clock.
    fn arrival(&self, index: usize, now: u64) -> Arrival<'_> {
        let header = &self.headers[index];
        let before = if self.offloading == Offloading::On { size_of::<Offload>() } else { 0 };
        let len = (header.msg_len as usize).saturating_sub(before).min(self.room);
        let start = index * self.room;
        let (mut age, mut tag) = (0, None);
        // SAFETY: the kernel filled the header and its control buffer, which are still there; what it writes under
        // these types is a `timespec` and a `tpacket_auxdata`.
        unsafe {
            let mut control = libc::CMSG_FIRSTHDR(&header.msg_hdr);
            while !control.is_null() {
                match ((*control).cmsg_level, (*control).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let time = ptr::read_unaligned(libc::CMSG_DATA(control).cast::<libc::timespec>());
                        age = now.saturating_sub(nanos(time));
                    }
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                        let said = ptr::read_unaligned(libc::CMSG_DATA(control).cast::<libc::tpacket_auxdata>());
                        tag = Tag::read(&said);
                    }
                    _ => {}
                }
                control = libc::CMSG_NXTHDR(&header.msg_hdr, control);
            }
        }
        Arrival { age, tag, offload: self.offloads[index], bytes: &self.frames[start..start + len] }
    }
}

pub(crate) fn realtime() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    nanos(time)
}

pub(crate) fn nanos(time: libc::timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
