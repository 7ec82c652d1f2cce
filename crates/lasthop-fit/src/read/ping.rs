//! Output of `ping` on Linux, with BusyBox, on BSD and macOS: numbered echoes.

use lasthop_proto::time::Duration;

use super::echoes::{Echoes, Frame};
use super::lines::{leading_number, milliseconds, stamp};
use super::{Form, ReadError, Reading, wrong};

/// Number of distinct echo numbers: they wrap after 65535.
const NUMBERS: i64 = 65_536;
/// Keys of the echo's number. `seq=` is BusyBox's key, and a suffix of the others. In BSD's line of a missing answer, a
/// space follows the key.
const NUMBER_KEYS: [&str; 2] = ["seq=", "icmp_seq "];
/// Bytes of a packet with 56 bytes of data, and of its headers.
const USUAL_BYTES: u32 = 84;
const HEADERS: u32 = 28;

/// Returns whether the first lines are from `ping`: its header, or a numbered echo.
pub(super) fn is_ping(text: &str) -> bool {
    const FIRST: usize = 50;
    let is_echo = |line: &str| line.contains("icmp_seq") || (line.contains(" seq=") && line.contains("ttl="));
    text.lines().filter(|line| !line.trim().is_empty()).take(FIRST).any(|line| is_header(line) || is_echo(line))
}

fn is_header(line: &str) -> bool {
    stamp(line).1.starts_with("PING ") || line.trim_start().starts_with("PING6(")
}

pub(super) fn read(text: &str, most: usize, interval: Option<Duration>) -> Result<Reading, ReadError> {
    let mut echoes = Echoes::default();
    let mut frame = Frame { bytes: USUAL_BYTES, ..Frame::default() };
    let mut header = None;
    let mut summary = None;
    for (at, line) in text.lines().enumerate() {
        if is_header(line) {
            if let Some(before) = header.replace(at + 1) {
                let what = format!("a second run begins here (the first one in line {before}); give a single run");
                return Err(wrong(at, what));
            }
            let (first, bytes) = of_header(line);
            (frame.first, frame.bytes) = (Some(first), bytes);
        } else if let Some(counted) = summarised(line) {
            summary = Some(counted);
        } else {
            echo(line, &mut echoes).map_err(|what| wrong(at, what))?;
            if echoes.len() > most {
                return Err(ReadError::Long(most));
            }
        }
    }
    if let Some((sent, seconds)) = summary {
        // Without the header, the first number is unknown, as are missing lines before it.
        frame.sent = header.map(|_| sent);
        frame.spacing = seconds.filter(|_| sent > 1).map(|seconds| seconds / (sent - 1) as f64);
    }
    frame.spacing = interval.map(|interval| interval.as_secs_f64()).or(frame.spacing);
    let (trace, seen) = echoes.finish(frame, most)?;
    Ok(Reading::of_trace(trace, Form::Ping, seen))
}

/// Returns the number of the first echo, and the bytes of a packet.
fn of_header(line: &str) -> (i64, u32) {
    let words: Vec<&str> = line.split_whitespace().collect();
    // Linux, in any language: "PING host (192.0.2.1) 56(84) bytes of data."
    let whole = |word: &&str| {
        let (data, whole) = word.strip_suffix(')')?.split_once('(')?;
        data.parse::<u32>().ok().and_then(|_| whole.parse::<u32>().ok())
    };
    if let Some(bytes) = words.iter().find_map(whole) {
        return (1, bytes);
    }
    // BusyBox, BSD, macOS: "PING host (192.0.2.1): 56 data bytes".
    let data = words.windows(2).find_map(|pair| pair[1].starts_with("data").then(|| pair[0].parse::<u32>().ok())?);
    (0, data.map_or(USUAL_BYTES, |data| data.saturating_add(HEADERS)))
}

/// Returns the number of echoes and the duration in seconds from a line like
/// `989 packets transmitted, 920 received, 7% packet loss, time 98800ms`.
fn summarised(line: &str) -> Option<(u64, Option<f64>)> {
    let (sent, _) = leading_number(line)?;
    if !line.contains('%') || line.matches(',').count() < 2 || number(line).is_some() {
        return None;
    }
    let last = line.rsplit(',').next()?.trim();
    let digits = last.find(|c: char| c.is_ascii_digit())?;
    let (time, rest) = leading_number(&last[digits..])?;
    Some((sent as u64, (rest.trim() == "ms").then_some(time / 1e3)))
}

/// Returns the text after the key of an echo's number.
fn number(line: &str) -> Option<&str> {
    NUMBER_KEYS.iter().find_map(|key| line.find(key).map(|at| &line[at + key.len()..]))
}

/// Records the echo that a line describes; ignores other lines.
fn echo(line: &str, echoes: &mut Echoes) -> Result<(), String> {
    let (stamp, line) = stamp(line);
    let time = milliseconds(line);
    let Some(text) = number(line) else {
        return match line.contains("ttl=") || line.contains("hlim=") {
            true => Err("reply without icmp_seq= or seq=: damaged line".to_owned()),
            false => Ok(()),
        };
    };
    let expected = || format!("icmp_seq: expected 0 to 65535 in \"{}\"", shortened(line));
    let (number, _) = leading_number(text).ok_or_else(expected)?;
    if !(0.0..NUMBERS as f64).contains(&number) || number.fract() != 0.0 {
        return Err(expected());
    }
    let number = echoes.unwrapped(number as i64, NUMBERS);
    let is_answer = line.contains("ttl=") || line.contains("hlim=") || line.contains("time");
    match time {
        Some(time) => echoes.answer(number, time / 1e3, stamp),
        // The data is too short for a timestamp, so the answer has no time.
        None if line.contains("ttl=") && !line.contains('<') && !line.contains("time") => {
            echoes.answer(number, 0.0, stamp)
        }
        None if is_answer && line.contains("time=") => {
            return Err(format!("time: expected milliseconds in \"{}\"", shortened(line)));
        }
        // No answer yet, a timeout, or an ICMP error of a router.
        None => echoes.sent(number),
    }
    Ok(())
}

fn shortened(line: &str) -> String {
    const LONGEST: usize = 60;
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", line[..end].escape_debug()),
        None => line.escape_debug().to_string(),
    }
}
