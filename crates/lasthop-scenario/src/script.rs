//! Scripts of an error model: `errors_down = { model = "script", lose = [{ byte = 14600 }] }`.

use lasthop_proto::channel::{Act, Behind, ScriptFrame, ScriptLine};
use lasthop_proto::time::Duration;

use crate::document::quote;
use crate::flow_names::FlowNames;
use crate::key::Key;
use crate::reader::{Reader, Standing, Value};
use crate::shared_keys::EntryKeys;
use crate::values::{Count, Positive, Whole};
use crate::{Error, Problem};

keys! {
    /// Keys of a script.
    pub(crate) Keys {
        /// list | one of three | to drop: `{ byte = 14600, transmission = 2 }`: second segment with stream byte 14600
        /// (from 0 after the SYN); `ack`, `syn`, `transmission`, `flow` as for `drop`
        lose;
        /// list | | the same for delayed frames, with `by = "10 ms"`; `behind = "overtake"` (default) lets later frames
        /// pass, `"wait"` stalls the direction
        late;
        /// list | | the same for CE marks, if both ends negotiated ECN
        mark;
    }
}

/// Maximum number of lines of each kind.
const LONGEST: usize = 10_000;

/// Reads the lists of a script, at least one of which is required.
pub(crate) fn read(reader: &Reader<'_>, flows: &FlowNames) -> Result<Vec<ScriptLine>, Error> {
    if ![Keys::lose, Keys::late, Keys::mark].iter().any(|key| reader.has(key)) {
        let expected =
            "frames to lose, e.g. [{ byte = 14600, transmission = 2 }, { ack = 5 }]; or give `late` or `mark`";
        return Err(reader.fail(Keys::lose, Problem::Missing { expected: expected.to_owned() }));
    }
    let mut lines = list(reader, Keys::lose, flows, |_| Ok(Act::Lose))?;
    lines.extend(list(reader, Keys::late, flows, |entry| {
        let Positive(by) = entry.demand::<Positive<Duration>>(EntryKeys::by)?;
        Ok(Act::Late { by, behind: entry.peek(EntryKeys::behind)?.unwrap_or(Behind::Overtake) })
    })?);
    lines.extend(list(reader, Keys::mark, flows, |_| Ok(Act::Mark))?);
    Ok(lines)
}

fn list(
    reader: &Reader<'_>,
    key: Key,
    flows: &FlowNames,
    act: impl Fn(&Reader<'_>) -> Result<Act, Error>,
) -> Result<Vec<ScriptLine>, Error> {
    if !reader.has(key) {
        return Ok(Vec::new());
    }
    let is_late = key == Keys::late;
    let example = if is_late { "{ byte = 14600, by = \"10 ms\" }" } else { "{ byte = 14600 }" };
    let entries = reader.array(key, &format!("an array of tables, e.g. [{example}]"))?;
    if entries.len() > LONGEST {
        return Err(reader.refuse(key, format!("a list of at most {LONGEST} frames"), ""));
    }
    let of_late: &[&str] = if is_late { key_names!(EntryKeys: by, behind) } else { &[] };
    let known = [key_names!(EntryKeys: byte, transmission, ack, syn, flow), of_late].concat();
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
    let number = |key: Key| entry.peek::<Count>(key).map(|number| number.map(|Whole(number)| number));
    let frame = match (entry.peek::<u64>(EntryKeys::byte)?, number(EntryKeys::ack)?, number(EntryKeys::syn)?) {
        (Some(byte), None, None) => {
            ScriptFrame::Byte { byte, transmission: number(EntryKeys::transmission)?.unwrap_or(1) }
        }
        (None, Some(nth), None) => ScriptFrame::Ack(nth),
        (None, None, Some(nth)) => ScriptFrame::Syn(nth),
        _ => {
            let message = "give byte = B (the segment with that byte of the stream, from 0), ack = N (the Nth acknowledgment) \
                           or syn = N (the Nth SYN)";
            return Err(entry.fail_here(Problem::Conflict(message.to_owned())));
        }
    };
    if entry.has(EntryKeys::transmission) && !matches!(frame, ScriptFrame::Byte { .. }) {
        let message = "only data has transmissions; ack = 5 is the fifth acknowledgment that passes".to_owned();
        return Err(entry.fail(EntryKeys::transmission, Problem::Conflict(message)));
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
