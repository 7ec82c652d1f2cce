//! Parts of a line of text.

/// Replaces control characters, so that the text fits on one line.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the number at the beginning of `text`, after spaces, and the remaining text.
pub(super) fn leading_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, &text[end..]))
}

/// Returns the number after `key`.
pub(super) fn number_behind(line: &str, key: &str) -> Option<f64> {
    leading_number(&line[line.find(key)? + key.len()..]).map(|(number, _)| number)
}

/// Returns the milliseconds after `=` or `<`, in any language: `time=40.0 ms`, `Zeit<1ms`, `temps=12 ms`. Of several
/// numbers, the last with a unit counts.
pub(super) fn milliseconds(line: &str) -> Option<f64> {
    let values = line.char_indices().filter(|(_, c)| matches!(c, '=' | '<'));
    let mut values = values.filter_map(|(at, _)| leading_number(&line[at + 1..]));
    let with_unit = |rest: &str| ["ms", "мс", "msec"].iter().any(|unit| rest.trim_start().starts_with(unit));
    values.rfind(|(_, rest)| with_unit(rest)).map(|(number, _)| number)
}

/// Returns the time at the beginning of a line, in seconds, and the rest of the line: `[1700000000.04] `,
/// `1700000000.04 `, or a time of day like `18:23:45.123456 `.
pub(super) fn stamp(line: &str) -> (Option<f64>, &str) {
    let line = line.trim_start();
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let of_day = |text: &str| {
        let mut parts = text.splitn(3, ':');
        let mut part = || leading_number(parts.next()?).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number);
        let (hours, minutes, seconds) = (part()?, part()?, part()?);
        (hours < 24.0 && minutes < 60.0 && seconds < 61.0).then_some(hours * 3600.0 + minutes * 60.0 + seconds)
    };
    if let Some(inner) = first.strip_prefix('[').and_then(|first| first.strip_suffix(']')) {
        return match leading_number(inner) {
            Some((time, "")) => (Some(time), rest),
            _ => (of_day(inner), rest),
        };
    }
    // A bare number is a time in seconds since 1970 only if it is greater than a count of bytes could be.
    let epoch = leading_number(first).filter(|(time, rest)| rest.is_empty() && *time > 1e8).map(|(time, _)| time);
    match epoch.or_else(|| of_day(first)) {
        Some(time) => (Some(time), rest),
        None => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_any_language() {
        for (line, expected) in [
            ("64 bytes from 192.0.2.1: icmp_seq=1 ttl=57 time=40.0 ms", Some(40.0)),
            ("Antwort von 192.0.2.1: Bytes=32 Zeit<1ms TTL=57", Some(1.0)),
            ("Réponse de 192.0.2.1 : octets=32 temps=12 ms TTL=57", Some(12.0)),
            ("Ответ от 192.0.2.1: число байт=32 время=7мс TTL=57", Some(7.0)),
            ("192.0.2.1 からの応答: バイト数 =32 時間 =9ms TTL=57", Some(9.0)),
            ("Reply from 192.0.2.9: Destination host unreachable.", None),
            ("bytes=32 TTL=", None),
        ] {
            assert_eq!(milliseconds(line), expected, "{line}");
        }
    }

    #[test]
    fn stamps() {
        assert_eq!(stamp("[1700000000.5] 64 bytes"), (Some(1_700_000_000.5), "64 bytes"));
        assert_eq!(stamp("1700000000.5 64 bytes"), (Some(1_700_000_000.5), "64 bytes"));
        assert_eq!(stamp("01:00:02.5 64 bytes"), (Some(3602.5), "64 bytes"));
        for line in ["64 bytes from x", "::1 x", "[x] 64 bytes", "", "99:00:00 x"] {
            assert_eq!(stamp(line).0, None, "{line}");
        }
    }
}
