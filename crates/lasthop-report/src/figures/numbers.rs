//! Numbers of a figure as a table, for readers who cannot see it or need them.

use super::plot::number;
use super::{BarChart, Figure, LineChart, SequencePlot, WindowPlot};

/// Maximum number of rows; a transfer has thousands of packets.
const MOST_ROWS: usize = 500;

/// Numbers of a figure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// Headings, one per column.
    pub headings: Vec<String>,
    /// Rows, with a cell for each column; the first is the row's name.
    pub rows: Vec<Vec<String>>,
    /// Total number of rows, of which the first ones are present.
    pub total: usize,
}

impl Figure {
    /// Returns the numbers of the figure.
    pub fn numbers(&self) -> Numbers {
        let (headings, mut rows) = match self {
            Self::Bars(chart) => of_bars(chart),
            Self::Sequence(plot) => of_packets(plot),
            Self::Window(plot) => of_windows(plot),
            Self::Lines(chart) => of_lines(chart),
        };
        let total = rows.len();
        rows.truncate(MOST_ROWS);
        Numbers { headings, rows, total }
    }
}

/// Returns a measured number with its interval.
fn estimate(value: f64, ci95: Option<f64>) -> String {
    ci95.map_or_else(|| format!("{value:.3}"), |ci| format!("{value:.3} ± {ci:.3}"))
}

fn of_bars(chart: &BarChart) -> (Vec<String>, Vec<Vec<String>>) {
    let has_published: Vec<bool> =
        chart.series.iter().map(|series| series.bars.iter().flatten().any(|bar| bar.published.is_some())).collect();
    let mut headings = vec!["group".to_owned()];
    for (series, published) in chart.series.iter().zip(&has_published) {
        headings.push(if series.name.is_empty() { chart.value_label.clone() } else { series.name.clone() });
        headings.extend(published.then(|| "published".to_owned()));
    }
    let row = |(index, group): (usize, &String)| {
        let mut row = vec![group.clone()];
        for (series, published) in chart.series.iter().zip(&has_published) {
            let bar = series.bars.get(index).copied().flatten();
            row.push(bar.map_or(String::new(), |bar| estimate(bar.value, bar.ci95)));
            let there = bar.and_then(|bar| bar.published).map_or(String::new(), number);
            row.extend(published.then_some(there));
        }
        row
    };
    (headings, chart.groups.iter().enumerate().map(row).collect())
}

/// Returns rows of points over time, in order of time.
fn over_time<'a>(
    y_label: &str,
    series: impl Iterator<Item = (String, &'a [(f64, f64)])>,
) -> (Vec<String>, Vec<Vec<String>>) {
    let mut points: Vec<(String, (f64, f64))> =
        series.flat_map(|(name, points)| points.iter().map(move |point| (name.clone(), *point))).collect();
    points.sort_by(|one, other| one.1.0.total_cmp(&other.1.0));
    let rows = points.into_iter().map(|(name, (x, y))| vec![name, format!("{x:.6}"), format!("{y:.3}")]);
    (["series", "time (s)", y_label].map(str::to_owned).to_vec(), rows.collect())
}

fn of_packets(plot: &SequencePlot) -> (Vec<String>, Vec<Vec<String>>) {
    let series = plot.series.iter().flat_map(|series| {
        let named = |what| super::sequence::named(&series.name, what);
        [(named("sent"), &*series.sent), (named("retransmitted"), &*series.retransmitted)]
    });
    over_time(&plot.y_label, series)
}

fn of_windows(plot: &WindowPlot) -> (Vec<String>, Vec<Vec<String>>) {
    over_time(&plot.y_label, plot.series.iter().map(|series| (series.name.clone(), &*series.points)))
}

fn of_lines(chart: &LineChart) -> (Vec<String>, Vec<Vec<String>>) {
    let points = || chart.series.iter().flat_map(|series| series.points.iter().map(move |point| (series, point)));
    let has_published = points().any(|(_, point)| point.published.is_some());
    let mut headings = vec!["series".to_owned(), chart.x_label.clone(), chart.y_label.clone()];
    headings.extend(has_published.then(|| "published".to_owned()));
    let rows = points().map(|(series, point)| {
        let mut row = vec![series.name.clone(), number(point.x), estimate(point.y, point.ci95)];
        let there = point.published.map_or(String::new(), |published| format!("{published:.3}"));
        row.extend(has_published.then_some(there));
        row
    });
    (headings, rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Bar, BarSeries, SequenceSeries};

    #[test]
    fn bars_have_a_column_for_published_numbers_where_there_are_any() {
        let bar = |value, ci95, published| Some(Bar { value, ci95, published });
        let chart = BarChart {
            title: "t".to_owned(),
            value_label: "throughput (Mbps)".to_owned(),
            groups: vec!["E2E".to_owned(), "LL".to_owned()],
            series: vec![
                BarSeries { name: "LAN".to_owned(), bars: vec![bar(0.5, Some(0.01), Some(0.52)), None] },
                BarSeries { name: String::new(), bars: vec![bar(1.0, None, None), bar(2.0, None, None)] },
            ],
        };
        let numbers = Figure::Bars(chart).numbers();
        assert_eq!(numbers.headings, ["group", "LAN", "published", "throughput (Mbps)"]);
        assert_eq!(numbers.rows, [vec!["E2E", "0.500 ± 0.010", "0.52", "1.000"], vec!["LL", "", "", "2.000"]]);
    }

    #[test]
    fn packets_are_in_order_of_time_and_limited() {
        let sent: Vec<_> = (0..600).map(|n| (f64::from(n), f64::from(n))).collect();
        let series = SequenceSeries { name: "E2E".to_owned(), sent, retransmitted: vec![(0.5, 0.25)] };
        let plot = SequencePlot { title: String::new(), y_label: "KB".to_owned(), series: vec![series] };
        let numbers = Figure::Sequence(plot).numbers();
        assert_eq!((numbers.rows.len(), numbers.total), (500, 601));
        assert_eq!(numbers.rows[1], ["E2E, retransmitted", "0.500000", "0.250"]);
    }
}
