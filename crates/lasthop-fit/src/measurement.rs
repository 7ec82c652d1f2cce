//! The table `[measurement]`: properties of the underlying measurement that a scenario omits.

use std::fmt::Write;

use crate::scenario::{inline, parameters};
use crate::statement::{Statement, Verdict};
use crate::{Kept, Report};

/// Maximum number of alternative models of the losses in a scenario, each of which `advise` simulates.
const MOST_ALTERNATIVES: usize = 4;
/// Maximum number of runs in a replayed trace, the limit of a scenario file.
const MOST_RUNS: usize = 50_000;

/// Other value that the measurement permits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative {
    /// Description.
    pub name: String,
    /// Dotted key of the scenario.
    pub key: String,
    /// Value as TOML.
    pub value: String,
}

/// Differences between a scenario and the measurement that it was made from.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Notes {
    /// Measured behaviour that the scenario does not model.
    pub not_modelled: Vec<String>,
    /// Quantities that were not measured.
    pub unknown: Vec<String>,
    /// Values that were assumed.
    pub assumed: Vec<String>,
    /// Reason for which no cure may be advised.
    pub no_cure: Option<String>,
    /// Other values that the measurement permits.
    pub alternatives: Vec<Alternative>,
}

impl Notes {
    /// Adds the aspects of a direction, `down` or `up`, that the scenario does not reproduce.
    pub fn add(&mut self, way: &str, statement: &Statement) {
        for (aspect, said) in statement.aspects() {
            let line = format!("{aspect} {way}: {}", said.why);
            match said.verdict {
                Verdict::Fits => {}
                Verdict::DoesNotFit => self.not_modelled.push(line),
                Verdict::Unknown => self.unknown.push(line),
            }
        }
    }

    /// Adds the models that the measurement of a direction permits in addition to the chosen one, and the trace itself
    /// if none fits.
    pub fn add_alternatives(&mut self, way: &str, report: &Report, losses: &[bool]) {
        let key = format!("links.hop.errors_{way}");
        let of_kept = |kept: &Kept| Alternative {
            name: format!(
                "{} {way} ({}; {})",
                kept.fit.family.name(),
                kept.why.words(),
                parameters(&kept.fit).join(", ")
            ),
            key: key.clone(),
            value: inline(&kept.fit),
        };
        self.alternatives.extend(report.kept.iter().map(of_kept));
        let runs = alternating(losses);
        if !report.adequacy.fits() && runs.len() <= MOST_RUNS {
            let runs: Vec<String> = runs.iter().map(usize::to_string).collect();
            self.alternatives.push(Alternative {
                name: format!("replay of the trace {way}, packet by packet"),
                key,
                value: format!("{{ model = \"replay\", runs = [{}] }}", runs.join(", ")),
            });
        }
        self.alternatives.truncate(MOST_ALTERNATIVES);
    }

    /// Writes the table unless it is empty.
    pub(crate) fn write(&self, text: &mut String) {
        if *self == Self::default() {
            return;
        }
        text.push_str("\n[measurement]                 # limits of this scenario, which `lasthop advise` considers\n");
        for (key, lines) in
            [("not_modelled", &self.not_modelled), ("unknown", &self.unknown), ("assumed", &self.assumed)]
        {
            if !lines.is_empty() {
                let lines: Vec<String> = lines.iter().map(|line| format!("    {},\n", quoted(line))).collect();
                let _ = writeln!(text, "{key} = [\n{}]", lines.concat());
            }
        }
        if let Some(why) = &self.no_cure {
            let _ = writeln!(text, "no_cure = {}", quoted(why));
        }
        for Alternative { name, key, value } in &self.alternatives {
            let _ = write!(
                text,
                "\n[[measurement.alternatives]]\nname = {}\nkey = {}\nvalue = {value}\n",
                quoted(name),
                quoted(key)
            );
        }
    }
}

/// Returns alternating run lengths: packets that arrive, packets that are lost.
fn alternating(losses: &[bool]) -> Vec<usize> {
    let mut runs = vec![0];
    let mut current = false;
    for &lost in losses {
        if lost != current {
            current = lost;
            runs.push(0);
        }
        if let Some(run) = runs.last_mut() {
            *run += 1;
        }
    }
    runs
}

/// Formats a TOML string on one line.
fn quoted(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("\"{}\"", plain.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_take_turns_and_begin_with_packets_that_arrive() {
        assert_eq!(alternating(&[true, true, false, true]), [0, 2, 1, 1]);
        assert_eq!(alternating(&[false, false, true]), [2, 1]);
    }

    #[test]
    fn whatever_a_note_says_is_one_string() {
        assert_eq!(quoted("a \"b\"\\\n"), "\"a \\\"b\\\"\\\\ \"");
        let mut text = String::new();
        Notes::default().write(&mut text);
        assert!(text.is_empty());
    }
}
