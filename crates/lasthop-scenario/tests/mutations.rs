//! Tests that any text yields a scenario or a message, never a panic.

use lasthop_proto::scheme::SCHEMES;
use lasthop_scenario::{Scenario, builtin_names};
use proptest::prelude::*;
use proptest::test_runner::{FailurePersistence, FileFailurePersistence};

const EVERYTHING: &str = include_str!("data/everything.toml");

/// Replacements for a value or a key.
const PIECES: [&str; 46] = [
    "0",
    "1",
    "-1",
    "4294967295",
    "4294967296",
    "18446744073709551616",
    "1e400",
    "-0.0",
    "nan",
    "inf",
    "0x7fffffff",
    "true",
    "\"\"",
    "\"0 s\"",
    "\"1 ns\"",
    "\"584 h\"",
    "\"18446744073709551615 ns\"",
    "\"0 bps\"",
    "\"1 bps\"",
    "\"9999999 Tbps\"",
    "\"1 B\"",
    "\"1 GiB\"",
    "\"4 GiB\"",
    "\"100 %\"",
    "\"1e-320\"",
    "\"unlimited\"",
    "\"scheme\"",
    "\"none\"",
    "\"list\"",
    "\"ns2\"",
    "\"rfc\"",
    "\"bsd-lite\"",
    "[]",
    "[[]]",
    "{}",
    "{ model = \"none\" }",
    "[{ data = 1 }]",
    "[{ ack = 1 }]",
    "[{ byte = 1460, by = \"1 ms\" }]",
    "\"script\"",
    "[\"zulu\", \"left\"]",
    "1979-05-27",
    "'''\n'''",
    "\u{feff}",
    "=",
    "[tcp]",
];

/// A change of a text.
#[derive(Clone, Debug)]
enum Change {
    /// Swaps two lines.
    Swap(usize, usize),
    /// Deletes a line.
    Delete(usize),
    /// Repeats a line.
    Repeat(usize),
    /// Replaces the value in a line.
    Value(usize, usize),
    /// Replaces the key in a line by that of another.
    Key(usize, usize),
    /// Inserts any character anywhere.
    Insert(usize, char),
    /// Truncates the text.
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let any = proptest::prelude::any::<usize>;
    prop_oneof![
        1 => (any(), any()).prop_map(|(a, b)| Change::Swap(a, b)),
        2 => any().prop_map(Change::Delete),
        1 => any().prop_map(Change::Repeat),
        8 => (any(), 0..PIECES.len()).prop_map(|(line, piece)| Change::Value(line, piece)),
        2 => (any(), any()).prop_map(|(line, other)| Change::Key(line, other)),
        2 => (any(), proptest::char::any()).prop_map(|(at, c)| Change::Insert(at, c)),
        1 => any().prop_map(Change::Cut),
    ]
}

