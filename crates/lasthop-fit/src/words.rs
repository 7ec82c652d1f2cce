//! What a trace and its models say, in sentences.

use crate::read::Form;
use crate::scenario::shown;
use crate::{Clock, Report, Unit};

impl Report {
    /// How much was lost.
    pub fn losses(&self) -> String {
        let share = self.lost as f64 / self.packets as f64;
        let mut said = format!("{} of {} packets lost ({})", self.lost, self.packets, shown(Unit::Share, share));
        if self.lost > 0 {
            said += &format!(", {:.2} in a row on average, {} at most", self.mean_run, self.longest_run);
        }
        said
    }

    /// What a trace of that form, with times or without, cannot say.
    pub fn unsaid(&self, form: Form, clock: Clock) -> Vec<&'static str> {
        let ping = (form == Form::Ping).then_some("Ping counts the losses of both directions together.");
        let times = (clock == Clock::Unknown && self.lost > 0)
            .then_some("The trace has no times, so models whose states pass in time are left out.");
        ping.into_iter().chain(times).collect()
    }

    /// Whether the chosen model does what the link did, and which others do as well; a sentence a line.
    pub fn verdict(&self) -> Vec<String> {
        let name = self.chosen().family.name();
        let mut lines = Vec::new();
        if !self.alike.is_empty() {
            let names: Vec<&str> = self.alike.iter().map(|family| family.name()).collect();
            lines.push(format!(
                "This trace cannot tell {name} from {}: more packets may, of several sizes and with pauses between them.",
                names.join(", ")
            ));
        }
        let departures = &self.adequacy.departures;
        if departures.is_empty() {
            lines.push(format!("The model {name} does what this link did."));
            return lines;
        }
        lines.push(format!("No model fits: {name}, the nearest one, departs from the trace in"));
        lines.extend(departures.iter().map(|departure| {
            let deviations = departure.deviations.clamp(-1e6, 1e6);
            format!(
                "  {}: {:.4} seen, {:.4} expected ({deviations:+.0} standard deviations)",
                departure.what, departure.seen, departure.model
            )
        }));
        lines.push(
            "A scenario can replay the trace itself: errors = { model = \"replay\", file = ... }, as 0 and 1."
                .to_owned(),
        );
        lines
    }
}
