//! Recordings of rates that move, for lasthop and for other emulators.

use super::moving::{Analysis, Point};
use crate::client::Way;

/// Bytes of an IP packet that one opportunity of mahimahi carries: 1,504 with the four bytes that it adds to each.
const OPPORTUNITY: f64 = 1500.0;
/// Interval of LeoReplayer's delays in seconds.
const DELAYS: f64 = 0.01;

/// Format of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recording {
    /// Files of delivery opportunities for mahimahi's `mm-link`.
    Mahimahi,
    /// Files of delivery opportunities and of delays for LeoReplayer.
    LeoReplayer,
}

impl Recording {
    /// Names in options.
    pub const NAMES: [(&'static str, Self); 2] = [("mahimahi", Self::Mahimahi), ("leoreplayer", Self::LeoReplayer)];
}

impl Analysis {
    /// Returns rate, delay and loss of both directions on one clock, `trace.csv`. Each row holds from its time on; the
    /// last one ends the trace.
    pub fn trace(&self) -> String {
        let mut text = String::from("t_s,rate_down_mbps,rate_up_mbps,delay_down_ms,delay_up_ms,loss_down,loss_up\n");
        let [down, up] = &self.points;
        let (Some(mut now_down), Some(mut now_up)) = (down.first().copied(), up.first().copied()) else {
            return text;
        };
        let mut times: Vec<u64> = down.iter().chain(up).map(|point| micros(point.at)).collect();
        times.push(0);
        times.sort_unstable();
        times.dedup();
        let (mut down, mut up) = (down.iter().peekable(), up.iter().peekable());
        let mut row = |time: u64, down: Point, up: Point| {
            text += &format!(
                "{:.6},{:.6},{:.6},{:.3},{:.3},{:.4},{:.4}\n",
                time as f64 / 1e6,
                down.rate / 1e6,
                up.rate / 1e6,
                down.delay * 1e3,
                up.delay * 1e3,
                down.loss,
                up.loss
            );
        };
        let end = micros(self.seconds);
        for time in times.into_iter().filter(|time| *time < end) {
            while let Some(point) = down.next_if(|point| micros(point.at) <= time) {
                now_down = *point;
            }
            while let Some(point) = up.next_if(|point| micros(point.at) <= time) {
                now_up = *point;
            }
            row(time, now_down, now_up);
        }
        row(end, now_down, now_up);
        text
    }

    /// Returns the rate of one direction over time, with delay and loss: the file that `rate_variation` replays.
    pub fn rates(&self, way: Way) -> String {
        let mut text = String::from("t_s,rate_mbps,delay_ms,lost\n");
        let mut row = |time: u64, point: &Point| {
            let Point { rate, delay, loss, .. } = point;
            text += &format!("{:.6},{:.6},{:.3},{loss:.4}\n", time as f64 / 1e6, rate / 1e6, delay * 1e3);
        };
        let points = &self.points[way as usize];
        let end = micros(self.seconds);
        let mut before = None;
        for (number, point) in points.iter().enumerate() {
            let time = if number == 0 { 0 } else { micros(point.at) };
            if time < end && before.is_none_or(|before| before < time) {
                row(time, point);
                before = Some(time);
            }
        }
        if let Some(last) = points.last() {
            row(end, last);
        }
        text
    }

    /// Returns the files of a recording: name and contents.
    pub fn recording(&self, format: Recording) -> Vec<(String, String)> {
        let rates =
            |extension: &str| Way::BOTH.map(|way| (format!("{way}.{extension}"), self.opportunities(way))).to_vec();
        match format {
            Recording::Mahimahi => rates("mahimahi"),
            Recording::LeoReplayer => {
                let mut files = rates("leoreplayer");
                // One file serves both directions there.
                files.push(("delay.leoreplayer".to_owned(), self.delays()));
                files
            }
        }
    }

    /// Returns delivery opportunities: a time in whole milliseconds per line.
    fn opportunities(&self, way: Way) -> String {
        let points = &self.points[way as usize];
        let mut text = String::new();
        let (mut credit, mut last) = (0.0, 0);
        for (number, point) in points.iter().enumerate() {
            let from = if number == 0 { 0.0 } else { point.at };
            let until = points.get(number + 1).map_or(self.seconds, |next| next.at);
            let each = 8.0 * OPPORTUNITY / point.rate;
            let (mut at, mut left) = (from, until - from);
            while point.rate > 0.0 && left * point.rate >= (1.0 - credit) * 8.0 * OPPORTUNITY {
                let takes = (1.0 - credit) * each;
                at += takes;
                left -= takes;
                credit = 0.0;
                last = (at * 1e3) as u64;
                text += &format!("{last}\n");
            }
            if point.rate > 0.0 {
                credit += left / each;
            }
        }
        // A lap ends with the last line, which must be above zero.
        if last == 0 {
            text += &format!("{}\n", ((self.seconds * 1e3) as u64).max(1));
        }
        text
    }

    /// Returns the mean one-way delay of both directions: whole milliseconds per line, each for 10 ms.
    fn delays(&self) -> String {
        let at = |points: &[Point], time: f64| {
            let count = points.partition_point(|point| point.at <= time).max(1);
            points.get(count - 1).map_or(0.0, |point| point.delay)
        };
        let [down, up] = &self.points;
        let line = |number: u64| {
            let time = DELAYS * number as f64;
            format!("{:.0}\n", 1e3 * f64::midpoint(at(down, time), at(up, time)))
        };
        (0..(self.seconds / DELAYS) as u64).map(line).collect()
    }
}

fn micros(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e6).round() as u64
}
