//! A recording of what a worker's state machine was told and decided, as a pcapng file. The packet loop only fills memory; a thread of its own
//! writes the file, and when it cannot keep up, or the file has grown to its limit, the recording ends and the packet loop goes on.

use std::borrow::Cow;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use lasthop_proto::time::{Duration, Instant};
use lasthop_scenario::units::ByteSize;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

pub mod differences;
pub mod reader;

/// Tells Wireshark that text follows: the tag of a dissector's name, 16 bytes of it, no more tags. In frames of
/// [`DataLink::WIRESHARK_UPPER_PDU`].
pub const TEXT_FOLLOWS: &[u8] = b"\0\x0c\0\x10data-text-lines\0\0\0\0\0";
/// Stamps are in units of 10⁻⁹ s.
pub const NANOSECONDS: u8 = 9;
/// Of a frame's flags: it came in.
pub const INBOUND: u32 = 1;
/// Of a frame's flags: it went out.
pub const OUTBOUND: u32 = 2;

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
    /// Who records, as messages say it: "the gateway".
    pub who: &'static str,
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
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = self.open_existing()?;
                if file.metadata()?.len() > 0 {
                    tracing::warn!("{} was there before: it is emptied for this recording", self.path.display());
                }
                file.set_len(0)
            }
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
    /// Begins a section at the end of the file, which says `text` and has these interfaces; what is wrong is logged.
    pub fn start(self, text: &str, interfaces: &[(&str, DataLink)]) -> Option<Recorder> {
        let to = self.to.clone();
        Recorder::start(self, text, interfaces).map_err(|error| log(&to, &error)).ok()
    }
}

fn log(to: &RecordTo, error: &io::Error) {
    let (file, who) = (to.path.display(), to.who);
    tracing::error!(%error, "cannot write the recording {file}; {who} goes on without");
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

    /// What the state machine was told, and what it decided: all of it or nothing. `packets` of it were packets that came.
    pub fn step<'b>(&mut self, now: Instant, packets: u64, blocks: impl IntoIterator<Item = EnhancedPacketBlock<'b>>) {
        self.packets += packets;
        if self.chunks.is_none() {
            return;
        }
        let before = self.writer.get_ref().len();
        for block in blocks {
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
        let (file, who, packets) = (self.to.path.display(), self.to.who, self.packets);
        tracing::warn!("the recording {file} {why}: it ends after {packets} packets; {who} goes on");
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

/// A section without frames. `text` stands in comments that belong together.
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

/// All comments of a section, which are one text.
pub fn text(section: &SectionHeaderBlock<'_>) -> String {
    let comment = |option: &SectionHeaderOption<'_>| match option {
        SectionHeaderOption::Comment(text) => Some(text.to_string()),
        _ => None,
    };
    section.options.iter().filter_map(comment).collect()
}

/// A frame of text on the interface of that number, whose first line Wireshark shows.
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

/// A time as frames have it.
pub fn stamp(now: Instant) -> std::time::Duration {
    std::time::Duration::from_nanos(now.as_nanos())
}
