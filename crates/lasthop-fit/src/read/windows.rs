//! Output of `ping` on Windows, in any language: echoes in order, without numbers.
//!
//! An answer has `TTL=` or a time; the line of a missing answer is a sentence in the system's language. The echoes are
//! listed between a heading that ends with a colon and an empty line; the statistics after it give their number.

use std::collections::BTreeMap;

use lasthop_proto::time::Duration;

use super::echoes::{Echoes, Frame};
use super::lines::{leading_number, milliseconds, number_behind};
use super::{Form, ReadError, Reading, wrong};

/// Bytes of the headers, and default number of data bytes.
const HEADERS: u32 = 28;
const USUAL_DATA: u32 = 32;

/// Sentences about a missing answer, or parts of them.
const MISSING: [&str; 12] = [
    "Request timed out",
    "berschreitung der Anforderung",
    "attente de la demande",
    "Tiempo de espera agotado",
    "Richiesta scaduta",
    "Esgotado o tempo limite",
    "Time-out bij opdracht",
    "Upłynął limit czasu",
    "Превышен интервал ожидания",
    "请求超时",
    "要求逾時",
    "要求がタイムアウト",
];

/// Returns whether the text has an answer as Windows prints it, or its heading.
pub(super) fn is_windows(text: &str) -> bool {
    text.lines().any(is_answer) || text.lines().map(str::trim).find(|line| !line.is_empty()).is_some_and(is_heading)
}

/// Recognises `Reply from 192.0.2.1: bytes=32 time=12ms TTL=57`; over IPv6 there is no `TTL=`.
fn is_answer(line: &str) -> bool {
    number_behind(line, "TTL=").is_some() || (has_address(line) && milliseconds(line).is_some())
}

/// Recognises `Pinging example.com [192.0.2.1] with 32 bytes of data:`.
fn is_heading(line: &str) -> bool {
    line.ends_with([':', '：']) && has_address(line)
}

fn has_address(line: &str) -> bool {
    line.split(|c: char| c.is_whitespace() || matches!(c, '[' | ']' | '%'))
        .map(|word| word.trim_end_matches([':', '：']))
        .any(|word| word.parse::<std::net::IpAddr>().is_ok())
}

/// Returns the count from `Packets: Sent = 4, Received = 3, Lost = 1 (25% loss),`.
fn sent(line: &str) -> Option<u64> {
    let is_count = line.matches('=').count() >= 3 && line.contains('%') && !line.contains("TTL=");
    let behind = |at: usize| leading_number(&line[at + 1..]).map(|(number, _)| number as u64);
    is_count.then(|| line.find('=').and_then(behind))?
}

/// Part of the output that a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Before,
    Echoes,
    Behind,
}

/// Echoes so far.
struct Run<'t> {
    echoes: Echoes,
    number: i64,
    frame: Frame,
    /// Number of echoes according to the statistics.
    counted: Option<u64>,
    /// Sentences that only their place identifies as missing answers, with their lines.
    sentences: BTreeMap<&'t str, Vec<usize>>,
}

pub(super) fn read(text: &str, most: usize, interval: Option<Duration>) -> Result<Reading, ReadError> {
    let spacing = interval.map(|interval| interval.as_secs_f64());
    let frame = Frame { first: Some(0), bytes: USUAL_DATA + HEADERS, spacing, sent: None };
    let (echoes, sentences) = (Echoes::default(), BTreeMap::new());
    let mut run = Run { echoes, number: 0, frame, counted: None, sentences };
    let (mut part, mut has_heading) = (Part::Before, false);
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() {
            part = if run.number > 0 { Part::Behind } else { part };
        } else if let Some(sent) = sent(line) {
            (part, run.counted) = (Part::Behind, run.counted.or(Some(sent)));
        } else if part == Part::Behind {
            if is_answer(line) {
                return Err(wrong(at, "a second run begins here; give a single run"));
            }
        } else if is_heading(line) && !is_answer(line) {
            part = if run.number > 0 { Part::Behind } else { Part::Echoes };
            has_heading |= part == Part::Echoes;
            let data = line.rsplit(|c: char| !c.is_ascii_digit()).find_map(|digits| digits.parse::<u32>().ok());
            run.frame.bytes = data.unwrap_or(USUAL_DATA).saturating_add(HEADERS);
        } else if part == Part::Echoes || is_answer(line) || is_missing(line) {
            part = Part::Echoes;
            run.echo(at, line)?;
            if run.echoes.len() > most {
                return Err(ReadError::Long(most));
            }
        }
    }
    run.check(has_heading)?;
    let (trace, mut seen) = run.echoes.finish(run.frame, most)?;
    // Without numbers, neither can be seen.
    (seen.reordered, seen.duplicates) = (None, None);
    Ok(Reading::of_trace(trace, Form::Ping, seen))
}

fn is_missing(line: &str) -> bool {
    MISSING.iter().any(|known| line.contains(known))
}

impl<'t> Run<'t> {
    fn echo(&mut self, at: usize, line: &'t str) -> Result<(), ReadError> {
        if is_answer(line) {
            let time =
                milliseconds(line).ok_or_else(|| wrong(at, "reply without a time: expected time=12ms before TTL="))?;
            self.echoes.answer(self.number, time / 1e3, None);
        } else {
            if !has_address(line) && !is_missing(line) {
                self.sentences.entry(line).or_default().push(at);
            }
            self.echoes.sent(self.number);
        }
        self.number += 1;
        Ok(())
    }

    /// Compares the echoes with the statistics. Rejects a single odd sentence that nothing confirms.
    fn check(&self, has_heading: bool) -> Result<(), ReadError> {
        if let Some(counted) = self.counted.filter(|counted| has_heading && i64::try_from(*counted) != Ok(self.number))
        {
            let what = format!("{} echoes, but the statistics count {counted} sent: lines are missing", self.number);
            return Err(ReadError::Whole(what));
        }
        let odd = self.sentences.values().find(|lines| lines.len() == 1).filter(|_| self.counted.is_none());
        match odd {
            Some(lines) => Err(wrong(lines[0], "neither a reply nor a timeout of Windows ping")),
            None => Ok(()),
        }
    }
}
