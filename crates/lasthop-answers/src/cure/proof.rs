//! Comparison of the results of a cure with the promise.

use lasthop_scenario::one_line;
use lasthop_study::promise::{Beside, Promise, put_into};
use serde_json::{Value, json};

use crate::refusal::Refusal;
use crate::words::Words;

/// Compares the report of a gateway or of an end of the two-ended link with the promise; both are files in `body`, in
/// any order. Returns an object:
///
/// * `report`: the JSON of `lasthop gateway report --promise --json`;
/// * `parts`: for each rule or peer its `name`, and the result in `words`.
///
/// # Errors
///
/// Returns an error with the file, and the expected form.
pub fn prove(query: &str, body: &[u8]) -> Result<Value, Refusal> {
    let mut words = Words::read(query)?;
    let files = words.files(body)?;
    words.finish()?;
    let (mut promise, mut report) = (None, None);
    for file in &files {
        let wrong = |why: String| Refusal::plain(one_line(&format!("{}: {why}", file.name)), "report");
        let text = std::str::from_utf8(file.bytes).map_err(|error| wrong(error.to_string()))?;
        let value: Value = serde_json::from_str(text).map_err(|error| wrong(format!("{EXPECTED}: {error}")))?;
        if value.get("lasthop_promise").is_some() {
            promise = Some(Promise::read(text).map_err(|error| wrong(error.to_string()))?);
        } else if ["rules", "peers"].iter().any(|list| value[list].is_array()) {
            report = Some(value);
        } else {
            return Err(wrong(EXPECTED.to_owned()));
        }
    }
    let promise = promise.ok_or_else(|| {
        Refusal::of("report", "the promise is missing; give the *.promise.json written by `lasthop advise --out`")
    })?;
    let mut report = report.ok_or_else(|| Refusal::of("report", EXPECTED))?;
    let mut parts = Vec::new();
    type Judge = fn(&Value, &Promise) -> Beside;
    let lists: [(&str, Judge); 2] = [("rules", Beside::of_rule), ("peers", Beside::of_peer)];
    for (list, judge) in lists {
        for part in report[list].as_array().into_iter().flatten() {
            let name = one_line(part["name"].as_str().unwrap_or("?"));
            let flows = ["treated", "untreated"].map(|arm| part[arm]["flows"].as_u64());
            parts.push(json!({ "name": name, "words": judge(part, &promise).words(), "flows": flows }));
        }
    }
    put_into(&mut report, &promise);
    Ok(json!({ "report": report, "parts": parts }))
}

const EXPECTED: &str = "expected output of `lasthop gateway report --json` or `lasthop tunnel report --json`";
