//! Rows and traces by column, in the memory layout of Apache Arrow, which analysis tools take without copying.
#![expect(clippy::disallowed_types, reason = "only looked up, so its order does not matter")]

use std::collections::HashMap;

use lasthop_sim::trace::Trace;

use crate::error::ReportError;
use crate::rows::{Kind, Rows, Value};
use crate::trace_csv;

/// Named column.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Number of values, missing ones included.
    pub len: usize,
    /// Validity bitmap, lowest bit of each byte first: 1 for a present value. `None` if all values are present.
    pub validity: Option<Vec<u8>>,
    /// Values. Missing ones have an arbitrary value in their place.
    pub values: Values,
}

/// Values of a column.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// Floating-point numbers.
    Float(Vec<f64>),
    /// Unsigned integers.
    Count(Vec<u64>),
    /// Unsigned 32-bit integers.
    Word(Vec<u32>),
    /// Texts.
    Text(Texts),
    /// Repeated texts: for each value its index in a list of texts.
    Repeated(Vec<i32>, Texts),
}

/// Concatenated texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Texts {
    /// Offset of each text, and the end of the last one.
    pub offsets: Vec<i32>,
    /// All texts, in UTF-8.
    pub bytes: Vec<u8>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }
}

impl Texts {
    fn push(&mut self, text: &str) -> Result<(), ReportError> {
        self.bytes.extend_from_slice(text.as_bytes());
        self.offsets.push(i32::try_from(self.bytes.len()).map_err(|_| ReportError::ColumnTooLong)?);
        Ok(())
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// Builder of a column's validity bitmap.
#[derive(Default)]
struct Validity {
    bits: Vec<u8>,
    len: usize,
    missing: usize,
}

impl Validity {
    fn push(&mut self, there: Option<()>) {
        if self.len.is_multiple_of(8) {
            self.bits.push(0);
        }
        match (there, self.bits.last_mut()) {
            (Some(()), Some(byte)) => *byte |= 1 << (self.len % 8),
            _ => self.missing += 1,
        }
        self.len += 1;
    }

    fn column(self, name: String, values: Values) -> Column {
        let validity = (self.missing > 0).then_some(self.bits);
        Column { name, len: self.len, validity, values }
    }
}

/// Collects numbers; `None` stands for a missing one.
fn numbers<T: Default>(values: impl Iterator<Item = Option<T>>) -> (Validity, Vec<T>) {
    let mut validity = Validity::default();
    let of = |value: Option<T>| {
        validity.push(value.as_ref().map(|_| ()));
        value.unwrap_or_default()
    };
    let values = values.map(of).collect();
    (validity, values)
}

impl Column {
    /// Creates a column of floating-point numbers.
    pub fn floats(name: String, values: impl Iterator<Item = Option<f64>>) -> Self {
        let (validity, values) = numbers(values);
        validity.column(name, Values::Float(values))
    }

    /// Creates a column of unsigned integers.
    pub fn counts(name: String, values: impl Iterator<Item = Option<u64>>) -> Self {
        let (validity, values) = numbers(values);
        validity.column(name, Values::Count(values))
    }

    /// Creates a column of unsigned 32-bit integers.
    pub fn words(name: String, values: impl Iterator<Item = Option<u32>>) -> Self {
        let (validity, values) = numbers(values);
        validity.column(name, Values::Word(values))
    }

    /// Creates a column of texts.
    ///
    /// # Errors
    ///
    /// Returns an error if the texts exceed 2 GiB in total.
    pub fn texts<'t>(name: String, values: impl Iterator<Item = Option<&'t str>>) -> Result<Self, ReportError> {
        let (mut validity, mut texts) = (Validity::default(), Texts::default());
        for value in values {
            validity.push(value.map(|_| ()));
            texts.push(value.unwrap_or_default())?;
        }
        Ok(validity.column(name, Values::Text(texts)))
    }

    /// Creates a column of repeated texts. An empty text is a missing value.
    ///
    /// # Errors
    ///
    /// Returns an error if the texts exceed 2 GiB in total.
    pub fn repeated(name: String, values: impl Iterator<Item = String>) -> Result<Self, ReportError> {
        let (mut validity, mut texts) = (Validity::default(), Texts::default());
        let mut places: HashMap<String, i32> = HashMap::new();
        let mut indices = Vec::new();
        for value in values {
            validity.push((!value.is_empty()).then_some(()));
            indices.push(match places.get(&value) {
                Some(place) => *place,
                None if value.is_empty() => 0,
                None => {
                    let place = i32::try_from(texts.len()).map_err(|_| ReportError::ColumnTooLong)?;
                    texts.push(&value)?;
                    places.insert(value, place);
                    place
                }
            });
        }
        Ok(validity.column(name, Values::Repeated(indices, texts)))
    }
}

/// Returns the columns of `rows`.
///
/// # Errors
///
/// Returns an error if the texts of a column exceed 2 GiB in total.
pub fn row_columns(rows: &Rows) -> Result<Vec<Column>, ReportError> {
    let column = |(at, (name, kind)): (usize, &(String, Kind))| {
        let values = rows.rows().iter().map(|row| &row[at]);
        let name = name.clone();
        Ok(match kind {
            Kind::Float => Column::floats(name, values.map(float)),
            Kind::Count => Column::counts(name, values.map(count)),
            Kind::Text => Column::texts(name, values.map(text))?,
        })
    };
    rows.columns().iter().enumerate().map(column).collect()
}

const fn float(value: &Value) -> Option<f64> {
    if let Value::Float(value) = value { Some(*value) } else { None }
}

const fn count(value: &Value) -> Option<u64> {
    if let Value::Count(value) = value { Some(*value) } else { None }
}

fn text(value: &Value) -> Option<&str> {
    if let Value::Text(value) = value { Some(value) } else { None }
}

/// Columns of a trace that contain integers.
const TRACE_WORDS: [&str; 6] = ["seq", "len", "ack", "window", "cwnd", "ssthresh"];

/// Returns the columns of a trace, as in its CSV format: `time` in seconds, numbers as such, everything else as text.
/// Fields that are empty there are missing here.
///
/// # Errors
///
/// Returns an error if a record has a capture point or flow that the trace does not define, or texts exceed 2 GiB.
pub fn trace_columns(trace: &Trace) -> Result<Vec<Column>, ReportError> {
    let mut cells: Vec<Vec<String>> = vec![Vec::new(); trace_csv::COLUMNS.len()];
    for record in &trace.records {
        for (column, cell) in cells.iter_mut().zip(trace_csv::line(trace, record)?) {
            column.push(cell);
        }
    }
    let column = |(name, cells): (&str, Vec<String>)| match name {
        "time" => {
            Ok(Column::floats(name.to_owned(), trace.records.iter().map(|record| Some(record.time.as_secs_f64()))))
        }
        name if TRACE_WORDS.contains(&name) => {
            Ok(Column::words(name.to_owned(), cells.iter().map(|cell| cell.parse().ok())))
        }
        name => Column::repeated(name.to_owned(), cells.into_iter()),
    };
    trace_csv::COLUMNS.into_iter().zip(cells).map(column).collect()
}

#[cfg(test)]
mod tests {
    use lasthop_proto::packet::FlowId;
    use lasthop_proto::time::Instant;
    use lasthop_sim::trace::{CapturePoint, FlowInfo};

