//! Scripts of an error model: `errors_down = { model = "script", lose = [{ byte = 14600 }] }`.

use lasthop_proto::channel::{Act, Behind, ScriptFrame, ScriptLine};
use lasthop_proto::time::Duration;

use crate::document::quote;
use crate::flow_names::FlowNames;
use crate::reader::{Reader, Standing, Value};
use crate::values::{Count, Positive, Whole};
use crate::{Error, Problem};

/// Keys besides `model`.
pub(crate) const KEYS: &[&str] = &["lose", "late", "mark"];

/// Maximum number of lines of each kind.
const LONGEST: usize = 10_000;

/// Reads the lists of a script, at least one of which is required.
pub(crate) fn read(reader: &Reader<'_>, flows: &FlowNames) -> Result<Vec<ScriptLine>, Error> {
    if !["lose", "late", "mark"].iter().any(|key| reader.has(key)) {
        let expected =
            "frames to lose, e.g. [{ byte = 14600, transmission = 2 }, { ack = 5 }]; or give `late` or `mark`";
        return Err(reader.fail("lose", Problem::Missing { expected: expected.to_owned() }));
    }
    let mut lines = list(reader, "lose", flows, |_| Ok(Act::Lose))?;
    lines.extend(list(reader, "late", flows, |entry| {
        let Positive(by) = entry.demand::<Positive<Duration>>("by")?;
        Ok(Act::Late { by, behind: entry.peek("behind")?.unwrap_or(Behind::Overtake) })
    })?);
    lines.extend(list(reader, "mark", flows, |_| Ok(Act::Mark))?);
    Ok(lines)
}

fn list(
    reader: &Reader<'_>,
    key: &'static str,
    flows: &FlowNames,
    act: impl Fn(&Reader<'_>) -> Result<Act, Error>,
) -> Result<Vec<ScriptLine>, Error> {
    if !reader.has(key) {
        return Ok(Vec::new());
    }
    let entries = match key {
        "late" => reader.array(key, "an array of tables, e.g. [{ byte = 14600, by = \"10 ms\" }]")?,
        _ => reader.array(key, "an array of tables, e.g. [{ byte = 14600 }]")?,
    };
    if entries.len() > LONGEST {
        return Err(reader.refuse(key, format!("a list of at most {LONGEST} frames"), ""));
    }
    let of_late: &[&str] = if key == "late" { &["by", "behind"] } else { &[] };
    let known = [&["byte", "transmission", "ack", "syn", "flow"], of_late].concat();
    let line = |entry: &Reader<'_>| {
        entry.allow(&known)?;
        Ok(ScriptLine { frame: frame(entry)?, act: act(entry)?, flow: flows.read_flow(entry)? })
    };
    let lines = entries.iter().map(line).collect::<Result<Vec<_>, Error>>()?;
    let shown: Vec<_> = lines.iter().map(|line| show(line, flows)).collect();
    reader.note(key, format!("[{}]", shown.join(", ")), reader.source(key, ""), Standing::Value);
    Ok(lines)
}

fn frame(entry: &Reader<'_>) -> Result<ScriptFrame, Error> {
    let number = |key: &'static str| entry.peek::<Count>(key).map(|number| number.map(|Whole(number)| number));
    let frame = match (entry.peek::<u64>("byte")?, number("ack")?, number("syn")?) {
        (Some(byte), None, None) => ScriptFrame::Byte { byte, transmission: number("transmission")?.unwrap_or(1) },
        (None, Some(nth), None) => ScriptFrame::Ack(nth),
        (None, None, Some(nth)) => ScriptFrame::Syn(nth),
        _ => {
            let message = "give byte = B (the segment with that byte of the stream, from 0), ack = N (the Nth acknowledgment) \
                           or syn = N (the Nth SYN)";
            return Err(entry.fail_here(Problem::Conflict(message.to_owned())));
        }
    };
    if entry.has("transmission") && !matches!(frame, ScriptFrame::Byte { .. }) {
        let message = "only data has transmissions; ack = 5 is the fifth acknowledgment that passes".to_owned();
        return Err(entry.fail("transmission", Problem::Conflict(message)));
    }
    Ok(frame)
}

fn show(line: &ScriptLine, flows: &FlowNames) -> String {
    let mut shown = match line.frame {
        ScriptFrame::Byte { byte, transmission } => format!("byte = {byte}, transmission = {transmission}"),
        ScriptFrame::Ack(nth) => format!("ack = {nth}"),
        ScriptFrame::Syn(nth) => format!("syn = {nth}"),
    };
    if let Act::Late { by, behind } = line.act {
        shown.push_str(&format!(", by = {}, behind = {}", by.show(), behind.show()));
    }
    if let Some(flow) = line.flow.and_then(|flow| flows.name(flow)) {
        shown.push_str(&format!(", flow = {}", quote(&flow)));
    }
    format!("{{ {shown} }}")
}
