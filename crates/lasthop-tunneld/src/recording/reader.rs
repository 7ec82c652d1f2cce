//! Reads a recording, one step at a time.

use std::io::Read;

use lasthop_daemon::recording::reader::{Frame, Frames, ReadError};
use lasthop_daemon::recording::steps::{self, EntryOf, Format};
use lasthop_daemon::recording::{INBOUND, OUTBOUND};
use lasthop_proto::link::hybrid::{MOST_PATHS, PathId};
use lasthop_proto::time::Duration;
use pcap_file::DataLink;

use super::{
    Call, Decision, END, FORMAT, HEAD, HOP, Head, INNER, INTERFACES, KINDS, MOST_NANOS, SETTINGS, Setting, Told,
    config_of, paths_of,
};
use crate::frames::DATA;
use crate::inner::frame::{LENGTH, LONGEST};
use crate::plan::terms::terms_of;

/// Length of a frame's number, in bytes.
const NUMBER: usize = 4;
/// Maximum length of carried data, in bytes.
const MOST_BYTES: u32 = 1 << 16;
/// Maximum number of packets that a link passes on or gives back at once: those that it may hold, and those that may
/// wait.
const MOST_HANDED: usize = 1 << 21;

/// Entry of a recording.
pub type Entry = EntryOf<Links>;

/// Parser of a recording.
pub type Recording<R> = steps::Recording<Links, R>;

/// Format of the recordings.
#[derive(Clone, Copy, Default, Debug)]
pub struct Links;

impl Format for Links {
    type Start = ();
    type Call = Call;
    type Decision = Decision;
    type Error = ReadError;

    const INTERFACES: &'static [&'static str] = &INTERFACES;
    const COMMAND: &'static str = "lasthop tunnel run";

    fn start<R: Read>(recording: &mut Recording<R>, text: &str) -> Result<(), ReadError> {
        if text == FORMAT { Ok(()) } else { Err(recording.frames().no_recording()) }
    }

    fn take<R: Read>(recording: &mut Recording<R>, frame: Frame) -> Result<(), ReadError> {
        let frame = &frame;
        let mut comments = frame.comments.iter().map(String::as_str);
        let peer = comments.next().and_then(|comment| comment.strip_prefix("peer ")?.parse().ok());
        let peer = peer.ok_or_else(|| recording.bad("expected `peer NUMBER` as the first comment"))?;
        let comment = comments.next();
        let decided = Decision::default();
        match (frame.interface, frame.direction) {
            (END, _) => {
                let told = event(frame.text()).ok_or_else(|| {
                    recording.bad("expected begin, anew, path, timeout, pause or back, with its arguments")
                })?;
                recording.begin_step(frame.time, Call { peer, told }, decided);
            }
            (INNER, INBOUND) => {
                let told =
                    comment.and_then(flow).map(|(flow, traffic)| (flow, traffic, inner(recording.frames(), frame)));
                let Some((flow, traffic, head)) = told else {
                    return Err(recording.bad("expected `flow NUMBER KIND` as the second comment"));
                };
                let told = Told::Packet { head: head?, flow, traffic };
                recording.begin_step(frame.time, Call { peer, told }, decided);
            }
            (INNER, OUTBOUND) => {
                let head = inner(recording.frames(), frame)?;
                let step = recording.last_step().filter(|step| step.call.peer == peer && step.time == frame.time);
                let Some(step) = step else {
                    return Err(recording.bad("packet delivered without a preceding input"));
                };
                let heads = if comment == Some("back") { &mut step.decision.back } else { &mut step.decision.items };
                if heads.len() >= MOST_HANDED {
                    return Err(recording.bad("more packets delivered in one step than a link can deliver"));
                }
                heads.push(head);
            }
            (HOP, INBOUND) => {
                let (path, number, head) = framed(recording.frames(), frame, comment)?;
                recording.begin_step(frame.time, Call { peer, told: Told::Frame { path, number, head } }, decided);
            }
            (HOP, OUTBOUND) => {
                let decision = Decision { frame: Some(framed(recording.frames(), frame, comment)?), ..decided };
                recording.begin_step(frame.time, Call { peer, told: Told::Poll }, decision);
            }
            (INNER | HOP, _) => return Err(recording.bad("neither inbound nor outbound")),
            _ => return Err(recording.bad("unknown interface")),
        }
        Ok(())
    }
}

