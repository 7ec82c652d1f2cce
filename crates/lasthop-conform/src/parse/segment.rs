//! Packets of a script.

use lasthop_proto::packet::{Ecn, Flags};

use super::ParseError;
use super::cursor::Cursor;
use crate::script::{AccEcnField, Action, EcnSpec, OptionsSpec, SegmentSpec, TcpOption};

/// Maximum payload of a packet.
const MOST_PAYLOAD: u64 = 1 << 20;

/// Maximum number of SACK blocks that fit into a header.
const MOST_BLOCKS: usize = 4;

/// Reads a packet after its direction.
pub(super) fn packet(cursor: &mut Cursor<'_>, direction: impl Fn(SegmentSpec) -> Action) -> Result<Action, ParseError> {
    let mut spec = SegmentSpec::default();
    fields_of_ip(cursor, &mut spec)?;
    let word = cursor.peek_word()?.to_ascii_lowercase();
    if matches!(word.as_str(), "icmp" | "udp" | "gre" | "mpls" | "ipv4" | "ipv6" | "sctp" | "udplite" | "psp") {
        skip_line(cursor);
        return Ok(Action::Other(word));
    }
    ports(cursor, &mut spec)?;
    flags(cursor, &mut spec)?;
    if cursor.take("...")? {
        // A sequence number that the script does not check.
        skip_line(cursor);
        return Ok(Action::Other("unchecked sequence number".to_owned()));
    }
    spec.seq = cursor.bounded("a sequence number", u64::from(u32::MAX))?;
    cursor.expect(":", "a segment has `first:last(length)`")?;
    let last: u32 = cursor.bounded("the end of the segment", u64::from(u32::MAX))?;
    cursor.expect("(", "a segment has `first:last(length)`")?;
    spec.len = cursor.bounded("the length of the segment", MOST_PAYLOAD)?;
    cursor.expect(")", "a segment has `first:last(length)`")?;
    if spec.seq.wrapping_add(spec.len) != last {
        let end = spec.seq.wrapping_add(spec.len);
        let message = format!("{}:{last}({}) does not fit; it ends at {end}", spec.seq, spec.len);
        return Err(cursor.error(&message));
    }
    // Marks an absolute number, which differs from a relative one only where another connection exists.
    cursor.take("!")?;
    if cursor.take_word("ack")? {
        spec.ack = Some(cursor.bounded("an acknowledgment number", u64::from(u32::MAX))?);
    }
    if cursor.take_word("win")? {
        spec.window = Some(cursor.bounded("a window", 0xffff)?);
    }
    if cursor.take_word("urg")? {
        spec.urgent = Some(cursor.bounded("an urgent pointer", 0xffff)?);
    }
    if cursor.take("<")? {
        spec.options = options(cursor)?;
    }
    if cursor.take("/udp")? {
        skip_line(cursor);
        return Ok(Action::Other("udp".to_owned()));
    }
    Ok(direction(spec))
}

fn skip_line(cursor: &mut Cursor<'_>) {
    let end = cursor.rest().find('\n').unwrap_or(cursor.rest().len());
    cursor.advance(end);
}

/// Reads `[ect0]`, `(tos 0x10)` and the like.
fn fields_of_ip(cursor: &mut Cursor<'_>, spec: &mut SegmentSpec) -> Result<(), ParseError> {
    let close = if cursor.take("[")? {
        "]"
    } else if cursor.take("(")? {
        ")"
    } else {
        return Ok(());
    };
    loop {
        match cursor.word()?.to_ascii_lowercase().as_str() {
            "noecn" => spec.ecn = Some(EcnSpec::Is(Ecn::NotEct)),
            "ect0" => spec.ecn = Some(EcnSpec::Is(Ecn::Ect0)),
            "ect1" => spec.ecn = Some(EcnSpec::Is(Ecn::Ect1)),
            "ce" => spec.ecn = Some(EcnSpec::Is(Ecn::Ce)),
            "ect01" => spec.ecn = Some(EcnSpec::Capable),
            "tos" => spec.ecn = Some(EcnSpec::Is(Ecn::from_bits(hexadecimal(cursor)?))),
            "class" => spec.ecn = Some(EcnSpec::Is(Ecn::from_bits(hexadecimal(cursor)?))),
            "flowlabel" => {
                hexadecimal(cursor)?;
            }
            "ttl" | "hlim" => {
                cursor.number("a time to live")?;
            }
            word => {
                let message = format!("unknown field `{word}` of IP; known are noecn, ect0, ect1, ce, ect01, tos, ttl");
                return Err(cursor.error(&message));
            }
        }
        if !cursor.take(",")? {
            return cursor.expect(close, "fields of IP stand in brackets");
        }
    }
}

/// Reads a hexadecimal number and returns its low byte.
fn hexadecimal(cursor: &mut Cursor<'_>) -> Result<u8, ParseError> {
    let word = cursor.word()?;
    let digits = word.strip_prefix("0x").unwrap_or(word);
    u32::from_str_radix(digits, 16)
        .map(|value| value as u8)
        .map_err(|_| cursor.error(&format!("`{word}` is not a hexadecimal number; write it like 0x10")))
}

