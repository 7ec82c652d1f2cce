//! Operation of the emulated links: one thread between the far ends of all veth pairs.
//!
//! A link's own clock is exact: a frame enters it at the kernel's receive timestamp, and leaves it at the time that the
//! link's state machine determines. The delay added by late wake-ups is measured for each frame, and does not
//! accumulate.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{thread, time};

use lasthop_proto::time::{Duration, Instant};
use lasthop_sys::clock::Clock;
use lasthop_sys::packet_socket::PacketSocket;
use lasthop_sys::packet_socket::frame::Offload;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::air::{Air, Arrival, Carried};
use super::error::LabError;
use super::lateness::Lateness;
use super::offloads::{Numbers, split};
use super::plan::Point;
use super::scheduling::{Scheduled, Scheduling};

/// Maximum wait, after which the thread checks whether to stop.
const LONGEST_WAIT: time::Duration = time::Duration::from_millis(20);
/// Maximum number of batches read from one socket before the links are processed again.
const MOST_BATCHES: u32 = 4;

/// All links of a lab, between their sockets.
pub struct Emulator {
    air: Air,
    /// Sockets by point.
    sockets: Vec<PacketSocket>,
    clock: Clock,
    lateness: Lateness,
    refused: u64,
    numbers: Numbers,
}

/// Result of running the links.
pub struct Emulated {
    /// Traffic of the links.
    pub carried: Carried,
    /// Scheduling delay of frames.
    pub lateness: Lateness,
    /// Scheduling of the thread.
    pub scheduling: Scheduling,
    /// Number of frames that the kernel dropped between a node and its link.
    pub dropped: u64,
}

/// Frames received in one wake-up.
#[derive(Default)]
struct Arrived {
    bytes: Vec<u8>,
    frames: Vec<(Instant, Point, Offload, std::ops::Range<usize>)>,
}

impl Emulator {
    /// Creates an emulator.
    pub fn new(air: Air, sockets: Vec<PacketSocket>, clock: Clock) -> Self {
        let numbers = Numbers::new(sockets.len());
        Self { air, sockets, clock, lateness: Lateness::default(), refused: 0, numbers }
    }

    /// Carries frames until `over` is set.
    ///
    /// # Errors
    ///
    /// Returns errors of sending, receiving or waiting.
    pub fn run(mut self, over: &AtomicBool) -> Result<Emulated, LabError> {
        let mut scheduled = Scheduled::new(self.clock.now());
        // If the request is refused, threads wake later, which is measured.
        let _awake = keep_processors_awake();
        let mut arrived = Arrived::default();
        while !over.load(Ordering::Relaxed) {
            let now = self.clock.now();
            scheduled.look(now);
            self.advance(now)?;
            let ready = self.wait()?;
            self.receive(&ready, &mut arrived)?;
            self.carry(&mut arrived)?;
        }
        let overruns = self.sockets.iter().map(|socket| socket.overruns().map(u64::from));
        let overruns =
            overruns.sum::<Result<u64, _>>().map_err(LabError::system("cannot read a socket's statistics"))?;
        let dropped = overruns + self.refused;
        Ok(Emulated {
            carried: self.air.finish(),
            lateness: self.lateness,
            scheduling: scheduled.scheduling(),
            dropped,
        })
    }

    /// Waits for a frame or for a link's next event. Returns for each point whether it has frames.
    fn wait(&self) -> Result<Vec<bool>, LabError> {
        let until = self.air.poll_deadline().map_or(LONGEST_WAIT, |at| self.clock.until(at)).min(LONGEST_WAIT);
        let timeout = Timespec { tv_sec: until.as_secs() as i64, tv_nsec: i64::from(until.subsec_nanos()) };
        let mut fds: Vec<_> = self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect()),
            Err(rustix::io::Errno::INTR) => Ok(vec![false; fds.len()]),
            Err(error) => Err(LabError::errno("cannot wait for frames")(error)),
        }
    }

    fn receive(&mut self, ready: &[bool], arrived: &mut Arrived) -> Result<(), LabError> {
        arrived.bytes.clear();
        arrived.frames.clear();
        for (point, socket) in self.sockets.iter_mut().enumerate().filter(|(point, _)| ready[*point]) {
            for _ in 0..MOST_BATCHES {
                // Read with the first frame, since ages are relative to that time.
                let mut now = None;
                let more = socket.receive(|frame| {
                    let now = *now.get_or_insert_with(|| self.clock.now());
                    let start = arrived.bytes.len();
                    arrived.bytes.extend_from_slice(frame.bytes);
                    let time = Instant::from_nanos(now.as_nanos().saturating_sub(frame.age));
                    arrived.frames.push((time, point, frame.offload, start..start + frame.bytes.len()));
                });
                if !more.map_err(LabError::system("cannot receive frames"))? {
                    break;
                }
            }
        }
        // Stable sort: frames of one point keep their order.
        arrived.frames.sort_by_key(|(time, ..)| *time);
        Ok(())
    }

    /// Sends the received frames into the links and processes the links' events, in order of time.
    fn carry(&mut self, arrived: &mut Arrived) -> Result<(), LabError> {
        for (time, point, offload, range) in arrived.frames.drain(..) {
            self.advance(time)?;
            let Self { air, numbers, .. } = self;
            let number = || numbers.next(point);
            split(&arrived.bytes[range], offload, number, |frame, number| air.send_part(time, point, frame, number));
        }
        Ok(())
    }

    fn advance(&mut self, now: Instant) -> Result<(), LabError> {
        let Self { air, sockets, clock, lateness, refused, .. } = self;
        air.advance(now, |Arrival { point, due, bytes }| {
            *refused += u64::from(!hand_over(&sockets[point], bytes)?);
            lateness.add(clock.now().since(due));
            Ok(())
        })
        .map_err(LabError::system("cannot send a frame"))
    }
}

/// Keeps idle processors ready to wake at once (PM QoS) while the returned file is open. Otherwise an idle virtual
/// processor yields to its host, and may return milliseconds late.
fn keep_processors_awake() -> io::Result<File> {
    const LONGEST_WAKING: i32 = 0;
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&LONGEST_WAKING.to_ne_bytes())?;
    Ok(file)
}

/// Sends a frame. If the processor's queue, which all devices of the machine share, is full, retries for a short time.
/// Returns false if it remains full.
fn hand_over(socket: &PacketSocket, frame: &[u8]) -> io::Result<bool> {
    const ATTEMPTS: u32 = 20;
    const PAUSE: time::Duration = time::Duration::from_micros(50);
    for _ in 0..ATTEMPTS {
        match socket.send(frame) {
            Ok(()) => return Ok(true),
            // Sleeping lets the kernel drain the queue, since this thread may have priority over it.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Returns the reason why a run is void, if it is.
pub fn void(emulated: &Emulated, bound: Duration) -> Option<String> {
    let p99 = emulated.lateness.percentile(99);
    if emulated.dropped > 0 {
        Some(format!("the kernel dropped {} frames between nodes and emulated links", emulated.dropped))
    } else if p99 > bound {
        let millis = super::error::millis;
        Some(format!(
            "the 99th percentile of the scheduling delay at emulated links was {} (bound: {})",
            millis(p99),
            millis(bound)
        ))
    } else {
        None
    }
}
