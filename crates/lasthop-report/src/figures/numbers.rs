//! Numbers of a figure as a table, for readers who cannot see it or need them.

use super::Figure;

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

/// Headings, and rows with a cell for each.
pub type Table = (Vec<String>, Vec<Vec<String>>);

impl Figure {
    /// Returns the numbers of the figure.
    pub fn numbers(&self) -> Numbers {
        let (headings, mut rows) = self.chart().table();
        let total = rows.len();
        rows.truncate(MOST_ROWS);
        Numbers { headings, rows, total }
    }
}

/// Returns a measured number with its interval.
pub fn estimate(value: f64, ci95: Option<f64>) -> String {
    ci95.map_or_else(|| format!("{value:.3}"), |ci| format!("{value:.3} ± {ci:.3}"))
}

/// Returns rows of points over time, in order of time.
pub fn over_time<'a>(y_label: &str, series: impl Iterator<Item = (String, &'a [(f64, f64)])>) -> Table {
    let mut points: Vec<(String, (f64, f64))> =
        series.flat_map(|(name, points)| points.iter().map(move |point| (name.clone(), *point))).collect();
    points.sort_by(|one, other| one.1.0.total_cmp(&other.1.0));
    let rows = points.into_iter().map(|(name, (x, y))| vec![name, format!("{x:.6}"), format!("{y:.3}")]);
    (["series", "time (s)", y_label].map(str::to_owned).to_vec(), rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Bar, BarChart, BarSeries, SequencePlot, SequenceSeries};

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
