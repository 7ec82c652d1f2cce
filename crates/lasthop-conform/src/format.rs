//! Text of segments in the notation of scripts.

use std::fmt::Write as _;

use lasthop_proto::packet::{Ecn, Flags};

use crate::script::{AccEcnField, EcnSpec, OptionsSpec, SegmentSpec, TcpOption};

/// Flags in the order of the notation, with their letters.
const LETTERS: [(Flags, char); 9] = [
    (Flags::FIN, 'F'),
    (Flags::SYN, 'S'),
    (Flags::RST, 'R'),
    (Flags::URG, 'U'),
    (Flags::ECE, 'E'),
    (Flags::CWR, 'W'),
    (Flags::AE, 'A'),
    (Flags::PSH, 'P'),
    (Flags::ACK, '.'),
];

/// Returns the letters of `flags`.
pub fn flags(flags: u16) -> String {
    let letters: String =
        LETTERS.iter().filter(|(flag, _)| Flags(flags).has(*flag)).map(|(_, letter)| *letter).collect();
    if letters.is_empty() { "-".to_owned() } else { letters }
}

/// Returns a segment in the notation of scripts, without its direction.
pub fn segment(spec: &SegmentSpec) -> String {
    let mut text = String::new();
    match spec.ecn {
        None | Some(EcnSpec::Is(Ecn::NotEct)) => {}
        Some(EcnSpec::Is(Ecn::Ect0)) => text.push_str("[ect0] "),
        Some(EcnSpec::Is(Ecn::Ect1)) => text.push_str("[ect1] "),
        Some(EcnSpec::Is(Ecn::Ce)) => text.push_str("[ce] "),
        Some(EcnSpec::Capable) => text.push_str("[ect01] "),
    }
    let end = spec.seq.wrapping_add(spec.len);
    // Writing to a string cannot fail.
    let _ = write!(text, "{} {}:{end}({})", flags(spec.flags), spec.seq, spec.len);
    if let Some(ack) = spec.ack {
        let _ = write!(text, " ack {ack}");
    }
    if let Some(window) = spec.window {
        let _ = write!(text, " win {window}");
    }
    match &spec.options {
        OptionsSpec::Any => text.push_str(" <...>"),
        OptionsSpec::List(list) if list.is_empty() => {}
        OptionsSpec::List(list) => {
            let _ = write!(text, " <{}>", options(list));
        }
    }
    text
}

/// Returns options in the order and with the padding of Linux.
fn options(list: &[TcpOption]) -> String {
    let is_permitted = list.contains(&TcpOption::SackPermitted);
    let rank = |option: &TcpOption| match option {
        TcpOption::Mss(_) => 0,
        TcpOption::SackPermitted => 1,
        TcpOption::Timestamps(..) => 2,
        TcpOption::AccEcn(_) => 3,
        TcpOption::WindowScale(_) => 4,
        TcpOption::FastOpen(..) | TcpOption::Md5 => 5,
        TcpOption::Sack(_) => 6,
    };
    let mut sorted: Vec<&TcpOption> = list.iter().collect();
    sorted.sort_by_key(|option| rank(option));
    let has_timestamps = sorted.iter().any(|option| matches!(option, TcpOption::Timestamps(..)));
    let texts: Vec<String> = sorted
        .into_iter()
        .map(|one| match one {
            // The two share their padding.
            TcpOption::SackPermitted if has_timestamps => "sackOK".to_owned(),
            TcpOption::Timestamps(val, ecr) if is_permitted => format!("TS val {val} ecr {ecr}"),
            one => option(one),
        })
        .collect();
    texts.join(",")
}

/// Returns an option in the notation of scripts, padded as Linux pads it where it stands alone.
fn option(option: &TcpOption) -> String {
    match option {
        TcpOption::Mss(mss) => format!("mss {mss}"),
        TcpOption::WindowScale(shift) => format!("nop,wscale {shift}"),
        TcpOption::SackPermitted => "nop,nop,sackOK".to_owned(),
        TcpOption::Sack(blocks) => {
            let blocks: Vec<String> = blocks.iter().map(|(left, right)| format!("{left}:{right}")).collect();
            format!("nop,nop,sack {}", blocks.join(" "))
        }
        TcpOption::Timestamps(val, ecr) => format!("nop,nop,TS val {val} ecr {ecr}"),
        TcpOption::AccEcn(counters) => {
            let mut text = "ECN".to_owned();
            for (field, value) in counters {
                let name = match field {
                    AccEcnField::E0 => "e0b",
                    AccEcnField::Ce => "ceb",
                    AccEcnField::E1 => "e1b",
                };
                let _ = write!(text, " {name} {value}");
            }
            text
        }
        TcpOption::FastOpen(cookie, false) => format!("FO {cookie}"),
        TcpOption::FastOpen(cookie, true) => format!("FOEXP {cookie}"),
        TcpOption::Md5 => "md5".to_owned(),
    }
}
