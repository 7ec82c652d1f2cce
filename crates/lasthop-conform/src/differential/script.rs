//! Cases as scripts.

use std::fmt::Write as _;

use lasthop_proto::packet::Flags;
use lasthop_proto::time::Duration;

use super::case::{Case, Observed, Opens, Stimulus};
use crate::format;

/// Maximum time between segments of one burst.
const BURST: Duration = Duration::from_millis(1);

/// Returns a script of the case that expects the segments of `reference`. `remark` becomes its first lines.
pub fn write(case: &Case, reference: &[Observed], remark: &str) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for line in remark.lines() {
        let _ = writeln!(text, "// {line}");
    }
    let settings: Vec<String> =
        case.kind.settings().iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
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
    let bursts = bursts(reference);
    let mut sent = bursts.iter().peekable();
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

/// Joins the segments of each burst, which differ in PSH by the sizes of the packets that segmentation offload splits.
fn bursts(sent: &[Observed]) -> Vec<Observed> {
    let mut bursts: Vec<Observed> = Vec::new();
    for one in sent {
        let joined = bursts.last_mut().filter(|burst| continues(burst, one));
        match joined {
            Some(burst) => {
                burst.segment.len += one.segment.len;
                burst.segment.flags = Flags(burst.segment.flags).without(Flags::PSH).0 | one.segment.flags;
            }
            None => bursts.push(one.clone()),
        }
    }
    bursts
}

fn continues(burst: &Observed, next: &Observed) -> bool {
    let (a, b) = (&burst.segment, &next.segment);
    let loose = Flags::PSH.with(Flags::FIN).with(Flags::CWR);
    burst.steps == next.steps
        && next.at.saturating_sub(burst.at) <= BURST
        && a.len > 0
        && b.len > 0
        && b.seq == a.seq.wrapping_add(a.len)
        && Flags(a.flags).without(loose) == Flags(b.flags).without(loose)
        && (a.ack, a.window, &a.options, a.ecn) == (b.ack, b.window, &b.options, b.ecn)
}
