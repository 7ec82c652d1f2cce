//! Socket calls of a script.

use super::cursor::Cursor;
use super::{ParseError, seconds, until};
use crate::script::{Call, Value};

/// Maximum depth of nested arguments.
const MOST_DEPTH: u8 = 16;

/// Maximum number of values in a list.
const MOST_VALUES: usize = 256;

/// Reads a call after its time.
pub(super) fn call(cursor: &mut Cursor<'_>) -> Result<Call, ParseError> {
    let end = if cursor.take("...")? { Some(seconds(cursor)?) } else { None };
    let name = cursor.word()?.to_owned();
    if name.is_empty() {
        let found = cursor.found();
        let message = format!("expected `<`, `>`, a call, a command or code after the time, found {found}");
        return Err(cursor.error(&message));
    }
    cursor.expect("(", "a call is written `name(arguments) = result`")?;
    let args = list(cursor, ")", 0)?;
    cursor.expect("=", "a call is written `name(arguments) = result`")?;
    let result = value(cursor, 0)?;
    let errno = if cursor.peek_word()?.starts_with('E') { Some(cursor.word()?.to_owned()) } else { None };
    while cursor.rest().trim_start_matches([' ', '\t']).starts_with('(') {
        cursor.take("(")?;
        until(cursor, ")", "a note has no closing parenthesis; add it")?;
    }
    Ok(Call { name, args, end, result, errno })
}

fn list(cursor: &mut Cursor<'_>, close: &str, depth: u8) -> Result<Vec<Value>, ParseError> {
    let mut values = Vec::new();
    if cursor.take(close)? {
        return Ok(values);
    }
    loop {
        values.push(value(cursor, depth)?);
        if values.len() > MOST_VALUES {
            return Err(cursor.error(&format!("more than {MOST_VALUES} values; shorten the list")));
        }
        if cursor.take(close)? {
            return Ok(values);
        }
        cursor.expect(",", "values are separated by commas")?;
    }
}

fn value(cursor: &mut Cursor<'_>, depth: u8) -> Result<Value, ParseError> {
    if depth > MOST_DEPTH {
        return Err(cursor.error("arguments are nested too deeply; flatten them"));
    }
    let mut parts = vec![simple(cursor, depth)?];
    while cursor.take("|")? {
        parts.push(simple(cursor, depth)?);
        if parts.len() > MOST_VALUES {
            return Err(cursor.error(&format!("more than {MOST_VALUES} flags; shorten the list")));
        }
    }
    let value_read = if parts.len() == 1 { parts.swap_remove(0) } else { Value::Or(parts) };
    if depth > 0 && cursor.take("=")? {
        return Ok(Value::Named(Box::new(value_read), Box::new(value(cursor, depth + 1)?)));
    }
    Ok(value_read)
}

fn simple(cursor: &mut Cursor<'_>, depth: u8) -> Result<Value, ParseError> {
    if cursor.take("...")? {
        return Ok(Value::Any);
    }
    if cursor.take("[")? {
        return Ok(Value::List(list(cursor, "]", depth + 1)?));
    }
    if cursor.take("{")? {
        return Ok(Value::Struct(list(cursor, "}", depth + 1)?));
    }
    if cursor.take("\"")? {
        let text = until(cursor, "\"", "a string has no closing quote; add it")?;
        cursor.take("...")?;
        return Ok(Value::Text(text));
    }
    let negative = cursor.take("-")?;
    let word = cursor.word()?;
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return number(word, negative)
            .map(Value::Int)
            .ok_or_else(|| cursor.error(&format!("`{word}` is not a number; write it like 10 or 0x0a")));
    }
    if word.is_empty() || negative {
        return Err(cursor.error(&format!("expected an argument, found {}", cursor.found())));
    }
    if cursor.rest().starts_with('(') {
        cursor.advance(1);
        return Ok(Value::Apply(word.to_owned(), list(cursor, ")", depth + 1)?));
    }
    Ok(Value::Word(word.to_owned()))
}

fn number(word: &str, negative: bool) -> Option<i64> {
    let value = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok()? as i64,
        None => word.parse::<i64>().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}
