//! Wire format of netfilter queue messages: parsed with all lengths checked, and written. No I/O.

use lasthop_wire::Checksum;

/// Message types of the queue subsystem (`NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_*`).
const PACKET: u16 = 0x300;
const VERDICT: u16 = 0x301;
const CONFIG: u16 = 0x302;
const VERDICT_BATCH: u16 = 0x303;
/// Message type `NLMSG_ERROR`: the answer to a request, successful or not.
const ERROR: u16 = 2;

const REQUEST: u16 = 1;
const ACK: u16 = 4;

/// Lengths of `nlmsghdr`, `nfgenmsg` and `nlattr`, in bytes.
const HEADER: usize = 16;
const GENERIC: usize = 4;
const ATTRIBUTE: usize = 4;

/// Maximum number of bytes of a packet that a queue copies, limited by the attribute.
pub const COPY_RANGE: u32 = 0xffff - ATTRIBUTE as u32;

/// Flags of a packet (`NFQA_SKB_INFO`): its checksum is not computed yet (`CHECKSUM_PARTIAL`); it is a super-segment;
/// its checksum was not verified.
const INFO_CHECKSUM_NOT_READY: u32 = 1;
const INFO_GSO: u32 = 1 << 1;
const INFO_CHECKSUM_NOT_VERIFIED: u32 = 1 << 2;

/// Packet that waits in the kernel for its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued<'b> {
    /// Number of the packet in its queue.
    pub id: u32,
    /// Hook at which the packet waits.
    pub hook: Hook,
    /// Firewall mark.
    pub mark: u32,
    /// Index of the incoming interface; 0 if there is none.
    pub from: u32,
    /// Index of the outgoing interface; 0 if there is none.
    pub to: u32,
    /// Bytes, starting at the IP header.
    pub bytes: &'b [u8],
    /// Completeness of these bytes.
    pub extent: Extent,
    /// Single packet or super-segment.
    pub shape: Shape,
    /// State of the packet's checksum field.
    pub checksum: Checksum,
}

/// Position of a packet on its path through the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// The packet has arrived and was not routed yet.
    Prerouting,
    /// The packet is addressed to this machine, or comes from it.
    Local,
    /// Another hook: the packet is being forwarded.
    Elsewhere,
}

/// Completeness of a packet in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Complete.
    Whole,
    /// Truncated: only its beginning.
    Truncated,
}

/// Form of a packet on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One packet.
    Single,
    /// A super-segment, which is segmented on output.
    Super,
}

/// Message from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message<'b> {
    /// A packet waits.
    Queued(Queued<'b>),
    /// The request with this number succeeded (0), or failed with this error number.
    Answer {
        /// Number of the request.
        sequence: u32,
        /// Value of `errno`.
        errno: i32,
    },
    /// Another message, or a malformed one.
    Other,
}

/// Returns the messages in received data; ends at the first one with an invalid length.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = usize::try_from(word(bytes, 0)?).ok()?;
        let message = bytes.get(..len).filter(|_| len >= HEADER)?;
        bytes = bytes.get(align(len)..).unwrap_or_default();
        Some(read(message).unwrap_or(Message::Other))
    })
}

fn read(message: &[u8]) -> Option<Message<'_>> {
    let kind = u16::from_ne_bytes(array(message, 4)?);
    match kind {
        PACKET => Some(Message::Queued(queued(message.get(HEADER + GENERIC..)?)?)),
        ERROR => {
            let errno = i32::from_ne_bytes(array(message, HEADER)?).checked_neg()?;
            // The answer contains the request's header after the error number.
            Some(Message::Answer { sequence: word(message, HEADER + 4 + 8)?, errno })
        }
        _ => None,
    }
}

fn queued(mut attributes: &[u8]) -> Option<Queued<'_>> {
    let mut id = None;
    let mut bytes: &[u8] = &[];
    let (mut from, mut to, mut full_len, mut info) = (0, 0, None, 0);
    let (mut hook, mut mark) = (Hook::Elsewhere, 0);
    while attributes.len() >= ATTRIBUTE {
        let len = usize::from(u16::from_ne_bytes(array(attributes, 0)?));
        // The two highest bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
        let kind = u16::from_ne_bytes(array(attributes, 2)?) & 0x3fff;
        let value = attributes.get(ATTRIBUTE..len)?;
        let number = || array(value, 0).map(u32::from_be_bytes);
        match kind {
            1 => {
                id = Some(number()?);
                // After number and protocol: NF_INET_PRE_ROUTING, NF_INET_LOCAL_IN, NF_INET_LOCAL_OUT.
                hook = match value.get(6) {
                    Some(0) => Hook::Prerouting,
                    Some(1 | 3) => Hook::Local,
                    _ => Hook::Elsewhere,
                };
            }
            3 => mark = number()?,
            5 => from = number()?,
            6 => to = number()?,
            10 => bytes = value,
            13 => full_len = Some(number()?),
            14 => info = number()?,
            _ => {}
        }
        attributes = attributes.get(align(len)..).unwrap_or_default();
    }
    let truncated = full_len.is_some_and(|len| usize::try_from(len).is_ok_and(|len| len > bytes.len()));
    let extent = if truncated { Extent::Truncated } else { Extent::Whole };
    let shape = if info & INFO_GSO != 0 { Shape::Super } else { Shape::Single };
    let checksum = checksum(info);
    Some(Queued { id: id?, hook, mark, from, to, bytes, extent, shape, checksum })
}

