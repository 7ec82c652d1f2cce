//! A sweep's rows as CSV and Parquet.

use lasthop_report::error::ReportError;
use lasthop_report::rows::{Kind, Rows, Value, append_rows_csv, write_rows_csv};

fn rows() -> Rows {
    let columns = [("scheme", Kind::Text), ("throughput_mbps", Kind::Float), ("timeouts", Kind::Count)];
    let mut rows = Rows::new(columns.map(|(name, kind)| (name.to_owned(), kind)).to_vec());
    for row in [
        vec![Value::Text("LL, odd".to_owned()), Value::Float(1.25), Value::Count(u64::MAX)],
        vec![Value::Text("E2E".to_owned()), Value::Missing, Value::Count(3)],
    ] {
        rows.push(row).expect("it fits the columns");
    }
    rows
}

#[test]
fn csv_quotes_and_leaves_missing_empty() {
    let mut out = Vec::new();
    write_rows_csv(&rows(), &mut out).expect("memory takes everything");
    let lines = "\"LL, odd\",1.25,18446744073709551615\nE2E,,3\n";
    assert_eq!(String::from_utf8_lossy(&out), format!("scheme,throughput_mbps,timeouts\n{lines}"));

    let mut more = Vec::new();
    append_rows_csv(&rows(), &mut more).expect("memory takes everything");
    assert_eq!(String::from_utf8_lossy(&more), lines);
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let mut rows = rows();
    assert!(matches!(rows.push(vec![Value::Missing]), Err(ReportError::Row { row: 2, .. })));
    let swapped = vec![Value::Float(1.0), Value::Float(1.0), Value::Count(1)];
    let error = rows.push(swapped).expect_err("text is no float");
    assert_eq!(error.to_string(), "row 2: column scheme holds Text, not Float(1.0)");
    assert_eq!(rows.rows().len(), 2);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_reads_back() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let mut out = Vec::new();
    lasthop_report::rows_parquet::write_rows_parquet(&rows(), &mut out).expect("memory takes everything");
    let mut again = Vec::new();
    lasthop_report::rows_parquet::write_rows_parquet(&rows(), &mut again).expect("memory takes everything");
    assert_eq!(out, again);

    let reader = SerializedFileReader::new(bytes::Bytes::from(out)).expect("a Parquet file");
    let read: Vec<Vec<Field>> = reader
        .get_row_iter(None)
        .expect("all columns")
        .map(|row| row.expect("readable").get_column_iter().map(|(_, field)| field.clone()).collect())
        .collect();
    assert_eq!(
        read,
        [
            vec![Field::Str("LL, odd".to_owned()), Field::Double(1.25), Field::ULong(u64::MAX)],
            vec![Field::Str("E2E".to_owned()), Field::Null, Field::ULong(3)],
        ]
    );
}
