//! Writes a recording. The packet loop only fills memory; a thread of its own writes the file, and when it cannot keep up, or
//! the file has grown to its limit, the recording ends and the packet loop goes on.

use std::borrow::Cow;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use lasthop_proto::node::Port;
use lasthop_proto::time::{Duration, Instant};
use lasthop_scenario::units::ByteSize;
use lasthop_wire::Checksum;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

use super::{
    DROPPED, ENGINE, FORMAT, INBOUND, INJECTED, INTERFACES, NANOSECONDS, OUTBOUND, PENDING, REPLACED, REPLACEMENT,
    SEGMENTS, TEXT_FOLLOWS, WRONG, headers_len,
};
use crate::engine::{Condition, Injection, Offloaded, Verdict};

/// Bytes that go to the file at once.
const CHUNK: usize = 64 << 10;
/// Chunks that may wait for the disk; beyond, they grow to this.
const WAITING: usize = 16;
const LARGEST_CHUNK: usize = 4 << 20;
/// What is recorded is in the file this much later at the latest, while packets come.
const DELAY: Duration = Duration::from_secs(1);
/// Bytes of a configuration in one comment: below the 65,535 that an option takes.
const COMMENT: usize = 60_000;

/// Where a recording goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordTo {
    /// The file.
    pub path: PathBuf,
    /// Most bytes that it may have.
    pub limit: u64,
}

impl RecordTo {
    /// Makes the file, empty, for nobody's eyes but its owner's. One that is there is emptied if it is a regular file of this
    /// user's own, and from then on for nobody else either.
    ///
    /// # Errors
    ///
    /// When it is something else, or cannot be made.
    pub fn create(&self) -> io::Result<()> {
        match OpenOptions::new().write(true).create_new(true).mode(MODE).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.open_existing()?.set_len(0),
            made => made.map(drop),
        }
    }

    /// Opens it to go on behind what is there. Without it the gateway works all the same: what is wrong is logged.
    pub fn open(self) -> Option<RecordFile> {
        match self.open_existing() {
            Ok(file) => Some(RecordFile { to: self, file }),
            Err(error) => {
                log(&self, &error);
                None
            }
        }
    }

    fn open_existing(&self) -> io::Result<File> {
        // Before it is opened, since a pipe would wait, and a device do something; and after, because it may be another file by
        // then.
        check(&std::fs::symlink_metadata(&self.path)?)?;
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().append(true).custom_flags(flags).open(&self.path)?;
        let metadata = file.metadata()?;
        check(&metadata)?;
        if metadata.mode() & 0o777 != MODE {
            file.set_permissions(Permissions::from_mode(MODE))?;
        }
        Ok(file)
    }
}

/// A recording is its owner's alone.
const MODE: u32 = 0o600;

