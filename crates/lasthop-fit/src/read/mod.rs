//! Loss traces as people have them: lists of 0 and 1, tables, and what `ping` prints.

use std::collections::BTreeMap;

use lasthop_proto::channel::{BadList, MOST_FRAMES, read_list};
use lasthop_proto::time::Duration;

use crate::trace::{LossTrace, Sent};

/// Most packets of a trace, in whatever form: as many as a channel replays.
pub const MOST_PACKETS: usize = MOST_FRAMES;

/// Why a text is no trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// Something in a line.
    #[error("line {line}: {what}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// No packet in all of it.
    #[error("no packets; {EXPECTED}")]
    Empty,
    /// Too many.
    #[error("more than {0} packets")]
    Long(usize),
}

/// What can be read.
pub const EXPECTED: &str =
    "expected 0 (arrives) and 1 (lost), a CSV with the columns sent_s and lost, or the output of `ping -D -O`";

/// How a text was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// `0` and `1`.
    Digits,
    /// A table with a line of names.
    Table,
    /// What ping prints: losses of both directions are counted together.
    Ping,
}

/// Reads a trace. Which form it has shows in its first line with something in it.
///
/// # Errors
///
/// [`ReadError`], with the line.
pub fn read(text: &str) -> Result<(LossTrace, Form), ReadError> {
    read_up_to(text, MOST_PACKETS)
}

/// As [`read`], of `most` packets at most: each takes 40 bytes of memory.
///
/// # Errors
///
/// [`ReadError`], with the line.
pub fn read_up_to(text: &str, most: usize) -> Result<(LossTrace, Form), ReadError> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let (trace, form) = if first.starts_with("PING ") || first.contains("icmp_seq") {
        (ping(text, most)?, Form::Ping)
    } else if first.split(',').any(|name| name.trim() == "lost") {
        (table(text, most)?, Form::Table)
    } else {
        (digits(text, most)?, Form::Digits)
    };
    if trace.packets().is_empty() { Err(ReadError::Empty) } else { Ok((trace, form)) }
}

fn wrong(line: usize, what: impl Into<String>) -> ReadError {
    ReadError::Line { line: line + 1, what: what.into() }
}

/// The values of a line, without its remark.
fn values(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

fn digits(text: &str, most: usize) -> Result<LossTrace, ReadError> {
    let losses = read_list(text.as_bytes()).map_err(|bad| match bad {
        BadList::Other { line, byte } => {
            ReadError::Line { line, what: format!("'{}'; {EXPECTED}", byte.escape_ascii()) }
        }
        BadList::Long => ReadError::Long(MOST_FRAMES.min(most)),
        BadList::Empty => ReadError::Empty,
    })?;
    if losses.len() > most { Err(ReadError::Long(most)) } else { Ok(LossTrace::ordered(losses)) }
}

/// Where a table has what.
struct Columns {
    sent: Option<usize>,
    bytes: Option<usize>,
    lost: usize,
}

fn table(text: &str, most: usize) -> Result<LossTrace, ReadError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !values(line).trim().is_empty());
    let Some((number, names)) = lines.next() else { return Err(ReadError::Empty) };
    let names: Vec<&str> = values(names).split(',').map(str::trim).collect();
    let at = |name: &str| names.iter().position(|other| *other == name);
    let lost = at("lost").ok_or_else(|| wrong(number, "no column lost"))?;
    let columns = Columns { sent: at("sent_s"), bytes: at("bytes"), lost };
    let mut packets = Vec::new();
    for (number, line) in lines {
        let cells: Vec<&str> = values(line).split(',').map(str::trim).collect();
        if cells.len() != names.len() {
            return Err(wrong(number, format!("{} cells under {} names", cells.len(), names.len())));
        }
        packets.push(row(&columns, &cells).map_err(|what| wrong(number, what))?);
        if packets.len() > most {
            return Err(ReadError::Long(most));
        }
    }
    Ok(match columns.sent {
        Some(_) => LossTrace::timed(packets),
        None => LossTrace::ordered(packets.into_iter().map(|packet| packet.lost)),
    })
}

