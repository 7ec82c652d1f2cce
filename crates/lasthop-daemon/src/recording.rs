//! Recording of the inputs and decisions of a worker's state machine as a pcapng file. The packet loop only fills
//! memory, and a separate thread writes the file. If it cannot keep up, or the file reaches its limit, the recording
//! ends and the packet loop continues.

use std::borrow::Cow;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use lasthop_proto::time::{Duration, Instant};
use lasthop_settings::units::ByteSize;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

pub mod differences;
pub mod reader;
pub mod steps;

/// Header that tells Wireshark that text follows: the tag for a dissector's name, 16 bytes of name, the end of tags.
/// Used in frames of [`DataLink::WIRESHARK_UPPER_PDU`].
pub const TEXT_FOLLOWS: &[u8] = b"\0\x0c\0\x10data-text-lines\0\0\0\0\0";
/// Timestamp resolution: 10⁻⁹ s.
pub const NANOSECONDS: u8 = 9;
/// Frame flag for received packets.
pub const INBOUND: u32 = 1;
/// Frame flag for sent packets.
pub const OUTBOUND: u32 = 2;

/// Size at which data goes to the file, in bytes.
const CHUNK: usize = 64 << 10;
/// Maximum number of chunks that wait for the disk, and the size to which chunks then grow.
const WAITING: usize = 16;
const LARGEST_CHUNK: usize = 4 << 20;
/// Maximum time until recorded data is written, while packets arrive.
const DELAY: Duration = Duration::from_secs(1);
/// Maximum number of bytes of a configuration per comment: below the 65,535 of an option.
const COMMENT: usize = 60_000;

/// Destination of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordTo {
    /// Path of the file.
    pub path: PathBuf,
    /// Maximum size of the file, in bytes.
    pub limit: u64,
    /// Name of the recording program in messages: "the gateway".
    pub who: &'static str,
}

impl RecordTo {
    /// Creates an empty file with access for its owner only. An existing file is truncated, and its permissions are
    /// restricted, if it is a regular file of this user.
    ///
    /// # Errors
    ///
    /// Returns an error if it is something else, or cannot be created.
    pub fn create(&self) -> io::Result<()> {
        match OpenOptions::new().write(true).create_new(true).mode(MODE).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = self.open_existing()?;
                if file.metadata()?.len() > 0 {
                    tracing::warn!("{} already exists; overwriting it", self.path.display());
                }
                file.set_len(0)
            }
            made => made.map(drop),
        }
    }

    /// Opens the file for appending. Logs errors, because the program works without a recording too.
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
        // Check before opening, because a pipe would block and a device might act; and after it, because the path may
        // then refer to another file.
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

/// Permissions of a recording: for its owner only.
const MODE: u32 = 0o600;