/// Returns the state of the checksum. Receive offload verifies segments before merging them; the checksum is then
/// pending, or that of the first segment. A super-segment that was not verified must be valid as a whole, or passes as
/// damaged.
const fn checksum(info: u32) -> Checksum {
    let verified_parts = info & INFO_GSO != 0 && info & INFO_CHECKSUM_NOT_VERIFIED == 0;
    if info & INFO_CHECKSUM_NOT_READY != 0 || verified_parts { Checksum::Pending } else { Checksum::Complete }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

const fn align(len: usize) -> usize {
    (len + 3) & !3
}

/// Appends a message; `attributes` writes the data after its headers.
fn write(out: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, queue: u16, attributes: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&flags.to_ne_bytes());
    out.extend_from_slice(&sequence.to_ne_bytes());
    out.extend_from_slice(&[0; 4]);
    // Any address family, version 0, and the queue.
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&queue.to_be_bytes());
    attributes(out);
    let len = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&len.to_ne_bytes());
}

fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend_from_slice(&((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(value);
    out.resize(align(out.len()), 0);
}

/// Returns the request to bind `queue`: complete packets, at most `length` of them, fail-open when full, super-segments
/// not segmented. It is one message, so that the queue never exists without accepting packets.
pub fn bind(queue: u16, length: u32, sequence: u32) -> Vec<u8> {
    /// Flags `NFQA_CFG_F_FAIL_OPEN` and `NFQA_CFG_F_GSO`.
    const FLAGS: u32 = 1 | 1 << 2;
    let mut out = Vec::new();
    write(&mut out, CONFIG, REQUEST | ACK, sequence, queue, |out| {
        attribute(out, 1, &[1, 0, 0, 0]);
        let mut copy = COPY_RANGE.to_be_bytes().to_vec();
        copy.push(2);
        attribute(out, 2, &copy);
        attribute(out, 3, &length.to_be_bytes());
        attribute(out, 4, &FLAGS.to_be_bytes());
        attribute(out, 5, &FLAGS.to_be_bytes());
    });
    out
}

/// Verdicts `NF_DROP`, `NF_ACCEPT` and `NF_REPEAT`.
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
const NF_REPEAT: u32 = 4;

/// Change of a packet by its verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change<'b> {
    Nothing,
    Packet(&'b [u8]),
    Mark(u32),
    Both(&'b [u8], u32),
}

/// Batch of verdicts on packets of one queue. A run of accepted packets is one message, and one system call sends the
/// batch. Verdicts must follow the order of the queue; while some packets wait longer, use [`Verdicts::accept_one`].
#[derive(Debug)]
pub struct Verdicts {
    queue: u16,
    bytes: Vec<u8>,
    /// Last packet of a run of accepted ones that is not written yet.
    run: Option<u32>,
}

impl Verdicts {
    /// Creates an empty batch.
    pub fn new(queue: u16) -> Self {
        Self { queue, bytes: Vec::new(), run: None }
    }

    /// Accepts the packet.
    pub fn accept(&mut self, id: u32) {
        self.run = Some(id);
    }

    /// Accepts the packet without affecting earlier ones, of which some may still wait.
    pub fn accept_one(&mut self, id: u32) {
        self.judge(id, NF_ACCEPT, Change::Nothing);
    }

    /// Drops the packet.
    pub fn drop(&mut self, id: u32) {
        self.judge(id, NF_DROP, Change::Nothing);
    }

    /// Makes the packet traverse its hook again from the first rule, with another firewall mark.
    pub fn repeat(&mut self, id: u32, mark: u32) {
        self.judge(id, NF_REPEAT, Change::Mark(mark));
    }

    /// Makes `packet`, at most [`COPY_RANGE`] bytes long, traverse the hook in its place, with another firewall mark.
    pub fn repeat_as(&mut self, id: u32, mark: u32, packet: &[u8]) {
        self.judge(id, NF_REPEAT, Change::Both(packet, mark));
    }

    /// Accepts the packet with the content `packet`, at most [`COPY_RANGE`] bytes long.
    pub fn replace(&mut self, id: u32, packet: &[u8]) {
        self.judge(id, NF_ACCEPT, Change::Packet(packet));
    }

    /// Returns the number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.run.is_none()
    }

    /// Returns the bytes to send; [`Verdicts::clear`] must follow.
    pub fn bytes(&mut self) -> &[u8] {
        self.end_run();
        &self.bytes
    }

    /// Clears the batch after sending.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.run = None;
    }

    fn judge(&mut self, id: u32, verdict: u32, change: Change<'_>) {
        // A batch verdict covers every packet up to its number, so the run is written first.
        self.end_run();
        write(&mut self.bytes, VERDICT, REQUEST, 0, self.queue, |out| {
            attribute(out, 2, &header(verdict, id));
            match change {
                Change::Nothing => {}
                Change::Packet(packet) => attribute(out, 10, packet),
                Change::Mark(mark) => attribute(out, 3, &mark.to_be_bytes()),
                Change::Both(packet, mark) => {
                    attribute(out, 10, packet);
                    attribute(out, 3, &mark.to_be_bytes());
                }
            }
        });
    }

    fn end_run(&mut self) {
        if let Some(id) = self.run.take() {
            write(&mut self.bytes, VERDICT_BATCH, REQUEST, 0, self.queue, |out| {
                attribute(out, 2, &header(NF_ACCEPT, id));
            });
        }
    }
}

fn header(verdict: u32, id: u32) -> [u8; 8] {
    let mut header = [0; 8];
    header[..4].copy_from_slice(&verdict.to_be_bytes());
    header[4..].copy_from_slice(&id.to_be_bytes());
    header
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
