//! Values of a key as numbers, for tables and plots: `"30 ms"` becomes 30.

use std::collections::BTreeSet;

use crate::document::{Data, infer};
use crate::units::{Kind, Measure};

/// Numbers among the values of a key, or of a key in tables that are its values.
#[derive(Clone, PartialEq, Debug)]
pub struct Numbers {
    /// Place in the value: empty for the value itself, otherwise a dotted path such as `mean_bytes`.
    pub path: String,
    /// Unit, such as `ms`, `Mbps`, `KiB`, `packets` or `percent`; `None` for plain numbers. The first value with a unit
    /// determines it.
    pub unit: Option<&'static str>,
    /// Indicates whether the numbers are whole without a unit.
    pub whole: bool,
    /// Number of each value, in order; `None` for a value without one, such as `"unlimited"`.
    pub values: Vec<Option<f64>>,
}

/// A number in one of the values.
struct Found {
    path: String,
    value: usize,
    number: Number,
}

enum Number {
    Whole(f64),
    Plain(f64),
    Measured(Measure),
}

impl Numbers {
    /// Returns the numbers in `values`, texts as accepted by [`with_overrides`](crate::Scenario::with_overrides).
    /// Numbers of different kinds at one place, as queues in packets and in bytes, are separated. Numbers without a
    /// unit among others with one are bytes or probabilities, as in a scenario.
    pub fn of<T: AsRef<str>>(values: &[T]) -> Vec<Self> {
        let mut found = Vec::new();
        for (at, value) in values.iter().enumerate() {
            collect(&infer(value.as_ref()), "", at, &mut found);
        }
        let mut paths: Vec<&str> = Vec::new();
        for Found { path, .. } in &found {
            if !paths.contains(&path.as_str()) {
                paths.push(path);
            }
        }
        let at = |path| found.iter().filter(move |found| found.path == path);
        paths.into_iter().flat_map(|path| at_one_path(path, &at(path).collect::<Vec<_>>(), values.len())).collect()
    }
}

fn collect(data: &Data, path: &str, value: usize, found: &mut Vec<Found>) {
    // Whole numbers up to this are exact in a `f64`.
    const EXACT: i128 = 1 << 53;
    let number = match data {
        Data::Integer(number) if (-EXACT..=EXACT).contains(number) => Number::Whole(*number as f64),
        Data::Float(number) => Number::Plain(*number),
        Data::String(text) => match Measure::read(text) {
            Some(measure) => Number::Measured(measure),
            None => return,
        },
        Data::Table(table) => {
            for (key, item) in table.iter() {
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                collect(&item.data, &path, value, found);
            }
            return;
        }
        Data::Integer(_) | Data::Boolean(_) | Data::Other(_) | Data::Array(_) => return,
    };
    found.push(Found { path: path.to_owned(), value, number });
}

fn at_one_path(path: &str, found: &[&Found], values: usize) -> Vec<Numbers> {
    let measures = || {
        found.iter().filter_map(|found| match &found.number {
            Number::Measured(measure) => Some(measure),
            Number::Whole(_) | Number::Plain(_) => None,
        })
    };
    // Meaning of numbers without a unit among others with one.
    let bare = [Kind::Bytes, Kind::Share].into_iter().find(|kind| measures().any(|measure| measure.kind == *kind));
    let kind = |found: &Found| match &found.number {
        Number::Measured(measure) => Some(measure.kind),
        Number::Whole(_) | Number::Plain(_) => bare,
    };
    // In the order of their first occurrence.
    let mut seen = BTreeSet::new();
    let kinds = found.iter().map(|found| kind(found)).filter(|kind| seen.insert(*kind)).collect::<Vec<_>>();
    let of = |wanted: Option<Kind>| {
        let unit = measures().find(|measure| Some(measure.kind) == wanted);
        let mut numbers = Numbers {
            path: path.to_owned(),
            unit: unit.map(|measure| measure.unit),
            whole: found.iter().all(|found| kind(found) != wanted || matches!(found.number, Number::Whole(_))),
            values: vec![None; values],
        };
        for found in found.iter().filter(|found| kind(found) == wanted) {
            numbers.values[found.value] = match (&found.number, unit) {
                (Number::Measured(measure), Some(unit)) => Some(measure.in_unit_of(unit)),
                (Number::Whole(number) | Number::Plain(number), Some(unit)) => Some(unit.of_base(*number)),
                (Number::Whole(number) | Number::Plain(number), None) => Some(*number),
                (Number::Measured(_), None) => None,
            };
        }
        numbers
    };
    kinds.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = (String, Option<&'static str>, bool, Vec<Option<f64>>);

    fn numbers(values: &[&str]) -> Vec<Found> {
        let of = |numbers: Numbers| (numbers.path, numbers.unit, numbers.whole, numbers.values);
        Numbers::of(values).into_iter().map(of).collect()
    }

    fn one(unit: Option<&'static str>, values: &[f64]) -> Vec<Found> {
        vec![(String::new(), unit, false, values.iter().copied().map(Some).collect())]
    }

    #[test]
    fn units_are_those_of_the_first_value() {
        assert_eq!(numbers(&["0.1 %", "0.3 %", "2.25%"]), one(Some("percent"), &[0.1, 0.3, 2.25]));
        assert_eq!(numbers(&["500 us", "1.5 ms", "2 s"]), one(Some("us"), &[500.0, 1500.0, 2e6]));
        assert_eq!(numbers(&["1 Mbit/s", "512 Kbps"]), one(Some("Mbps"), &[1.0, 0.512]));
        assert_eq!(numbers(&["32 KB", "1 MiB", "512 B"]), one(Some("KiB"), &[32.0, 1024.0, 0.5]));
        assert_eq!(numbers(&["1 packet", "50 packets"]), one(Some("packets"), &[1.0, 50.0]));
        assert_eq!(numbers(&["30 \u{b5}s"]), one(Some("us"), &[30.0]));
    }

    #[test]
    fn numbers_without_a_unit_are_what_they_are_in_a_scenario() {
        assert_eq!(numbers(&["700", "1_000"]), [(String::new(), None, true, vec![Some(700.0), Some(1000.0)])]);
        assert_eq!(numbers(&["0.01", "1"]), one(None, &[0.01, 1.0]));
        assert_eq!(numbers(&["0.01", "2 %"]), one(Some("percent"), &[1.0, 2.0]));
        assert_eq!(numbers(&["2048", "64 KiB"]), one(Some("KiB"), &[2.0, 64.0]));
    }

    #[test]
    fn what_is_no_number_has_none() {
        assert_eq!(numbers(&["reno", "true", "1 %%", "-3 ms", "[1, 2]"]), []);
        let queues = numbers(&["10 packets", "unlimited", "64 KiB"]);
        let expected = [
            (String::new(), Some("packets"), false, vec![Some(10.0), None, None]),
            (String::new(), Some("KiB"), false, vec![None, None, Some(64.0)]),
        ];
        assert_eq!(queues, expected);
    }

    #[test]
    fn numbers_in_tables_have_the_path_to_them() {
        let models = [
            "{ model = \"exponential\", mean_bytes = \"16 KiB\" }",
            "{ model = \"exponential\", mean_bytes = 65536 }",
            "{ model = \"none\" }",
        ];
        let expected = ("mean_bytes".to_owned(), Some("KiB"), false, vec![Some(16.0), Some(64.0), None]);
        assert_eq!(numbers(&models), [expected]);
    }
}