/// Rejects unsuitable files, which another user may have placed there.
fn check(metadata: &Metadata) -> io::Result<()> {
    let problem = match (metadata.file_type(), rustix::process::geteuid().as_raw()) {
        (kind, _) if kind.is_symlink() => "symbolic link; name the file itself".to_owned(),
        (kind, _) if !kind.is_file() => {
            "not a regular file; name another, or a file that does not exist yet".to_owned()
        }
        (_, user) if metadata.uid() != user => format!("owned by user {}, not by user {user}", metadata.uid()),
        _ if metadata.nlink() > 1 => "the file has several hard links; name another file".to_owned(),
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

/// File open for recording.
#[derive(Debug)]
pub struct RecordFile {
    to: RecordTo,
    file: File,
}

impl RecordFile {
    /// Starts a section with this text and these interfaces at the end of the file. Logs errors.
    pub fn start(self, text: &str, interfaces: &[(&str, DataLink)]) -> Option<Recorder> {
        let to = self.to.clone();
        Recorder::start(self, text, interfaces).map_err(|error| log(&to, &error)).ok()
    }
}

fn log(to: &RecordTo, error: &io::Error) {
    let (file, who) = (to.path.display(), to.who);
    tracing::error!(%error, "cannot write the recording {file}; {who} continues without it");
}

/// A recording in progress, or one that has ended.
pub struct Recorder {
    writer: PcapNgWriter<Vec<u8>>,
    /// Channel to the writing thread; `None` after the end of the recording.
    chunks: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    to: RecordTo,
    /// Number of bytes left until the limit.
    left: u64,
    packets: u64,
    /// Time at which a chunk last went to the file.
    flushed: Instant,
}

impl Recorder {
    /// Starts a section at the end of the file.
    fn start(RecordFile { to, file }: RecordFile, text: &str, interfaces: &[(&str, DataLink)]) -> io::Result<Self> {
        let left = to.limit.saturating_sub(file.metadata()?.len());
        let (chunks, waiting) = sync_channel(WAITING);
        let writer = to.clone();
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            write_chunks(file, &writer, &waiting);
        })?;
        let mut recorder = Self {
            writer: section(text, interfaces).map_err(io::Error::other)?,
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

    /// Records an input of the state machine and the decisions on it, as a whole or not at all. `packets` is the number
    /// of received packets in it.
    pub fn step<'b>(&mut self, now: Instant, packets: u64, blocks: impl IntoIterator<Item = EnhancedPacketBlock<'b>>) {
        self.packets += packets;
        if self.chunks.is_none() {
            return;
        }
        let before = self.writer.get_ref().len();
        for block in blocks {
            // Writing to memory cannot fail.
            let _ = self.writer.write_pcapng_block(block);
        }
        self.bound(before);
        if self.writer.get_ref().len() >= CHUNK || now.since(self.flushed) >= DELAY {
            self.flushed = now;
            self.flush();
        }
    }

    /// Ends the recording at length `before` if it no longer fits in the file.
    fn bound(&mut self, before: usize) {
        let len = self.writer.get_ref().len();
        if len as u64 > self.left {
            self.writer.get_mut().truncate(before);
            self.end(&format!("reached the size limit of {}", ByteSize(self.to.limit)));
        } else if len > LARGEST_CHUNK {
            self.end("disk too slow");
        }
    }

    fn flush(&mut self) {
        let chunk = std::mem::take(self.writer.get_mut());
        let Some(chunks) = self.chunks.as_ref().filter(|_| !chunk.is_empty()) else { return };
        let len = chunk.len() as u64;
        match chunks.try_send(chunk) {
            Ok(()) => self.left = self.left.saturating_sub(len),
            Err(TrySendError::Full(chunk)) => *self.writer.get_mut() = chunk,
            // The thread has logged the reason.
            Err(TrySendError::Disconnected(_)) => self.chunks = None,
        }
    }

    /// Ends the recording. Data that is not queued for the file is lost if the disk is behind: the packet loop must not
    /// wait.
    fn end(&mut self, why: &str) {
        self.flush();
        self.chunks = None;
        let (file, who, packets) = (self.to.path.display(), self.to.who, self.packets);
        tracing::warn!("recording {file} stopped after {packets} packets: {why}; {who} continues");
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The packet loop has ended, so blocking is allowed.
        if let Some(chunks) = self.chunks.take() {
            let _ = chunks.send(std::mem::take(self.writer.get_mut()));
        }
        if let Some(thread) = self.thread.take() {
            // It has logged errors.
            let _ = thread.join();
        }
    }
}

fn write_chunks(mut file: File, to: &RecordTo, chunks: &Receiver<Vec<u8>>) {
    for chunk in chunks {
        let written = file.metadata().and_then(|metadata| {
            let whole = metadata.len();
            // Each chunk ends at the end of a step. Truncate the file after a partial write, which would end within
            // one.
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

/// Returns a section without frames. `text` is split into consecutive comments.
fn section(text: &str, interfaces: &[(&str, DataLink)]) -> Result<PcapNgWriter<Vec<u8>>, PcapError> {
    let mut comment = text.to_owned();
    let mut options = vec![SectionHeaderOption::UserApplication(Cow::Borrowed("lasthop"))];
    while !comment.is_empty() {
        let rest = comment.split_off(comment.floor_char_boundary(COMMENT));
        options.push(SectionHeaderOption::Comment(Cow::Owned(std::mem::replace(&mut comment, rest))));
    }
    let header = SectionHeaderBlock { endianness: Endianness::Little, options, ..SectionHeaderBlock::default() };
    let mut writer = PcapNgWriter::with_section_header(Vec::with_capacity(CHUNK), header)?;
    let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for &(name, linktype) in interfaces {
        let options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            InterfaceDescriptionOption::IfTsOffset(today),
        ];
        writer.write_pcapng_block(InterfaceDescriptionBlock { linktype, snaplen: 0, options })?;
    }
    Ok(writer)
}

/// Returns the joined comments of a section.
pub fn text(section: &SectionHeaderBlock<'_>) -> String {
    let comment = |option: &SectionHeaderOption<'_>| match option {
        SectionHeaderOption::Comment(text) => Some(text.to_string()),
        _ => None,
    };
    section.options.iter().filter_map(comment).collect()
}

/// Returns a frame of text on this interface, of which Wireshark shows the first line.
pub fn of_text(now: Instant, interface: u32, text: &str) -> EnhancedPacketBlock<'_> {
    let data = [TEXT_FOLLOWS, text.as_bytes()].concat();
    EnhancedPacketBlock {
        interface_id: interface,
        timestamp: stamp(now),
        original_len: data.len() as u32,
        data: Cow::Owned(data),
        options: vec![EnhancedPacketOption::Comment(Cow::Borrowed(text.lines().next().unwrap_or_default()))],
    }
}

/// Converts a time to a timestamp.
pub fn stamp(now: Instant) -> std::time::Duration {
    std::time::Duration::from_nanos(now.as_nanos())
}
