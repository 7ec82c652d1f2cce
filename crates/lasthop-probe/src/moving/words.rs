//! Description of a rate that moves, in one line.

use super::{Family, Moving};

/// Formats two significant digits, or whole numbers above.
fn figures(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let places = (1 - libm::floor(libm::log10(value)) as i32).clamp(0, 6) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn mbps(rate: f64) -> String {
    figures(rate / 1e6)
}

impl Moving {
    /// Returns the description: mean, range, changes, outages.
    pub fn words(&self) -> String {
        let [low, high] = self.range;
        if self.family == Family::Constant {
            return format!("{} Mbps, constant", mbps(self.mean));
        }
        if self.by_loads {
            return format!("{} Mbps under load; trains do not show how it moves", mbps(self.mean));
        }
        let too_short = self.trains < super::ENOUGH;
        if self.by_sender {
            return format!("{} Mbps or more: the trains arrived as fast as they were sent", mbps(self.mean));
        }
        let mut text = format!("{} Mbps on average", mbps(self.mean));
        if too_short {
            return format!("{text}; too short to say how it moves ({} of {} trains)", self.trains, super::ENOUGH);
        }
        text += &format!(", {} to {} nine tenths of the time", mbps(low), mbps(high));
        if let Some(changes) = self.changes {
            text += &format!("; changes each {} s", figures(changes));
        }
        let mut lasted: Vec<f64> = self.outages.iter().map(super::Outage::lasts).collect();
        let Some(longest) = crate::estimate::quantile(&mut lasted, 1.0) else { return text };
        text += &match &self.family {
            Family::Slots(found) if found.outage_seen => {
                format!("; nothing arrives for {} s at each change", figures(found.outage[1]))
            }
            _ => match lasted.len() {
                1 => format!("; nothing arrived for {} s once", figures(longest)),
                count => format!("; nothing arrived for up to {} s, {count} times", figures(longest)),
            },
        };
        text
    }
}
