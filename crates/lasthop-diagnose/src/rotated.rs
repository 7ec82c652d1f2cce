//! Selection of captures that continue each other, as written by programs that rotate their files (`tcpdump -C`, `-G`,
//! `dumpcap -b`).

use std::io::Read;

use crate::capture::{Capture, CaptureError};

/// Maximum time by which a file may begin before the end of the one that it continues, since packets of several
/// processors are slightly out of order, in nanoseconds.
const OVERLAP: u64 = 20_000_000;
/// Maximum time from the end of a file to the beginning of the one that continues it, in nanoseconds.
const LONGEST_GAP: u64 = 6 * 3600 * 1_000_000_000;

/// Properties that determine whether captures continue each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Times of the earliest and latest packet, in nanoseconds since 1970; `None` in a capture without packets.
    pub times: Option<(u64, u64)>,
    /// Names and link types of the interfaces.
    pub interfaces: Vec<(Option<String>, u32)>,
}

/// Reads a capture to its end, for [`groups`]. If it is damaged, the part before counts.
///
/// # Errors
///
/// Returns an error if it is not a capture, or cannot be read.
pub fn extent(source: impl Read) -> Result<Extent, CaptureError> {
    let mut capture = Capture::open(source)?;
    let mut times: Option<(u64, u64)> = None;
    loop {
        match capture.next_frame() {
            Ok(Some((frame, _))) => {
                let (first, last) = times.unwrap_or((frame.time, frame.time));
                times = Some((first.min(frame.time), last.max(frame.time)));
            }
            Err(CaptureError::Io(error)) => return Err(CaptureError::Io(error)),
            Ok(None) | Err(_) => break,
        }
    }
    let interfaces = capture.interfaces().iter().map(|interface| (interface.name.clone(), interface.link)).collect();
    Ok(Extent { times, interfaces })
}

/// Groups captures that continue each other: of the same interfaces, at times that do not overlap. If a file could
/// continue several, the one with the most similar name is selected. Returns indices, each group in order of time, and
/// groups in the order of the first given file of each. Captures without packets form groups of their own.
pub fn groups(captures: &[(String, Extent)]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..captures.len()).collect();
    order.sort_by_key(|&index| captures[index].1.times.map_or((u64::MAX, u64::MAX), |times| times));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in order {
        let (name, extent) = &captures[index];
        let continued = groups
            .iter_mut()
            .filter(|group| group.last().is_some_and(|&last| continues(&captures[last].1, extent)))
            .max_by_key(|group| group.last().map_or(0, |&last| likeness(&captures[last].0, name)));
        match continued {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups.sort_by_key(|group| group.iter().min().copied());
    groups
}

fn continues(before: &Extent, after: &Extent) -> bool {
    let (Some((_, end)), Some((begin, _))) = (before.times, after.times) else { return false };
    let mut interfaces = [before.interfaces.clone(), after.interfaces.clone()];
    interfaces.iter_mut().for_each(|list| list.sort());
    let is_next = begin.saturating_add(OVERLAP) >= end && begin <= end.saturating_add(LONGEST_GAP);
    is_next && interfaces[0] == interfaces[1]
}

/// Returns the similarity of two names without their digits, by which programs number or date files.
fn likeness(one: &str, other: &str) -> usize {
    let letters = |name: &str| name.chars().filter(|char| !char.is_ascii_digit()).collect::<Vec<_>>();
    let (one, other) = (letters(one), letters(other));
    let from_the_front = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let from_the_back = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    if one == other { usize::MAX } else { from_the_front + from_the_back }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn extent(first: u64, last: u64, link: u32) -> Extent {
        Extent { times: Some((first * SECOND, last * SECOND)), interfaces: vec![(None, link)] }
    }

    fn grouped(captures: &[(&str, Extent)]) -> Vec<Vec<usize>> {
        let named: Vec<_> = captures.iter().map(|(name, extent)| ((*name).to_owned(), extent.clone())).collect();
        groups(&named)
    }

    #[test]
    fn files_that_follow_each_other_are_one_in_order_of_time() {
        let captures = [("b.pcap2", extent(20, 29, 1)), ("b.pcap0", extent(0, 10, 1)), ("b.pcap1", extent(10, 20, 1))];
        assert_eq!(grouped(&captures), [[1, 2, 0]]);
    }

    #[test]
    fn captures_of_one_time_at_two_places_are_two() {
        assert_eq!(grouped(&[("near.pcap", extent(0, 10, 1)), ("far.pcap", extent(1, 9, 1))]), [[0], [1]]);
        assert_eq!(grouped(&[("a.pcap", extent(0, 10, 1)), ("b.pcap", extent(10, 20, 113))]), [[0], [1]]);
        assert_eq!(grouped(&[("a.pcap", extent(0, 10, 1)), ("b.pcap", extent(90_000, 90_001, 1))]), [[0], [1]]);
    }

    /// Two places, each with two files: names show which file continues which.
    #[test]
    fn names_tell_which_file_continues_which() {
        let captures = [
            ("near-1.pcap", extent(0, 10, 1)),
            ("far-1.pcap", extent(1, 11, 1)),
            ("far-2.pcap", extent(12, 19, 1)),
            ("near-2.pcap", extent(13, 20, 1)),
        ];
        assert_eq!(grouped(&captures), [[0, 3], [1, 2]]);
    }

    #[test]
    fn a_capture_without_packets_stays_alone() {
        let empty = Extent { times: None, interfaces: vec![(None, 1)] };
        assert_eq!(grouped(&[("a", extent(0, 1, 1)), ("b", empty)]), [[0], [1]]);
    }
}
