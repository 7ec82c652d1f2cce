//! What a capture lacks, and which of its flows counts where one is wanted.

use crate::link;
use crate::report::{Direction, FlowReport, Report};

impl Report {
    /// The flow of that number, or the one with most data, and its direction with more of it. `None` where no such flow sends data.
    pub fn with_most_data(&self, number: Option<usize>) -> Option<(&FlowReport, &Direction)> {
        let wanted = |flow: &&FlowReport| number.is_none_or(|number| flow.number == number);
        let flows = self.flows.iter().filter(wanted).filter_map(|flow| Some((flow, flow.directions.first()?)));
        flows.max_by_key(|(flow, direction)| (direction.bytes, std::cmp::Reverse(flow.number)))
    }

    /// What is missing in the capture, or not as it should be; each a clause.
    pub fn missing(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(damage) = &self.damage {
            said.push(format!("the capture {damage}"));
        }
        for (link, packets) in &self.unknown_links {
            let packets = count(*packets, "packet");
            said.push(format!("{packets} of link type {link}, which cannot be read; there are {}", link::KNOWN));
        }
        if self.tcp == 0 && self.unknown_links.is_empty() {
            said.push("there is no TCP segment in it".to_owned());
        }
        if self.unread > 0 {
            let packets = count(self.unread, "packet");
            said.push(format!("{packets} left out: neither TCP nor UDP, fragments, or cut off before the ports"));
        }
        if self.options_cut > 0 {
            let segments = count(self.options_cut, "TCP header");
            said.push(format!(
                "{segments} cut off within the options; where these are missing, windows and selective acknowledgments are not known: take 128 bytes of each packet (tcpdump -s 128)"
            ));
        }
        if self.clock_steps > 0 {
            said.push(format!("the clock jumped, {}; no delay is taken across that", count(self.clock_steps, "time")));
        }
        if self.flows_left_out > 0 {
            said.push(format!("{} more than can be followed", count(self.flows_left_out, "connection")));
        }
        let unseen: u64 =
            self.flows.iter().flat_map(|flow| &flow.directions).map(|direction| direction.unseen_bytes).sum();
        if unseen > 0 {
            said.push(format!("{} acknowledged that the capture has missed", bytes(unseen)));
        }
        said
    }
}

/// `1 packet`, `2 packets`.
pub(crate) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// A number of bytes for people.
pub fn bytes(number: u64) -> String {
    match number as f64 {
        number if number < 1e4 => format!("{number} B"),
        number if number < 1e6 => format!("{:.1} kB", number / 1e3),
        number if number < 1e9 => format!("{:.1} MB", number / 1e6),
        number => format!("{:.2} GB", number / 1e9),
    }
}
