//! Parquet files: the same columns as in CSV, typed, compressed, and with all that is needed to make them again in the
//! file's metadata. A file appears whole, in one step, or not at all.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use serde_json::{Map, Value};

use super::frame::{Column, Data, Frame};
use super::provenance::Provenance;
use super::whole;

/// Whether a file's name asks for Parquet.
#[must_use]
pub fn is_meant(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"))
}

/// Writes frames of equal columns, each as one row group. A file of that name is replaced in the end, in one step.
///
/// # Errors
/// When the file cannot be written; what stood there before stays.
pub fn write(path: &Path, frames: impl IntoIterator<Item = Frame>, of: &Provenance) -> io::Result<()> {
    whole::write(path, |file| write_to(file, frames, of))
}

fn write_to(file: &mut File, frames: impl IntoIterator<Item = Frame>, of: &Provenance) -> io::Result<()> {
    let mut frames = frames.into_iter();
    let first = frames.next().unwrap_or_default();
    let schema = schema(&first)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(format!("ackgate {}", of.build))
        .set_key_value_metadata(Some(metadata(&first, of)))
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    for frame in std::iter::once(first).chain(frames) {
        let mut group = writer.next_row_group()?;
        for column in &frame.columns {
            add(&mut group, &column.data)?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

/// The provenance, and the units of the columns that have one.
fn metadata(frame: &Frame, of: &Provenance) -> Vec<KeyValue> {
    let units = frame.columns.iter().filter(|column| !column.unit.is_empty());
    let units: Map<String, Value> = units.map(|column| (column.name.clone(), column.unit.into())).collect();
    let mut pairs = of.pairs();
    pairs.push(("ackgate.units".into(), Value::Object(units).to_string()));
    pairs.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect()
}

fn schema(frame: &Frame) -> Result<TypePtr, ParquetError> {
    let fields = frame.columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("rows").with_fields(fields).build().map(Arc::new)
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let unsigned = |bit_width| Some(LogicalType::integer(bit_width, false));
    let (physical, logical, repetition) = match column.data {
        Data::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        Data::Float(_) => (Physical::DOUBLE, None, Repetition::REQUIRED),
        Data::Unsigned(_) => (Physical::INT64, unsigned(64), Repetition::REQUIRED),
        Data::Number(_) => (Physical::INT32, unsigned(32), Repetition::OPTIONAL),
        Data::Truth(_) => (Physical::BOOLEAN, None, Repetition::REQUIRED),
    };
    Type::primitive_type_builder(&column.name, physical).with_repetition(repetition).with_logical_type(logical).build()
}

fn add(group: &mut SerializedRowGroupWriter<'_, &mut File>, data: &Data) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("a frame has more columns than the first one".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    match data {
        Data::Text(values) => {
            let values: Vec<ByteArray> = values.iter().map(|text| ByteArray::from(text.as_str())).collect();
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
        Data::Float(values) => {
            column.typed::<DoubleType>().write_batch(values, None, None)?;
        }
        Data::Unsigned(values) => {
            let values: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
            column.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Data::Number(values) => {
            let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
            let values: Vec<i32> = values.iter().flatten().map(|value| value.cast_signed()).collect();
            column.typed::<Int32Type>().write_batch(&values, Some(&levels), None)?;
        }
        Data::Truth(values) => {
            column.typed::<BoolType>().write_batch(values, None, None)?;
        }
    }
    column.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use parquet::file::reader::{FileReader, SerializedFileReader};

    fn frame(values: Vec<f64>) -> Frame {
        let mut frame = Frame::default();
        let count = values.len();
        frame.add("scheme", Data::Text(vec!["pac".into(); count]));
        frame.add("seed", Data::Unsigned(vec![u64::MAX; count]));
        frame.add("goodput_mbps", Data::Float(values));
        frame.add("round", Data::Number((0..count as u32).map(|i| (i > 0).then_some(i)).collect()));
        frame.add("complete", Data::Truth(vec![true; count]));
        frame
    }

    fn provenance() -> Provenance {
        Provenance { build: "1.2.3".into(), scenario: "senders = 3\n".into(), ..Provenance::default() }
    }

    #[test]
    fn values_types_units_and_provenance_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        write(&path, [frame(vec![1.5, 2.5]), frame(vec![4.0])], &provenance()).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(
            rows[1],
            format!(r#"{{scheme: "pac", seed: {}, goodput_mbps: 2.5, round: 1, complete: true}}"#, u64::MAX)
        );
        assert!(rows[0].contains("round: null"), "{}", rows[0]);
        let file = reader.metadata().file_metadata();
        assert_eq!(file.created_by(), Some("ackgate 1.2.3"));
        let pairs = file.key_value_metadata().unwrap();
        let find = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()).unwrap();
        assert_eq!(find("ackgate.scenario"), "senders = 3\n");
        assert_eq!(find("ackgate.units"), r#"{"seed":"1","goodput_mbps":"Mb/s","round":"1"}"#);
    }

    #[test]
    fn a_file_is_whole_or_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        write(&path, [frame(vec![1.0])], &provenance()).unwrap();
        let before = fs::read(&path).unwrap();
        // The writer fails in the middle: the second frame has a column too many.
        let mut odd = frame(vec![2.0]);
        odd.add("more", Data::Truth(vec![true]));
        assert!(write(&path, [frame(vec![1.0]), odd], &provenance()).is_err());
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing unfinished is left");
    }
}
