//! Ring buffer of the headers of packets that crossed the lossy hop on observed or untreated connections, in memory of
//! bounded size, readable with access to this process.
//!
//! The memory is an anonymous file (`memfd_create`), so that nothing remains when the process ends. It has slots of
//! equal size; the newest entry replaces the oldest. `lasthop gateway report --link` reads and analyzes it, so the
//! packet loop only copies.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;

use lasthop_proto::time::{Duration, Instant};
use rustix::fs::{MemfdFlags, memfd_create};

/// Size of a slot, in bytes: time in nanoseconds, length of the packet, length of its header part, header part.
const SLOT: usize = 128;
const FIELDS: usize = 16;
/// Number of slots written at once.
const CHUNK: usize = 512;
/// Maximum time to buffer entries while packets arrive.
const DELAY: Duration = Duration::from_millis(500);

/// Ring buffer in use.
#[derive(Debug)]
pub struct Tape {
    file: File,
    /// Number of slots.
    slots: u64,
    /// Index of the next slot to write.
    next: u64,
    waiting: Vec<u8>,
    flushed: Instant,
}

impl Tape {
    /// Creates a tape of the given size in bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if a system call fails.
    pub fn new(bytes: u64) -> io::Result<Self> {
        let file = File::from(memfd_create("lasthop-link", MemfdFlags::CLOEXEC)?);
        let slots = (bytes / SLOT as u64).max(CHUNK as u64);
        Ok(Self { file, slots, next: 0, waiting: Vec::with_capacity(CHUNK * SLOT), flushed: Instant::ZERO })
    }

    /// Returns the file descriptor, by which the file is found in `/proc/PID/fd`.
    pub fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Records a packet that crosses the hop.
    pub fn put(&mut self, now: Instant, packet: &[u8]) {
        let head = &packet[..packet.len().min(SLOT - FIELDS)];
        self.waiting.extend(now.as_nanos().to_le_bytes());
        self.waiting.extend((packet.len() as u32).to_le_bytes());
        self.waiting.extend((head.len() as u32).to_le_bytes());
        self.waiting.extend(head);
        self.waiting.resize(self.waiting.len().next_multiple_of(SLOT), 0);
        if self.waiting.len() >= CHUNK * SLOT || now.since(self.flushed) >= DELAY {
            self.flush(now);
        }
    }

    /// Writes buffered entries. If memory is short, they are lost.
    pub fn flush(&mut self, now: Instant) {
        self.flushed = now;
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut rest = &waiting[..];
        while !rest.is_empty() {
            let room = ((self.slots - self.next) as usize * SLOT).min(rest.len());
            let written = self
                .file
                .seek(SeekFrom::Start(self.next * SLOT as u64))
                .and_then(|_| self.file.write_all(&rest[..room]));
            if written.is_err() {
                break;
            }
            self.next = (self.next + (room / SLOT) as u64) % self.slots;
            rest = &rest[room..];
        }
        waiting.clear();
        self.waiting = waiting;
    }
}

/// Converts the content of a tape to a pcap capture of IP packets in chronological order.
pub fn capture(tape: &[u8]) -> Vec<u8> {
    let field =
        |slot: &[u8], at: usize| slot.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_le_bytes);
    let mut heads: Vec<(u64, u32, &[u8])> = tape
        .chunks_exact(SLOT)
        .filter_map(|slot| {
            let time = u64::from(field(slot, 0)) | u64::from(field(slot, 4)) << 32;
            let (len, head) = (field(slot, 8), slot.get(FIELDS..FIELDS.saturating_add(field(slot, 12) as usize))?);
            (len as usize >= head.len() && !head.is_empty()).then_some((time, len, head))
        })
        .collect();
    heads.sort_by_key(|(time, ..)| *time);
    // Magic number for nanoseconds, version 2.4, time zone 0, accuracy 0, snap length, link type 101: packets start
    // with their IP header.
    let mut out = Vec::with_capacity(tape.len() + 24);
    for word in [0xa1b2_3c4d_u32, 2 | 4 << 16, 0, 0, 262_144, 101] {
        out.extend(word.to_le_bytes());
    }
    for (time, len, head) in heads {
        for word in [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, head.len() as u32, len] {
            out.extend(word.to_le_bytes());
        }
        out.extend(head);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn contents(tape: &mut Tape) -> Vec<u8> {
        tape.file.rewind().unwrap();
        let mut bytes = Vec::new();
        tape.file.read_to_end(&mut bytes).unwrap();
        capture(&bytes)
    }

    /// Returns times and lengths of a capture's packets.
    fn packets(capture: &[u8]) -> Vec<(u64, u32)> {
        let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
        let (mut at, mut found) = (24, Vec::new());
        while at < capture.len() {
            found.push((u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4)), word(at + 12)));
            at += 16 + word(at + 8) as usize;
        }
        found
    }

    #[test]
    fn the_last_packets_are_kept_in_order() {
        // Rounded up to 512 slots.
        let mut tape = Tape::new(1).unwrap();
        let at = |number: u64| Instant::ZERO + Duration::from_millis(number);
        for number in 0..2000 {
            tape.put(at(number), &vec![0x45; 40 + number as usize]);
        }
        tape.flush(at(2000));
        let found = packets(&contents(&mut tape));
        let wanted: Vec<_> = (1488..2000).map(|number| (number * 1_000_000, 40 + number as u32)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn garbage_is_no_packet() {
        assert_eq!(capture(&[0xff; SLOT + SLOT / 2]).len(), 24);
        assert_eq!(capture(&[0; SLOT]).len(), 24);
    }
}
