//! A row of a table: the macro that makes schema, writer and reader of one list of columns.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

/// The columns of one table.
pub(super) trait Row: Sized {
    /// What a row stands for.
    type Model: Copy;
    /// Collects the rows of a batch.
    type Columns;
    /// The table's file.
    const FILE: &'static str;
    /// The first version of the format that has the table.
    const SINCE: u32;

    /// Names and types of the columns.
    fn schema() -> SchemaRef;
    /// Columns for `capacity` rows.
    fn columns(capacity: usize) -> Self::Columns;
    /// Adds the row.
    fn append(self, columns: &mut Self::Columns);
    /// A batch of the rows since the last call.
    fn finish(columns: &mut Self::Columns) -> Result<RecordBatch, ArrowError>;
    /// Appends the rows of a batch, which must have this schema, to `out`.
    fn decode(batch: &RecordBatch, out: &mut Vec<Self::Model>) -> Result<(), String>;

    /// The row that stores `model`.
    fn from_model(model: &Self::Model) -> Self;
    /// What the row stands for; the error says which values do not go together.
    fn into_model(self) -> Result<Self::Model, String>;
}

/// A structure of the model that a recording has a table for.
#[expect(private_bounds, reason = "the rows are the recording's own affair; this seals the trait")]
pub trait Stored: Copy + 'static {
    /// Its row.
    #[doc(hidden)]
    type Row: Row<Model = Self>;
}

/// Defines the row of a table: a structure with one field a column.
macro_rules! table {
    (
        $(#[$meta:meta])*
        $row:ident, $columns:ident, $file:literal, $since:literal, $model:ty { $( $field:ident : $kind:ty, )* }
    ) => {
        $(#[$meta])*
        pub struct $row { $( $field: $kind, )* }

        /// The columns of the table, as they fill.
        pub(super) struct $columns { $( $field: <$kind as Cell>::Builder, )* }

        impl Stored for $model {
            type Row = $row;
        }

        impl Row for $row {
            type Model = $model;
            type Columns = $columns;
            const FILE: &'static str = $file;
            const SINCE: u32 = $since;

            fn schema() -> SchemaRef {
                let fields = vec![ $( <$kind as Cell>::field(stringify!($field)), )* ];
                let version = [("memslot.schema".to_owned(), SCHEMA.to_string())];
                Arc::new(Schema::new_with_metadata(fields, version))
            }
            fn columns(capacity: usize) -> $columns {
                $columns { $( $field: <$kind as Cell>::builder(capacity), )* }
            }
            #[inline]
            fn append(self, columns: &mut $columns) {
                $( self.$field.append(&mut columns.$field); )*
            }
            fn finish(columns: &mut $columns) -> Result<RecordBatch, ArrowError> {
                let arrays = vec![ $( <$kind as Cell>::finish(&mut columns.$field)?, )* ];
                RecordBatch::try_new(Self::schema(), arrays)
            }
            fn decode(batch: &RecordBatch, out: &mut Vec<$model>) -> Result<(), String> {
                $( let $field = match batch.column_by_name(stringify!($field)) {
                    // An older version had no such column; the reader has made sure that it may be null.
                    None => None,
                    Some(column) => Some(column
                        .as_any()
                        .downcast_ref::<<$kind as Cell>::Column>()
                        .ok_or(concat!("column ", stringify!($field), " is of another type"))?),
                }; )*
                out.reserve(batch.num_rows());
                for row in 0..batch.num_rows() {
                    let row = $row { $( $field: $field
                        .map_or_else(<$kind as Cell>::absent, |column| <$kind as Cell>::get(column, row))
                        .ok_or(concat!("a value of ", stringify!($field), " that means nothing"))?, )* };
                    out.push(row.into_model()?);
                }
                Ok(())
            }
            fn from_model(model: &$model) -> Self {
                Self::from(model)
            }
            fn into_model(self) -> Result<$model, String> {
                self.try_into()
            }
        }
    };
}
pub(super) use table;
