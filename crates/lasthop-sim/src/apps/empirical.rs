//! Measured distributions: those of web traffic, after Mah (INFOCOM 1997), from ns-2's files.

use std::fmt;
use std::sync::LazyLock;

use lasthop_proto::random::Stream;

/// A measured distribution. Draws are not interpolated: only observed values occur.
#[derive(Clone, PartialEq, Debug)]
pub struct Empirical {
    /// Both fields increase; the last probability is 1.
    points: Vec<Point>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    value: u32,
    /// Probability that a draw is at most `value`.
    cumulative: f64,
}

impl Empirical {
    /// Parses ns-2's format: lines of a value, a count (ignored) and the cumulative probability. Values and
    /// probabilities increase, and the last probability is 1.
    ///
    /// # Errors
    /// Returns the number of the first line that breaks these rules.
    pub fn parse(text: &str) -> Result<Self, InvalidCdf> {
        let mut points: Vec<Point> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let point = Point::parse(line).filter(|point| match points.last() {
                Some(last) => point.value > last.value && point.cumulative > last.cumulative,
                None => point.cumulative > 0.0,
            });
            points.push(point.ok_or(InvalidCdf { line: index + 1 })?);
        }
        match points.last() {
            Some(last) if last.cumulative == 1.0 => Ok(Self { points }),
            _ => Err(InvalidCdf { line: points.len() }),
        }
    }

    /// Returns a random value.
    pub fn draw(&self, stream: &mut Stream) -> u32 {
        self.quantile(stream.uniform())
    }

    /// Returns the least value whose cumulative probability is at least `p`; the greatest value if `p` exceeds 1.
    pub fn quantile(&self, p: f64) -> u32 {
        let rank = self.points.partition_point(|point| point.cumulative < p);
        self.points[rank.min(self.points.len() - 1)].value
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        let mut below = 0.0;
        let mut mean = 0.0;
        for point in &self.points {
            mean += f64::from(point.value) * (point.cumulative - below);
            below = point.cumulative;
        }
        mean
    }
}

impl Point {
    fn parse(line: &str) -> Option<Self> {
        let mut columns = line.split_ascii_whitespace();
        let value = columns.next()?.parse().ok()?;
        columns.next()?;
        let cumulative = columns.next()?.parse().ok()?;
        (cumulative <= 1.0 && columns.next().is_none()).then_some(Self { value, cumulative })
    }
}

/// Error of [`Empirical::parse`]: the text is not a cumulative distribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidCdf {
    /// Number of the offending line, from 1; 0 if the text is empty.
    pub line: usize,
}

impl fmt::Display for InvalidCdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected a value, a count and a cumulative probability, rising up to 1", self.line)
    }
}

impl std::error::Error for InvalidCdf {}

/// Returns the distribution of request sizes in bytes: ns-2's `HttpRequestLength.cdf`, mean 337.
pub fn request_bytes() -> &'static Empirical {
    static SHIPPED: LazyLock<Empirical> =
        LazyLock::new(|| shipped(include_str!("../../data/http/HttpRequestLength.cdf")));
    &SHIPPED
}

/// Returns the distribution of reply sizes in bytes, for pages and objects: ns-2's `HttpReplyLength.cdf`, mean 7231.
pub fn reply_bytes() -> &'static Empirical {
    static SHIPPED: LazyLock<Empirical> =
        LazyLock::new(|| shipped(include_str!("../../data/http/HttpReplyLength.cdf")));
    &SHIPPED
}

/// Returns the distribution of the number of objects on a page, at least 1: ns-2's `HttpConnections.cdf`, mean 2.84.
pub fn objects_per_page() -> &'static Empirical {
    static SHIPPED: LazyLock<Empirical> =
        LazyLock::new(|| shipped(include_str!("../../data/http/HttpConnections.cdf")));
    &SHIPPED
}

fn shipped(text: &str) -> Empirical {
    Empirical::parse(text).expect("the files in data/http are valid")
}

#[cfg(test)]
mod tests {
    use lasthop_proto::random::Root;

    use super::{Empirical, InvalidCdf, objects_per_page, reply_bytes, request_bytes};

    #[test]
    fn means_are_the_published_ones() {
        assert!((request_bytes().mean() - 337.345).abs() < 0.001, "{}", request_bytes().mean());
        assert!((reply_bytes().mean() - 7230.97).abs() < 0.01, "{}", reply_bytes().mean());
        assert!((objects_per_page().mean() - 2.838).abs() < 0.001, "{}", objects_per_page().mean());
    }

    #[test]
    fn quantiles_are_those_of_the_measurements() {
        let quantiles =
            |distribution: &Empirical| [0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0].map(|p| distribution.quantile(p));
        assert_eq!(quantiles(request_bytes()), [0, 135, 204, 231, 282, 1057, 1134, 1373]);
        assert_eq!(quantiles(reply_bytes()), [0, 103, 560, 2112, 4797, 12581, 67379, 1_636_039]);
        assert_eq!(quantiles(objects_per_page()), [1, 1, 1, 1, 3, 6, 19, 65]);
    }

    #[test]
    fn draws_have_the_frequencies_of_the_measurements() {
        // Values and counts of 1444 observations: the whole table of the number of objects, except its tail.
        let table = [(1, 739), (2, 302), (3, 108), (4, 53), (5, 72), (6, 36), (7, 24), (8, 22), (9, 16), (10, 17)];
        let mut stream = Root(1).stream("objects");
        let draws: Vec<u32> = (0..100_000).map(|_| objects_per_page().draw(&mut stream)).collect();
        for (value, count) in table {
            let p = f64::from(count) / 1444.0;
            let seen = draws.iter().filter(|&&draw| draw == value).count() as f64 / 1e5;
            // 4 standard deviations.
            assert!((seen - p).abs() < 4.0 * (p * (1.0 - p) / 1e5).sqrt(), "{value}: {seen}, expected {p}");
        }
    }

    #[test]
    fn values_between_observations_never_come_up() {
        let two = Empirical::parse("10 1 0.25\n20 3 1\n").unwrap();
        assert_eq!([0.0, 0.25, 0.250_001, 1.0, 2.0].map(|p| two.quantile(p)), [10, 10, 20, 20, 20]);
        assert_eq!(two.mean(), 17.5);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        let line = |text| Empirical::parse(text).unwrap_err().line;
        assert_eq!(line(""), 0);
        assert_eq!(line("1 1 0.5\n2 1 0.9\n"), 2, "does not reach 1");
        assert_eq!(line("1 1 0.5\n2 1 1.5\n"), 2, "exceeds 1");
        assert_eq!(line("1 1 0.5\n1 1 1\n"), 2, "value does not rise");
        assert_eq!(line("1 1 0.5\n2 1 0.5\n3 1 1\n"), 2, "probability does not rise");
        assert_eq!(line("1 1 NaN\n2 1 1\n"), 1);
        assert_eq!(line("1 1 0\n2 1 1\n"), 1);
        assert_eq!(line("1 1\n"), 1);
        assert_eq!(line("1 1 1 1\n"), 1);
        assert_eq!(line("1 1 1\n\n"), 2);
        let message = InvalidCdf { line: 2 }.to_string();
        assert_eq!(message, "line 2: expected a value, a count and a cumulative probability, rising up to 1");
    }
}
