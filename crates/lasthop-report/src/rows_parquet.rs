//! A sweep's rows as Parquet.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::error::ReportError;
use crate::rows::{Kind, Rows, Value};

/// Number of rows in a row group, by which readers skip and parallelise.
const ROW_GROUP: usize = 1 << 16;

/// Writes `rows` as Parquet: text as UTF-8 strings, counts as unsigned 64-bit integers, all columns optional,
/// uncompressed.
///
/// # Errors
///
/// Returns an error if `out` cannot be written, or Parquet does not permit a column's name.
pub fn write_rows_parquet(rows: &Rows, out: impl Write + Send) -> Result<(), ReportError> {
    let properties = WriterProperties::builder().set_created_by("lasthop".to_owned()).build();
    let mut writer = SerializedFileWriter::new(out, schema(rows)?, Arc::new(properties))?;
    for group in rows.rows().chunks(ROW_GROUP) {
        let mut group_writer = writer.next_row_group()?;
        for (column, (_, kind)) in rows.columns().iter().enumerate() {
            let values = group.iter().map(|row| &row[column]);
            match kind {
                Kind::Text => write_column::<ByteArrayType, _>(&mut group_writer, values.map(text))?,
                Kind::Float => write_column::<DoubleType, _>(&mut group_writer, values.map(float))?,
                Kind::Count => write_column::<Int64Type, _>(&mut group_writer, values.map(count))?,
            }
        }
        group_writer.close()?;
    }
    writer.close()?;
    Ok(())
}

fn schema(rows: &Rows) -> Result<TypePtr, ReportError> {
    let mut fields = Vec::new();
    for (name, kind) in rows.columns() {
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Float => (Physical::DOUBLE, None),
            Kind::Count => (Physical::INT64, Some(LogicalType::integer(64, false))),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()?;
        fields.push(Arc::new(field));
    }
    Ok(Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?))
}

fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ReportError> {
    // Parquet stores the values that are present, and for each row a level that says whether there is one.
    let mut present = Vec::new();
    let levels: Vec<i16> = values
        .map(|value| {
            let level = i16::from(value.is_some());
            present.extend(value);
            level
        })
        .collect();
    let mut column = group.next_column()?.expect("as many columns as the schema has");
    column.typed::<T>().write_batch(&present, Some(&levels), None)?;
    column.close()?;
    Ok(())
}

fn text(value: &Value) -> Option<ByteArray> {
    match value {
        Value::Text(text) => Some(text.as_str().into()),
        _ => None,
    }
}

const fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        _ => None,
    }
}

const fn count(value: &Value) -> Option<i64> {
    match value {
        // Parquet keeps unsigned integers in signed ones with the same bits.
        Value::Count(value) => Some(value.cast_signed()),
        _ => None,
    }
}