/// Refuses what a recording must not be written to: somebody else may have put it in the way.
fn check(metadata: &Metadata) -> io::Result<()> {
    let problem = match (metadata.file_type(), rustix::process::geteuid().as_raw()) {
        (kind, _) if kind.is_symlink() => "it is a symbolic link; name the file itself".to_owned(),
        (kind, _) if !kind.is_file() => "it is no regular file; name another, or one that is not there yet".to_owned(),
        (_, user) if metadata.uid() != user => format!("it belongs to user {}, not to user {user}", metadata.uid()),
        _ if metadata.nlink() > 1 => "it has other names too (hard links); name another file".to_owned(),
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

/// A file open for recording.
#[derive(Debug)]
pub struct RecordFile {
    to: RecordTo,
    file: File,
}

impl RecordFile {
    /// Begins to record an engine that starts now with this configuration and seed; what is wrong is logged.
    pub fn start(self, configuration: &str, seed: u64) -> Option<Recorder> {
        let to = self.to.clone();
        Recorder::start(self, configuration, seed).map_err(|error| log(&to, &error)).ok()
    }
}

fn log(to: &RecordTo, error: &io::Error) {
    let file = to.path.display();
    tracing::error!(%error, "cannot write the recording {file}; the gateway goes on without");
}

/// A recording under way, or one that has ended.
pub struct Recorder {
    writer: PcapNgWriter<Vec<u8>>,
    /// None when the recording has ended.
    chunks: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    to: RecordTo,
    /// Bytes that the file may still take.
    left: u64,
    packets: u64,
    /// When a chunk went to the file last.
    flushed: Instant,
}

impl Recorder {
    /// Begins a section at the end of the file.
    fn start(RecordFile { to, file }: RecordFile, configuration: &str, seed: u64) -> io::Result<Self> {
        let left = to.limit.saturating_sub(file.metadata()?.len());
        let (chunks, waiting) = sync_channel(WAITING);
        let writer = to.clone();
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            write_chunks(file, &writer, &waiting);
        })?;
        let mut recorder = Self {
            writer: section(configuration, seed).map_err(io::Error::other)?,
            chunks: Some(chunks),
            thread: Some(thread),
            to,
            left,
            packets: 0,
            flushed: Instant::ZERO,
        };
        recorder.bound(0);
        recorder.flush();
        Ok(recorder)
    }

    /// The engine was given a packet, and decided.
    pub fn packet(
        &mut self,
        now: Instant,
        port: Port,
        packet: &[u8],
        offloaded: Offloaded,
        verdict: &Verdict,
        sent: &[Injection],
    ) {
        let (comment, replacement) = match verdict {
            Verdict::Accept => (None, None),
            Verdict::Drop => (Some(DROPPED), None),
            Verdict::Replace(replacement) => (Some(REPLACED), Some(&replacement[..])),
        };
        let mut given = of_packet(now, port, packet, INBOUND, comment);
        let size = offloaded.size.map(|size| Cow::Owned(format!("{SEGMENTS}{size}")));
        let condition = lasthop_wire::parse(packet).map(|view| offloaded.condition(packet, &view));
        let wrong = (condition == Some(Condition::Damaged)).then_some(Cow::Borrowed(WRONG));
        let pending = (offloaded.checksum == Checksum::Pending).then_some(Cow::Borrowed(PENDING));
        given.options.extend(size.into_iter().chain(pending).chain(wrong).map(EnhancedPacketOption::Comment));
        let beyond = port.across();
        let replacement = replacement.map(|packet| of_packet(now, beyond, packet, OUTBOUND, Some(REPLACEMENT)));
        self.step(now, given, replacement, sent);
        self.packets += 1;
    }

    /// The engine was told something else; `text` is what the file says of it, its first line what Wireshark shows.
    pub fn event(&mut self, now: Instant, text: &str, sent: &[Injection]) {
        let first = text.lines().next().unwrap_or_default();
        let data = [TEXT_FOLLOWS, text.as_bytes()].concat();
        let block = EnhancedPacketBlock {
            interface_id: ENGINE,
            timestamp: std::time::Duration::from_nanos(now.as_nanos()),
            original_len: data.len() as u32,
            data: Cow::Owned(data),
            options: vec![EnhancedPacketOption::Comment(Cow::Borrowed(first))],
        };
        self.step(now, block, None, sent);
    }

    /// What the engine was told, what it decided: all of it or nothing.
    fn step(
        &mut self,
        now: Instant,
        told: EnhancedPacketBlock<'_>,
        replacement: Option<EnhancedPacketBlock<'_>>,
        sent: &[Injection],
    ) {
        if self.chunks.is_none() {
            return;
        }
        let before = self.writer.get_ref().len();
        let sent = sent.iter().map(|sent| of_packet(now, sent.towards, &sent.packet, OUTBOUND, Some(INJECTED)));
        for block in [Some(told), replacement].into_iter().flatten().chain(sent) {
            // Memory takes everything.
            let _ = self.writer.write_pcapng_block(block);
        }
        self.bound(before);
        if self.writer.get_ref().len() >= CHUNK || now.since(self.flushed) >= DELAY {
            self.flushed = now;
            self.flush();
        }
    }

    /// Ends the recording where it was `before` bytes long if it is too long for the file now.
    fn bound(&mut self, before: usize) {
        let len = self.writer.get_ref().len();
        if len as u64 > self.left {
            self.writer.get_mut().truncate(before);
            self.end(&format!("has reached its limit of {}", ByteSize(self.to.limit)));
        } else if len > LARGEST_CHUNK {
            self.end("is on a disk that is too slow");
        }
    }

    fn flush(&mut self) {
        let chunk = std::mem::take(self.writer.get_mut());
        let Some(chunks) = self.chunks.as_ref().filter(|_| !chunk.is_empty()) else { return };
        let len = chunk.len() as u64;
        match chunks.try_send(chunk) {
            Ok(()) => self.left = self.left.saturating_sub(len),
            Err(TrySendError::Full(chunk)) => *self.writer.get_mut() = chunk,
            // The thread has said why.
            Err(TrySendError::Disconnected(_)) => self.chunks = None,
        }
    }

    /// What is not on its way to the file yet is lost if the disk is behind: the packet loop waits for nothing.
    fn end(&mut self, why: &str) {
        self.flush();
        self.chunks = None;
        let (file, packets) = (self.to.path.display(), self.packets);
        tracing::warn!("the recording {file} {why}: it ends after {packets} packets; the gateway goes on");
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Now there is time.
        if let Some(chunks) = self.chunks.take() {
            let _ = chunks.send(std::mem::take(self.writer.get_mut()));
        }
        if let Some(thread) = self.thread.take() {
            // It has reported what went wrong.
            let _ = thread.join();
        }
    }
}