fn apply(text: &str, change: &Change) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let count = lines.len().max(1);
    let boundary = |at: usize| (0..=at % (text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    match *change {
        Change::Swap(a, b) if !lines.is_empty() => lines.swap(a % count, b % count),
        Change::Delete(line) if !lines.is_empty() => drop(lines.remove(line % count)),
        Change::Repeat(line) if !lines.is_empty() => lines.insert(line % count, lines[line % count].clone()),
        Change::Value(line, piece) => {
            let Some(line) = lines.get_mut(line % count) else { return String::new() };
            if let Some((key, _)) = line.split_once('=') {
                *line = format!("{key}= {}", PIECES[piece]);
            }
        }
        Change::Key(line, other) => {
            let other = lines.get(other % count).and_then(|line| line.split_once('=')).map(|(key, _)| key.to_owned());
            let Some(line) = lines.get_mut(line % count) else { return String::new() };
            if let (Some((_, value)), Some(key)) = (line.split_once('='), other) {
                *line = format!("{key}={value}");
            }
        }
        Change::Insert(at, c) => {
            let (before, after) = text.split_at(boundary(at));
            return format!("{before}{c}{after}");
        }
        Change::Cut(at) => return text[..boundary(at)].to_owned(),
        _ => {}
    }
    lines.join("\n")
}

/// Parses the text. A valid scenario must have networks without a panic, and its explained text must be equal to it.
fn check(text: &str) -> Result<bool, TestCaseError> {
    let scenario = match Scenario::parse("mutant.toml", text) {
        Ok(scenario) => scenario,
        Err(error) => {
            let message = error.to_string();
            prop_assert!(message.starts_with("mutant.toml"), "{}", message);
            prop_assert!(!message.contains('\n') && message.len() < 1000, "{}", message);
            return Ok(false);
        }
    };
    for scheme in &SCHEMES {
        let _ = scenario.network(scheme);
    }
    let again = Scenario::parse("explained.toml", &scenario.explain());
    let again = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(again, scenario);
    Ok(true)
}

fn texts() -> impl Strategy<Value = String> {
    // Without the loss trace, which is not available to a text without a file.
    let everything = EVERYTHING.replace("{ model = \"replay\", file = \"loss.txt\" }", "{ model = \"none\" }");
    let mut texts: Vec<String> = builtin_names().filter_map(Scenario::builtin_text).map(str::to_owned).collect();
    texts.retain(|text| !text.contains("count = 10000"));
    texts.extend(vec![everything; 3]);
    prop::sample::select(texts)
}

#[test]
fn the_unchanged_texts_are_read() {
    let everything = EVERYTHING.replace("{ model = \"replay\", file = \"loss.txt\" }", "{ model = \"none\" }");
    assert!(check(&everything).unwrap());
}

/// Seeds of failures are printed and stored next to this file, to be run first in the future.
fn kept() -> Option<Box<dyn FailurePersistence>> {
    Some(Box::new(FileFailurePersistence::WithSource("proptest-regressions")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: kept(), ..ProptestConfig::default() })]

    #[test]
    fn changed_texts(text in texts(), changes in prop::collection::vec(change(), 1..4)) {
        check(&changes.iter().fold(text, |text, change| apply(&text, change)))?;
    }

    #[test]
    fn any_text(text in "(\\PC|[\\n=\\[\\]{}\"'.,# ]){0,200}") {
        check(&text)?;
    }

    #[test]
    fn hostile_names(name in any::<String>(), file in any::<String>()) {
        let quoted: String = name.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
        let outside = |key: &str, value: &str| Scenario::builtin("satellite")?.with_overrides(&[(key, value)]);
        let told = [
            Scenario::parse(&file, &format!("\"{quoted}\" = 1")).err(),
            Scenario::parse(&file, &format!("[hosts.\"{quoted}\"]\n[links.x]\nbetween = [\"{quoted}\", 1]")).err(),
            Scenario::parse(&file, &format!("title = \"x\"\n{name}\n]")).err(),
            Scenario::parse(&file, &format!("title = \"\\u001b{quoted}\"")).err(),
            outside(&format!("tcp.x{name}"), "1").err(),
            outside("tcp.mss", &format!("x{name}")).err(),
        ];
        for (number, error) in told.into_iter().enumerate() {
            let Some(error) = error else { return Err(TestCaseError::fail(format!("{number} was taken"))) };
            let message = error.to_string();
            let steers = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            prop_assert!(!message.chars().any(steers), "{}: {:?}", number, message);
        }
    }

    #[test]
    fn any_value_from_outside(key in "[a-z_.\\[\\]\" ]{0,30}|links\\.[a-e]\\.(rate|errors|errors\\.model|queue)|tcp\\.[a-z_]{3,12}", value in "\\PC{0,30}") {
        let scenario = Scenario::builtin("satellite").map_err(|error| TestCaseError::fail(error.to_string()))?;
        if let Err(error) = scenario.with_overrides(&[(&key, &value)]) {
            let message = error.to_string();
            prop_assert!(!message.contains('\n') && message.len() < 1000, "{}", message);
        }
    }
}