/// Reads `1024 > 80`, if it follows.
fn ports(cursor: &mut Cursor<'_>, spec: &mut SegmentSpec) -> Result<(), ParseError> {
    cursor.skip_blank()?;
    let text = cursor.rest();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if digits > 0 && text[digits..].trim_start().starts_with('>') {
        let from = cursor.bounded("a port", 0xffff)?;
        cursor.expect(">", "ports are written `1024 > 80`")?;
        spec.ports = Some((from, cursor.bounded("a port", 0xffff)?));
    }
    Ok(())
}

fn flags(cursor: &mut Cursor<'_>, spec: &mut SegmentSpec) -> Result<(), ParseError> {
    cursor.skip_blank()?;
    let rest = cursor.rest();
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let word = &rest[..end];
    let mut flags = Flags::default();
    for letter in word.chars() {
        let flag = match letter {
            'F' => Flags::FIN,
            'S' => Flags::SYN,
            'R' => Flags::RST,
            'P' => Flags::PSH,
            '.' => Flags::ACK,
            'U' => Flags::URG,
            'E' => Flags::ECE,
            'W' | 'C' => Flags::CWR,
            'A' | 'N' => Flags::AE,
            '0'..='7' => {
                spec.ace = Some(letter as u8 - b'0');
                Flags::default()
            }
            '-' => Flags::default(),
            _ => {
                let found = cursor.found();
                let message = format!("expected TCP flags, found {found}; write letters of FSRP.UEWA, or `-` for none");
                return Err(cursor.error(&message));
            }
        };
        flags = flags.with(flag);
    }
    if word.is_empty() {
        return Err(cursor.error("a packet has no TCP flags; write letters of FSRP.UEWA, or `-` for none"));
    }
    cursor.advance(end);
    // The dot may stand apart.
    if cursor.peek()? == Some('.') && cursor.rest()[1..].starts_with(char::is_whitespace) {
        cursor.advance(1);
        flags = flags.with(Flags::ACK);
    }
    if let Some(ace) = spec.ace {
        for (bit, flag) in [(4, Flags::AE), (2, Flags::CWR), (1, Flags::ECE)] {
            if ace & bit != 0 {
                flags = flags.with(flag);
            }
        }
    }
    spec.flags = flags.0;
    Ok(())
}

fn options(cursor: &mut Cursor<'_>) -> Result<OptionsSpec, ParseError> {
    let mut list = Vec::new();
    loop {
        if cursor.take("...")? {
            cursor.expect(">", "`<...>` stands for any options")?;
            return Ok(OptionsSpec::Any);
        }
        list.extend(option(cursor)?);
        if cursor.take(">")? {
            return Ok(OptionsSpec::List(list));
        }
        cursor.expect(",", "options are separated by commas and end with `>`")?;
    }
}

/// Reads an option; padding is none.
fn option(cursor: &mut Cursor<'_>) -> Result<Option<TcpOption>, ParseError> {
    let word = cursor.word()?;
    Ok(Some(match word {
        "nop" | "eol" | "NOP" | "EOL" => return Ok(None),
        "mss" => TcpOption::Mss(cursor.bounded("a segment size", 0xffff)?),
        "wscale" => TcpOption::WindowScale(cursor.bounded("a window scale", 255)?),
        "sackOK" => TcpOption::SackPermitted,
        "sack" => TcpOption::Sack(blocks(cursor)?),
        "TS" => {
            cursor.expect("val", "timestamps are written `TS val 1 ecr 2`")?;
            let val = cursor.bounded("a timestamp", u64::from(u32::MAX))?;
            cursor.expect("ecr", "timestamps are written `TS val 1 ecr 2`")?;
            TcpOption::Timestamps(val, cursor.bounded("an echo", u64::from(u32::MAX))?)
        }
        "ECN" => TcpOption::AccEcn(counters(cursor)?),
        "FO" | "FOEXP" => {
            let cookie = cursor.word()?.to_owned();
            TcpOption::FastOpen(cookie, word == "FOEXP")
        }
        "md5" => {
            cursor.word()?;
            TcpOption::Md5
        }
        _ => {
            let known = "mss, wscale, sackOK, sack, TS, ECN, FO, FOEXP, md5, nop, eol";
            return Err(cursor.error(&format!("unknown TCP option `{word}`; known are {known}")));
        }
    }))
}

fn blocks(cursor: &mut Cursor<'_>) -> Result<Vec<(u32, u32)>, ParseError> {
    let mut blocks = Vec::new();
    while cursor.peek()?.is_some_and(|c| c.is_ascii_digit()) {
        let left = cursor.bounded("the left edge of a block", u64::from(u32::MAX))?;
        cursor.expect(":", "a block is written `left:right`")?;
        blocks.push((left, cursor.bounded("the right edge of a block", u64::from(u32::MAX))?));
        if blocks.len() > MOST_BLOCKS {
            return Err(cursor.error("more than 4 SACK blocks; a header has no space for them"));
        }
    }
    Ok(blocks)
}

fn counters(cursor: &mut Cursor<'_>) -> Result<Vec<(AccEcnField, u32)>, ParseError> {
    let mut counters = Vec::new();
    loop {
        let field = match cursor.peek_word()?.to_ascii_lowercase().as_str() {
            "e0b" => AccEcnField::E0,
            "ceb" => AccEcnField::Ce,
            "e1b" => AccEcnField::E1,
            _ => return Ok(counters),
        };
        cursor.word()?;
        counters.push((field, cursor.bounded("a counter", 0xff_ffff)?));
        if counters.len() > 3 {
            return Err(cursor.error("more than 3 counters; the option has e0b, ceb and e1b"));
        }
    }
}