/// Returns the head of a packet as the link carries it.
fn inner<R: Read>(frames: &Frames<R>, frame: &Frame) -> Result<Head, ReadError> {
    let bridged = frames.link_type(INNER) == Some(DataLink::ETHERNET);
    let (front, kept) = if bridged { (Some(frame.len as u16), HEAD - LENGTH) } else { (None, HEAD) };
    let fits = frame.data.len() == kept.min(frame.len as usize)
        && frame.len <= if bridged { LONGEST as u32 } else { MOST_BYTES };
    if !fits {
        return Err(frames.bad("invalid length for the head of a packet"));
    }
    let mut bytes: Vec<u8> = front.into_iter().flat_map(u16::to_be_bytes).collect();
    let len = bytes.len() + frame.len as usize;
    bytes.extend_from_slice(&frame.data);
    Ok(Head { bytes, len })
}

/// Returns a frame's path, which `comment` names if it is not the first, the low bits of its number, and its head.
fn framed<R: Read>(frames: &Frames<R>, frame: &Frame, comment: Option<&str>) -> Result<(PathId, u32, Head), ReadError> {
    let path = match comment {
        None => Some(0),
        Some(comment) => comment.strip_prefix("path ").and_then(|path| path.parse().ok()),
    };
    let Some(path) = path.filter(|path| *path < MOST_PATHS) else {
        return Err(frames.bad("expected `path NUMBER` as the second comment"));
    };
    let split = frame.data.split_first_chunk::<NUMBER>();
    let fits = frame.data.len() <= frame.len as usize && frame.len <= MOST_BYTES;
    let Some((number, bytes)) = split.filter(|(_, bytes)| fits && bytes.len() <= DATA + HEAD) else {
        return Err(frames.bad("invalid length for the head of a frame"));
    };
    Ok((PathId(path), u32::from_be_bytes(*number), Head { bytes: bytes.to_vec(), len: frame.len as usize - NUMBER }))
}

fn flow(comment: &str) -> Option<(u32, lasthop_proto::link::hybrid::Traffic)> {
    let (flow, kind) = comment.strip_prefix("flow ")?.split_once(' ')?;
    Some((flow.parse().ok()?, KINDS.iter().find(|known| known.0 == kind)?.1))
}

fn event(text: &str) -> Option<Told> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let words: Vec<&str> = rest.split(' ').collect();
    match first.split_once(' ').unwrap_or((first, "")) {
        ("begin", _) => {
            let (lag, config) = words.split_last()?;
            let lag = lag.strip_prefix("lag=")?.parse().ok().filter(|nanos| *nanos <= MOST_NANOS)?;
            Some(Told::Begin(Setting { config: config_of(config)?, lag: Duration::from_nanos(lag) }))
        }
        ("anew", "") => {
            let (config, more) = words.split_at_checked(SETTINGS)?;
            Some(Told::Anew(config_of(config)?, paths_of(more)?))
        }
        ("path", rest) => {
            let (header, path) = rest.split_once(' ').unwrap_or((rest, "0"));
            let header = header.parse().ok().filter(|header| *header <= super::MOST_HEADER)?;
            let path = path.parse().ok().filter(|path| *path < MOST_PATHS)?;
            Some(Told::Path(PathId(path), header))
        }
        ("terms", rest) => {
            let (path, terms) = rest.split_once(' ')?;
            let path = path.parse().ok().filter(|path| *path < MOST_PATHS)?;
            Some(Told::Terms(PathId(path), terms_of(terms)?))
        }
        ("timeout", "") => Some(Told::Timeout),
        ("pause", "") => Some(Told::Poll),
        ("back", "") => Some(Told::Back),
        _ => None,
    }
}
