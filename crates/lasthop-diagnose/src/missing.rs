//! Defects of a capture, and the choice of a flow where one is needed.

use lasthop_wire::READ_LINKS;

use crate::report::{Direction, FlowReport, Kind, Report};

impl Report {
    /// Returns the flow of that number, or the one with most data, and its direction with more data. `None` if no such
    /// flow sends data.
    pub fn with_most_data(&self, number: Option<usize>) -> Option<(&FlowReport, &Direction)> {
        let wanted = |flow: &&FlowReport| number.is_none_or(|number| flow.number == number);
        let flows = self.flows.iter().filter(wanted).filter_map(|flow| Some((flow, flow.directions.first()?)));
        flows.max_by_key(|(flow, direction)| (direction.bytes, std::cmp::Reverse(flow.number)))
    }

    /// Returns the defects of the capture, each as a clause.
    pub fn missing(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(damage) = &self.damage {
            said.push(format!("capture {damage}"));
        }
        for (link, packets) in &self.unknown_links {
            let packets = count(*packets, "packet");
            said.push(format!("{packets} of unsupported link type {link}; supported: {READ_LINKS}"));
        }
        if self.tcp == 0 && self.unknown_links.is_empty() {
            said.push("no TCP segments".to_owned());
        }
        let encapsulated: u64 = self.encapsulations.iter().map(|kind| kind.packets).sum();
        if encapsulated > 0 {
            let packets = count(encapsulated, "packet");
            said.push(format!("{packets} in an unsupported encapsulation: {}", list(&self.encapsulations)));
        }
        if self.unread > encapsulated {
            let packets = count(self.unread - encapsulated, "packet");
            said.push(format!("{packets} ignored, neither TCP nor UDP: {}", list(&self.unread_kinds)));
        }
        said.extend(self.copies_said());
        if self.options_cut > 0 {
            let segments = count(self.options_cut, "TCP header");
            said.push(format!(
                "{segments} truncated within the options: windows and selective acknowledgments may be unknown; capture 128 bytes of each packet (tcpdump -s 128)"
            ));
        }
        if self.clock_steps > 0 {
            said.push(format!("the clock jumped {}; delays across jumps are ignored", count(self.clock_steps, "time")));
        }
        if self.flows_left_out > 0 {
            said.push(format!("{} beyond the limit, not analyzed", count(self.flows_left_out, "connection")));
        }
        let unseen: u64 =
            self.flows.iter().flat_map(|flow| &flow.directions).map(|direction| direction.unseen_bytes).sum();
        if unseen > 0 {
            said.push(format!("{} acknowledged but missing in the capture", bytes(unseen)));
        }
        said
    }
}

impl Report {
    /// Returns the numbers and causes of packets that the capture has more than once.
    fn copies_said(&self) -> Option<String> {
        let kinds = &self.copy_kinds;
        let reasons = [
            (kinds.mirrored, "mirror port"),
            (kinds.hops, "several hops: different TTL"),
            (kinds.tunnels, "inside and outside of a tunnel"),
            (kinds.tags, "different VLAN tags or labels"),
            (kinds.addresses, "different link-layer addresses"),
            (kinds.wifi_retries, "retransmitted by the Wi-Fi link"),
            (kinds.cut_otherwise, "segmented differently by an interface"),
        ];
        let mut reasons: Vec<(u64, &str)> = reasons.into_iter().filter(|(copies, _)| *copies > 0).collect();
        reasons.sort_by_key(|(copies, _)| std::cmp::Reverse(*copies));
        let why = match reasons.as_slice() {
            [] => return None,
            [(_, why)] => (*why).to_owned(),
            several => several.iter().map(|(copies, why)| format!("{copies} {why}")).collect::<Vec<_>>().join(", "),
        };
        let packets = count(kinds.packets, "packet");
        let times = if kinds.all() == kinds.packets {
            "captured twice".to_owned()
        } else {
            format!("captured several times, {} ignored", count(kinds.all(), "copy").replace("copys", "copies"))
        };
        Some(format!("{packets} {times} ({why})"))
    }
}

/// Returns the kinds of packets in a line: `ARP 3, ICMP 2`.
fn list(kinds: &[Kind]) -> String {
    let mut said: Vec<String> =
        kinds.iter().take(MOST_KINDS).map(|kind| format!("{} {}", kind.what, kind.packets)).collect();
    if kinds.len() > MOST_KINDS {
        said.push("others".to_owned());
    }
    said.join(", ")
}

/// Maximum number of kinds that are listed by name.
const MOST_KINDS: usize = 6;

/// Returns a number with its noun: `1 packet`, `2 packets`.
pub(crate) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns a number of bytes in readable units.
pub fn bytes(number: u64) -> String {
    match number as f64 {
        number if number < 1e4 => format!("{number} B"),
        number if number < 1e6 => format!("{:.1} kB", number / 1e3),
        number if number < 1e9 => format!("{:.1} MB", number / 1e6),
        number => format!("{:.2} GB", number / 1e9),
    }
}