    use super::*;

    #[test]
    fn missing_values_are_marked_and_others_are_where_they_were() {
        let mut rows = Rows::new(
            [("key", Kind::Text), ("runs", Kind::Count), ("mean", Kind::Float)]
                .map(|(name, kind)| (name.to_owned(), kind))
                .to_vec(),
        );
        for number in 0..10 {
            let mean = if number == 8 { Value::Missing } else { Value::Float(f64::from(number)) };
            rows.push(vec![Value::Text("é".repeat(number as usize)), Value::Count(number as u64), mean]).unwrap();
        }
        let [key, runs, mean] = row_columns(&rows).unwrap().try_into().unwrap();
        assert_eq!((key.len, key.validity), (10, None));
        let Values::Text(texts) = key.values else { panic!("{:?}", key.values) };
        assert_eq!(texts.offsets, [0, 0, 2, 6, 12, 20, 30, 42, 56, 72, 90]);
        assert_eq!(runs.values, Values::Count((0..10).collect()));
        assert_eq!(mean.validity, Some(vec![0xff, 0b10]));
    }

    #[test]
    fn texts_that_come_again_are_kept_once() {
        let texts = ["b", "a", "", "b", "a"].map(str::to_owned);
        let column = Column::repeated("point".to_owned(), texts.into_iter()).unwrap();
        assert_eq!(column.validity, Some(vec![0b11011]));
        let Values::Repeated(indices, texts) = column.values else { panic!("{:?}", column.values) };
        assert_eq!((indices, texts.bytes.as_slice()), (vec![0, 1, 0, 0, 1], b"ba".as_slice()));
    }

    #[test]
    fn a_trace_has_the_columns_of_its_csv_form() {
        use lasthop_proto::event::Event;
        use lasthop_sim::trace::What;
        let flow = FlowInfo { name: "bulk".to_owned(), addresses: [[0; 4]; 2], ports: [1, 2], iss: [0, 0] };
        let points = vec![CapturePoint { name: "source".to_owned() }];
        let mut trace = Trace { points, flows: vec![flow], records: Vec::new() };
        let window = What::Event(Event::Window { cwnd: 2920, ssthresh: u32::MAX });
        trace.record(Instant::from_nanos(1_500_000_000), 0, FlowId(0), window);
        trace.record(Instant::from_nanos(1_500_000_001), 0, FlowId(0), What::Event(Event::Established));
        let columns = trace_columns(&trace).unwrap();
        assert!(columns.iter().map(|column| column.name.as_str()).eq(trace_csv::COLUMNS));
        assert_eq!(columns[0].values, Values::Float(vec![1.5, 1.500_000_001]));
        assert_eq!(columns[13].values, Values::Word(vec![u32::MAX, 0]));
        assert_eq!(columns[13].validity, Some(vec![0b01]));
        assert_eq!(columns[5].validity, Some(vec![0]));
    }
}