fn row(columns: &Columns, cells: &[&str]) -> Result<Sent, String> {
    let at = match columns.sent {
        None => Duration::ZERO,
        Some(at) => {
            seconds(cells[at]).ok_or_else(|| format!("sent_s = '{}': expected seconds from 0 on", cells[at]))?
        }
    };
    let bytes = match columns.bytes {
        None => 1500,
        Some(at) => cells[at].parse().map_err(|_| format!("bytes = '{}': expected a whole number", cells[at]))?,
    };
    let lost = match cells[columns.lost] {
        "0" | "false" => false,
        "1" | "true" => true,
        other => return Err(format!("lost = '{other}': expected 0 or 1")),
    };
    Ok(Sent { at, air: Duration::ZERO, bytes, lost })
}

/// Seconds since anything, below some 500 years.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    (0.0..1.6e10).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// An echo that ping speaks of.
struct Echo {
    /// When it was sent, where stamps say so.
    sent: Option<f64>,
    answered: bool,
}

/// Numbers that no line speaks of were sent, and lost.
fn ping(text: &str, most: usize) -> Result<LossTrace, ReadError> {
    /// Numbers start over behind 65535.
    const NUMBERS: i64 = 65_536;
    let mut echoes: BTreeMap<i64, Echo> = BTreeMap::new();
    let mut bytes = 84;
    let mut latest = 0;
    for (at, line) in text.lines().enumerate() {
        if let Some(given) = line.starts_with("PING ").then(|| between(line, "(", ") bytes of data")).flatten() {
            // The last parenthesis: a name and an address may stand in others.
            bytes = given.rsplit('(').next().and_then(|bytes| bytes.parse().ok()).unwrap_or(bytes);
        }
        let Some(number) = number_behind(line, "icmp_seq=") else { continue };
        let answered = number_behind(line, "time=").is_some();
        if !answered && !line.contains("no answer yet") {
            continue;
        }
        if !(0.0..NUMBERS as f64).contains(&number) {
            return Err(wrong(at, "icmp_seq: expected 0 to 65535"));
        }
        let number = number as i64 + (latest - number as i64 + NUMBERS / 2).div_euclid(NUMBERS) * NUMBERS;
        latest = latest.max(number);
        let stamp = line.trim_start().strip_prefix('[').and_then(|rest| rest.split(']').next()?.parse::<f64>().ok());
        let round_trip = number_behind(line, "time=").unwrap_or(0.0) / 1e3;
        let echo = echoes.entry(number).or_insert(Echo { sent: None, answered: false });
        if answered && !echo.answered {
            *echo = Echo { sent: stamp.map(|stamp| stamp - round_trip), answered };
        }
    }
    let (Some((&first, _)), Some((&last, _))) = (echoes.first_key_value(), echoes.last_key_value()) else {
        return Err(ReadError::Empty);
    };
    if (last - first) as usize >= most {
        return Err(ReadError::Long(most));
    }
    let lost = |number: i64| !echoes.get(&number).is_some_and(|echo| echo.answered);
    let known: Vec<(i64, f64)> = echoes.iter().filter_map(|(&number, echo)| Some((number, echo.sent?))).collect();
    let (Some(&begin), Some(&end)) = (known.first(), known.last()) else {
        return Ok(LossTrace::ordered((first..=last).map(lost)));
    };
    if end.0 == begin.0 || !(end.1 - begin.1).is_finite() || end.1 < begin.1 {
        return Ok(LossTrace::ordered((first..=last).map(lost)));
    }
    // Ping sends evenly: what was lost went out between its neighbours.
    let spacing = (end.1 - begin.1) / (end.0 - begin.0) as f64;
    let origin = begin.1 - (begin.0 - first) as f64 * spacing;
    let mut near = known.iter().peekable();
    let mut before = begin;
    let packets = (first..=last).map(|number| {
        while let Some(&&next) = near.peek().filter(|next| next.0 <= number) {
            before = next;
            near.next();
        }
        let sent = before.1 + (number - before.0) as f64 * spacing;
        let at = Duration::from_secs_f64((sent - origin).clamp(0.0, 1e9));
        Sent { at, air: Duration::ZERO, bytes, lost: lost(number) }
    });
    Ok(LossTrace::timed(packets.collect()))
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(&rest[..rest.find(after)?])
}

