//! The columns that an export puts before those of a recording: which recording it was, and when by the wall clock.

use super::{Error, Table};
use crate::recording::Meta;
use arrow_array::types::{Int8Type, UInt64Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, PrimitiveArray, RecordBatch, StringArray, TimestampNanosecondArray,
    cast::AsArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// Names of time zones would take a table of them all.
const UTC: &str = "+00:00";

/// Adds the columns to the batches of one recording.
pub(super) struct Stamp {
    recording: StringArray,
    /// `CLOCK_MONOTONIC` to `CLOCK_REALTIME`, ns, as it was when the recording began.
    offset: i64,
}

impl Stamp {
    pub(super) fn new(meta: &Meta, recording: &str) -> Self {
        Self {
            recording: StringArray::from(vec![recording.to_owned()]),
            offset: meta.start.realtime.wrapping_sub(meta.start.monotonic).cast_signed(),
        }
    }

    /// The columns of a table as they are exported.
    pub(super) fn schema(&self, table: Table) -> SchemaRef {
        match table {
            Table::Rows(table) => stamped(&table.schema()),
            Table::About(about) => stamped(&about.batch(&Meta::default()).schema()),
        }
    }

    /// A batch with the columns before its own.
    pub(super) fn stamp(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let keys = Int8Array::from(vec![0; batch.num_rows()]);
        let recording = DictionaryArray::<Int8Type>::new(keys, Arc::new(self.recording.clone()));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(recording)];
        if let Some(time) = batch.column_by_name("time") {
            columns.push(Arc::new(self.wall_clock(time.as_primitive::<UInt64Type>())));
        }
        columns.extend(batch.columns().iter().cloned());
        RecordBatch::try_new(stamped(&batch.schema()), columns)
            .map_err(|error| Error::Encode(error.to_string()))
    }

    fn wall_clock(&self, time: &PrimitiveArray<UInt64Type>) -> TimestampNanosecondArray {
        let at = |time: u64| time.cast_signed().wrapping_add(self.offset);
        TimestampNanosecondArray::from_iter_values(time.values().iter().map(|time| at(*time)))
            .with_timezone(UTC)
    }
}

fn stamped(schema: &Schema) -> SchemaRef {
    let text = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let mut fields = vec![Arc::new(Field::new("recording", text, false))];
    if schema.field_with_name("time").is_ok() {
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some(UTC.into()));
        fields.push(Arc::new(Field::new("at", time, false)));
    }
    fields.extend(schema.fields().iter().cloned());
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}
