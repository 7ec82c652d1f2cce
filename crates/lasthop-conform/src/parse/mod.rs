//! Parser of scripts.

mod call;
mod condition;
mod cursor;
mod segment;

use lasthop_proto::time::Duration;

use self::cursor::Cursor;
use crate::script::{Action, Command, Event, Flag, Script, Time};

/// Maximum length of a script, in bytes.
pub const MOST_BYTES: usize = 1 << 20;

/// Maximum number of events of a script.
const MOST_EVENTS: usize = 50_000;

/// Maximum time in a script, in seconds: a day.
const MOST_SECONDS: f64 = 86_400.0;

/// Error in a script: its line, and what to change.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Description with remedy.
    pub message: String,
}

/// Parses the text of a script.
///
/// # Errors
///
/// Returns the first error, with its line and a remedy.
pub fn parse(text: &str) -> Result<Script, ParseError> {
    if text.len() > MOST_BYTES {
        let message = format!("the script has {} bytes; split it into files of at most {MOST_BYTES}", text.len());
        return Err(ParseError { line: 1, message });
    }
    let text = condition::select(text)?;
    let mut cursor = Cursor::new(&text);
    let mut script = Script::default();
    while cursor.take("--")? {
        script.flags.push(flag(&mut cursor)?);
    }
    if cursor.peek()? == Some('`') {
        script.setup = Some(command(&mut cursor)?);
    }
    while let Some(next) = cursor.peek()? {
        if next == '`' {
            script.cleanup = Some(command(&mut cursor)?);
            if cursor.peek()?.is_some() {
                return Err(cursor.error("a command without a time ends the script; give it a time such as `+0`"));
            }
            break;
        }
        if script.events.len() == MOST_EVENTS {
            return Err(cursor.error(&format!("more than {MOST_EVENTS} events; split the script")));
        }
        script.events.push(event(&mut cursor)?);
    }
    if script.events.is_empty() {
        return Err(cursor.error("the script has no event; add one such as `0 socket(..., SOCK_STREAM, 0) = 3`"));
    }
    Ok(script)
}

fn flag(cursor: &mut Cursor<'_>) -> Result<Flag, ParseError> {
    let line = cursor.line();
    let name = cursor.word()?.to_owned();
    let mut value = String::new();
    if cursor.rest().starts_with('=') {
        cursor.advance(1);
        let end = cursor.rest().find(char::is_whitespace).unwrap_or(cursor.rest().len());
        value = cursor.advance(end).to_owned();
    }
    if name.is_empty() {
        return Err(cursor.error("an option has no name; write it like `--tolerance_usecs=10000`"));
    }
    Ok(Flag { line, name, value })
}

fn command(cursor: &mut Cursor<'_>) -> Result<Command, ParseError> {
    let line = cursor.line();
    cursor.expect("`", "shell commands stand between backquotes")?;
    Ok(Command { line, text: until(cursor, "`", "a command has no closing backquote; add it")? })
}

/// Returns the text before `end`, and skips both.
fn until(cursor: &mut Cursor<'_>, end: &str, remedy: &str) -> Result<String, ParseError> {
    let Some(at) = cursor.rest().find(end) else { return Err(cursor.error(remedy)) };
    let text = cursor.advance(at).to_owned();
    cursor.advance(end.len());
    Ok(text)
}

fn event(cursor: &mut Cursor<'_>) -> Result<Event, ParseError> {
    let line = cursor.line();
    let time = time(cursor)?;
    let action = match cursor.peek()? {
        Some('<') => {
            cursor.advance(1);
            segment::packet(cursor, Action::Inbound)?
        }
        Some('>') => {
            cursor.advance(1);
            segment::packet(cursor, Action::Outbound)?
        }
        Some('`') => Action::Command(command(cursor)?.text),
        Some('%') => {
            cursor.expect("%{", "code stands between `%{` and `}%`")?;
            Action::Code(until(cursor, "}%", "code has no closing `}%`; add it")?)
        }
        _ => Action::Call(call::call(cursor)?),
    };
    Ok(Event { line, time, action })
}

fn time(cursor: &mut Cursor<'_>) -> Result<Time, ParseError> {
    if cursor.take("*")? {
        return Ok(Time::Any);
    }
    let relative = cursor.take("+")?;
    let first = seconds(cursor)?;
    if !cursor.take("~")? {
        return Ok(if relative { Time::Relative(first) } else { Time::Absolute(first) });
    }
    if cursor.take("+")? != relative {
        return Err(cursor.error("only one end of a range of times has `+`; both ends need it, or neither"));
    }
    let last = seconds(cursor)?;
    if last < first {
        return Err(cursor.error("a range of times ends before it starts; swap the two"));
    }
    Ok(if relative { Time::RelativeRange(first, last) } else { Time::AbsoluteRange(first, last) })
}

/// Reads a time in seconds. Three dots after the digits are not part of it.
fn seconds(cursor: &mut Cursor<'_>) -> Result<Duration, ParseError> {
    cursor.skip_blank()?;
    let rest = cursor.rest();
    let digits = |from: &str| from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
    let mut end = digits(rest);
    if rest[end..].starts_with('.') && !rest[end..].starts_with("..") {
        end += 1 + digits(&rest[end + 1..]);
    }
    let value: Option<f64> = rest[..end].parse().ok();
    match value {
        Some(seconds) if seconds <= MOST_SECONDS => {
            cursor.advance(end);
            Ok(Duration::from_nanos((seconds * 1e6).round() as u64 * 1000))
        }
        Some(seconds) => Err(cursor.error(&format!("a time of {seconds} s; scripts last at most {MOST_SECONDS} s"))),
        None => {
            let found = cursor.found();
            Err(cursor.error(&format!("expected a time, found {found}; an event starts with one such as `+.1`")))
        }
    }
}
