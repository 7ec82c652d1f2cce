//! Sentences about a trace and its models.

use crate::read::Form;
use crate::scenario::shown;
use crate::{Detail, Kept, Report, Unit};

impl Report {
    /// Describes the amount of loss.
    pub fn losses(&self) -> String {
        let share = self.lost as f64 / self.packets as f64;
        let mut said = format!("{} of {} packets lost ({})", self.lost, self.packets, shown(Unit::Share, share));
        if self.lost > 0 && self.detail == Detail::Packets {
            said += &format!(", runs of {:.2} on average, at most {}", self.mean_run, self.longest_run);
        }
        said
    }

    /// Lists the properties that a trace of this form cannot show.
    pub fn unsaid(&self, form: Form) -> Vec<&'static str> {
        let both = match form {
            Form::Ping => Some("Ping counts the losses of both directions together."),
            Form::Fping => Some("Fping counts the losses of both directions together."),
            _ => None,
        };
        both.into_iter().collect()
    }

    /// Describes whether the chosen model fits, and which others the measurement permits; one sentence per line.
    pub fn verdict(&self) -> Vec<String> {
        let name = self.chosen().family.name();
        let mut lines = Vec::new();
        if !self.alike.is_empty() {
            let names: Vec<&str> = self.alike.iter().map(|family| family.name()).collect();
            lines.push(format!(
                "This trace cannot distinguish {name} from {}; a trace with more packets, of several sizes and with \
                 pauses, may.",
                names.join(", ")
            ));
        }
        lines.extend(self.untold.iter().map(|untold| format!("Unknown about the losses: {untold}.")));
        if !self.kept.is_empty() {
            let kept = |kept: &Kept| format!("{} ({})", kept.fit.family.name(), kept.why.words());
            let names: Vec<String> = self.kept.iter().map(kept).collect();
            lines.push(format!("Alternatives that `lasthop advise` also simulates: {}.", names.join(", ")));
        }
        let departures = &self.adequacy.departures;
        if departures.is_empty() {
            lines.push(match self.detail {
                Detail::Packets => format!("The model {name} fits the losses."),
                Detail::Intervals => format!("The model {name} fits the number of losses."),
            });
            return lines;
        }
        lines.push(format!("No model fits; {name}, the nearest one, deviates from the trace in"));
        lines.extend(departures.iter().map(|departure| {
            let deviations = departure.deviations.clamp(-1e6, 1e6);
            format!(
                "  {}: {:.4} seen, {:.4} expected ({deviations:+.0} standard deviations)",
                departure.what, departure.seen, departure.model
            )
        }));
        lines.push(
            "A scenario can replay the trace, as 0 and 1: errors = { model = \"replay\", file = ... }".to_owned(),
        );
        lines
    }
}
