//! Cases as scripts.

use std::fmt::Write as _;

use lasthop_proto::time::Duration;

use super::case::{Case, Observed, Opens, Stimulus};
use crate::format;

/// Returns a script of the case that expects the segments of `reference`. `remark` becomes its first lines.
pub fn write(case: &Case, reference: &[Observed], remark: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for line in remark.lines() {
        let _ = writeln!(text, "// {line}");
    }
    let settings: Vec<String> = case.kind.settings().iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    let _ = writeln!(text, "--tolerance_usecs=10000\n\n`sysctl -q {}`\n", settings.join(" "));
    let mut socket = 3;
    let _ = writeln!(text, "0.000 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3");
    match case.opens {
        Opens::Script => {
            for call in ["setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4)", "bind(3, ..., ...)", "listen(3, 1)"] {
                let _ = writeln!(text, "0.000 {call} = 0");
            }
        }
        Opens::Stack => {
            let _ = writeln!(text, "0.000 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0");
            let _ = writeln!(text, "0.000 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)");
        }
    }
    let mut time = Duration::ZERO;
    let mut sent = reference.iter().peekable();
    let line_at = |text: &mut String, at: Duration, line: &str| {
        let _ = writeln!(text, "{:.6} {line}", at.as_secs_f64());
    };
    for (number, step) in case.steps.iter().enumerate() {
        while let Some(one) = sent.next_if(|one| one.steps <= number) {
            line_at(&mut text, one.at, &format!("> {}", format::segment(&one.segment)));
        }
        time = time + step.after;
        if !matches!(step.what, Stimulus::Segment(_)) && socket == 3 && case.opens == Opens::Script {
            socket = 4;
            line_at(&mut text, time, "accept(3, ..., ...) = 4");
        }
        let line = match &step.what {
            Stimulus::Segment(spec) => format!("< {}", format::segment(spec)),
            Stimulus::Write(bytes) => format!("write({socket}, ..., {bytes}) = {bytes}"),
            Stimulus::Read(bytes) => format!("read({socket}, ..., {bytes}) = ..."),
            Stimulus::Shutdown => format!("shutdown({socket}, SHUT_WR) = 0"),
            Stimulus::Close => format!("close({socket}) = 0"),
            Stimulus::SetOption(name, value) => {
                let level = if name.starts_with("SO_") { "SOL_SOCKET" } else { "SOL_TCP" };
                format!("setsockopt({socket}, {level}, {name}, [{value}], 4) = 0")
            }
        };
        line_at(&mut text, time, &line);
    }
    for one in sent {
        line_at(&mut text, one.at, &format!("> {}", format::segment(&one.segment)));
    }
    text
}