fn write_chunks(mut file: File, to: &RecordTo, chunks: &Receiver<Vec<u8>>) {
    for chunk in chunks {
        let written = file.metadata().and_then(|metadata| {
            let whole = metadata.len();
            // Each chunk ends where a step ends. One that the disk did not take as a whole would end in the midst of one.
            file.write_all(&chunk).inspect_err(|_| {
                if let Err(error) = file.set_len(whole) {
                    log(to, &error);
                }
            })
        });
        if let Err(error) = written {
            log(to, &error);
            return;
        }
    }
}

/// A section without frames.
fn section(configuration: &str, seed: u64) -> Result<PcapNgWriter<Vec<u8>>, PcapError> {
    let mut comment = format!("{FORMAT}{seed}\n{configuration}");
    let mut options = vec![SectionHeaderOption::UserApplication(Cow::Borrowed("lasthop"))];
    while !comment.is_empty() {
        let rest = comment.split_off(comment.floor_char_boundary(COMMENT));
        options.push(SectionHeaderOption::Comment(Cow::Owned(std::mem::replace(&mut comment, rest))));
    }
    let header = SectionHeaderBlock { endianness: Endianness::Little, options, ..SectionHeaderBlock::default() };
    let mut writer = PcapNgWriter::with_section_header(Vec::with_capacity(CHUNK), header)?;
    let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for (number, name) in INTERFACES.into_iter().enumerate() {
        let linktype = if number as u32 == ENGINE { DataLink::WIRESHARK_UPPER_PDU } else { DataLink::RAW };
        let options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            InterfaceDescriptionOption::IfTsOffset(today),
        ];
        writer.write_pcapng_block(InterfaceDescriptionBlock { linktype, snaplen: 0, options })?;
    }
    Ok(writer)
}

fn of_packet<'p>(
    now: Instant,
    port: Port,
    packet: &'p [u8],
    direction: u32,
    comment: Option<&'static str>,
) -> EnhancedPacketBlock<'p> {
    let mut options = vec![EnhancedPacketOption::Flags(direction)];
    options.extend(comment.map(|comment| EnhancedPacketOption::Comment(Cow::Borrowed(comment))));
    EnhancedPacketBlock {
        interface_id: u32::from(port.0 & 1),
        timestamp: std::time::Duration::from_nanos(now.as_nanos()),
        original_len: packet.len() as u32,
        data: Cow::Borrowed(&packet[..headers_len(packet)]),
        options,
    }
}
