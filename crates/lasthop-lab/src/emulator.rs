//! The emulated links at work: one thread between the far ends of all veth pairs.
//!
//! A link's own clock is exact: a frame enters it when the kernel got it, by the kernel's stamp, and leaves it when the link's
//! state machine says so. What the thread adds by waking late is measured frame by frame, and does not add up.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{thread, time};

use lasthop_proto::time::{Duration, Instant};
use lasthop_sys::clock::Clock;
use lasthop_sys::packet_socket::PacketSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::air::{Air, Arrival, Carried};
use super::error::LabError;
use super::lateness::Lateness;
use super::plan::Point;
use super::scheduling::{Scheduled, Scheduling};

/// How soon the end is noticed.
const LONGEST_WAIT: time::Duration = time::Duration::from_millis(20);
/// Batches taken from one socket before the links are looked at again.
const MOST_BATCHES: u32 = 4;

/// All links of a lab, between their sockets.
pub struct Emulator {
    air: Air,
    /// By point.
    sockets: Vec<PacketSocket>,
    clock: Clock,
    lateness: Lateness,
    refused: u64,
}

/// What came of it.
pub struct Emulated {
    /// What the links carried.
    pub carried: Carried,
    /// How late frames left.
    pub lateness: Lateness,
    /// How the thread was scheduled in the end.
    pub scheduling: Scheduling,
    /// Frames that the kernel dropped on their way between a node and its link.
    pub dropped: u64,
}

/// Frames that came with one wake-up.
#[derive(Default)]
struct Arrived {
    bytes: Vec<u8>,
    frames: Vec<(Instant, Point, std::ops::Range<usize>)>,
}

impl Emulator {
    /// One that has not begun.
    pub fn new(air: Air, sockets: Vec<PacketSocket>, clock: Clock) -> Self {
        Self { air, sockets, clock, lateness: Lateness::default(), refused: 0 }
    }

    /// Carries frames until `over`.
    ///
    /// # Errors
    ///
    /// When the kernel takes or gives no frames.
    pub fn run(mut self, over: &AtomicBool) -> Result<Emulated, LabError> {
        let mut scheduled = Scheduled::new(self.clock.now());
        // Where it is refused, threads wake later, which is measured.
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

    /// Waits for a frame or for a link; says which points have frames.
    fn wait(&self) -> Result<Vec<bool>, LabError> {
        let until = self.air.next_event().map_or(LONGEST_WAIT, |at| self.clock.until(at)).min(LONGEST_WAIT);
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
                // Read with the first frame, since ages are as of then.
                let mut now = None;
                let more = socket.receive(|frame| {
                    let now = *now.get_or_insert_with(|| self.clock.now());
                    let start = arrived.bytes.len();
                    arrived.bytes.extend_from_slice(frame.bytes);
                    let time = Instant::from_nanos(now.as_nanos().saturating_sub(frame.age));
                    arrived.frames.push((time, point, start..start + frame.bytes.len()));
                });
                if !more.map_err(LabError::system("cannot take frames"))? {
                    break;
                }
            }
        }
        // A stable sort: frames of one point keep their order.
        arrived.frames.sort_by_key(|(time, ..)| *time);
        Ok(())
    }

    /// Puts what came onto the links, and lets these act, in order of time.
    fn carry(&mut self, arrived: &mut Arrived) -> Result<(), LabError> {
        for (time, point, range) in arrived.frames.drain(..) {
            self.advance(time)?;
            self.air.send(time, point, &arrived.bytes[range]);
        }
        Ok(())
    }

    fn advance(&mut self, now: Instant) -> Result<(), LabError> {
        let Self { air, sockets, clock, lateness, refused } = self;
        air.advance(now, |Arrival { point, due, bytes }| {
            *refused += u64::from(!hand_over(&sockets[point], bytes)?);
            lateness.add(clock.now().since(due));
            Ok(())
        })
        .map_err(LabError::system("cannot hand over a frame"))
    }
}

/// While what this returns is open, idle processors wake at once (PM QoS): an idle virtual one gives itself to its host, and may come back milliseconds late.
fn keep_processors_awake() -> io::Result<File> {
    const LONGEST_WAKING: i32 = 0;
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency")?;
    file.write_all(&LONGEST_WAKING.to_ne_bytes())?;
    Ok(file)
}

/// Sends a frame. A processor takes so many frames at a time, from all devices of the machine: when others have filled its
/// queue, this waits a little. False when that did not help.
fn hand_over(socket: &PacketSocket, frame: &[u8]) -> io::Result<bool> {
    const ATTEMPTS: u32 = 20;
    const PAUSE: time::Duration = time::Duration::from_micros(50);
    for _ in 0..ATTEMPTS {
        match socket.send(frame) {
            Ok(()) => return Ok(true),
            // Asleep, this thread lets the kernel work the queue off, over which it may have priority.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Why a run does not count, if it does not.
pub fn void(emulated: &Emulated, bound: Duration) -> Option<String> {
    let p99 = emulated.lateness.percentile(99);
    if emulated.dropped > 0 {
        Some(format!("the kernel dropped frames on their way between nodes and emulated links ({})", emulated.dropped))
    } else if p99 > bound {
        let millis = super::error::millis;
        Some(format!(
            "one frame in a hundred left an emulated link {} late or more (bound: {})",
            millis(p99),
            millis(bound)
        ))
    } else {
        None
    }
}