/// The number that stands behind `key`.
fn number_behind(line: &str, key: &str) -> Option<f64> {
    let rest = &line[line.find(key)? + key.len()..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Form, ReadError, read};
    use crate::Clock;

    fn losses(text: &str) -> Vec<bool> {
        read(text).unwrap().0.packets().iter().map(|packet| packet.lost).collect()
    }

    #[test]
    fn digits_in_whatever_lines() {
        let (trace, form) = read("# a link\n0 0 1\n0,1 # and a remark: 11\n").unwrap();
        assert_eq!((trace.packets().len(), trace.lost(), form, trace.clock()), (5, 2, Form::Digits, Clock::Unknown));
        assert_eq!(read("001x").unwrap_err().to_string(), format!("line 1: 'x'; {}", super::EXPECTED));
        assert_eq!(read("# nothing\n").unwrap_err(), ReadError::Empty);
    }

    #[test]
    fn tables_with_their_columns_in_any_order() {
        let (trace, form) = read("lost,bytes,sent_s,note\n0,100,0.5,a\n1,200,0.25,b\n").unwrap();
        let seen: Vec<_> =
            trace.packets().iter().map(|packet| (packet.at.as_secs_f64(), packet.bytes, packet.lost)).collect();
        assert_eq!((form, seen), (Form::Table, vec![(0.25, 200, true), (0.5, 100, false)]));
        for (text, line) in
            [("sent_s,lost\n0.1\n", 2), ("sent_s,lost\n-1,0\n", 2), ("lost\n2\n", 2), ("sent_s,lost\nnan,0\n", 2)]
        {
            let ReadError::Line { line: found, .. } = read(text).unwrap_err() else { panic!("{text}") };
            assert_eq!(found, line, "{text}");
        }
    }

    /// Of five echoes the second got no answer, the fourth neither, of which nothing is said; the third came twice.
    #[test]
    fn ping_with_stamps() {
        let text = "PING host (192.0.2.1) 56(84) bytes of data.\n\
            [100.020] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=60 time=20.0 ms\n\
            [101.000] no answer yet for icmp_seq=2\n\
            [102.020] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=60 time=20.0 ms\n\
            [102.021] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=60 time=21.0 ms (DUP!)\n\
            [104.020] 64 bytes from 192.0.2.1: icmp_seq=5 ttl=60 time=20.0 ms\n\n--- host ping statistics ---\n";
        let (trace, form) = read(text).unwrap();
        let seen: Vec<_> =
            trace.packets().iter().map(|packet| (packet.at.as_secs_f64().round() as u32, packet.lost)).collect();
        assert_eq!(seen, [(0, false), (1, true), (2, false), (3, true), (4, false)]);
        assert_eq!((form, trace.clock(), trace.packets()[0].bytes), (Form::Ping, Clock::Known, 84));
    }

    #[test]
    fn ping_without_stamps_and_beyond_its_last_number() {
        let answer = |number: u32| format!("64 bytes from host: icmp_seq={number} ttl=60 time=1.5 ms\n");
        assert_eq!(losses(&[answer(65_534), answer(65_535), answer(1)].concat()), [false, false, true, false]);
        assert_eq!(read(&answer(7)).unwrap().0.clock(), Clock::Unknown);
    }

    /// In whatever form, what is too long for whoever asks is refused, and the message says what is too long.
    #[test]
    fn no_more_packets_than_asked_for() {
        let echo = |number: u32| format!("64 bytes from host: icmp_seq={number} ttl=60 time=1.5 ms\n");
        for text in ["0110".to_owned(), "lost\n0\n1\n1\n0\n".to_owned(), [echo(1), echo(4)].concat()] {
            assert_eq!(super::read_up_to(&text, 4).unwrap().0.packets().len(), 4, "{text}");
            let said = super::read_up_to(&text, 3).unwrap_err();
            assert_eq!((&said, said.to_string().as_str()), (&ReadError::Long(3), "more than 3 packets"), "{text}");
        }
    }
}
