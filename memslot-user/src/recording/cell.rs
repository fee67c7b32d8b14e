//! One value of a column: how Rust types become Arrow columns and come back.

use arrow_array::builder::{BooleanBuilder, PrimitiveBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int32Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, DictionaryArray, PrimitiveArray, StringArray};
use arrow_schema::{ArrowError, DataType, Field};
use std::sync::Arc;

/// A type that a column can hold.
pub(super) trait Cell: Copy {
    /// Collects the values of a batch.
    type Builder;
    /// The column of a batch that was read.
    type Column: Array + Clone + 'static;

    /// The column's type and whether it may be null.
    fn field(name: &str) -> Field;
    /// An empty builder for `capacity` values.
    fn builder(capacity: usize) -> Self::Builder;
    /// Adds the value.
    fn append(self, builder: &mut Self::Builder);
    /// The column of the values since the last call.
    fn finish(builder: &mut Self::Builder) -> Result<ArrayRef, ArrowError>;
    /// The value in a row below the column's length; `None` where it is outside the type.
    fn get(column: &Self::Column, row: usize) -> Option<Self>;
    /// The value where a table has no such column; `None` where there must be one.
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! primitive {
    ($($native:ty => $arrow:ty),*) => { $(
        impl Cell for $native {
            type Builder = PrimitiveBuilder<$arrow>;
            type Column = PrimitiveArray<$arrow>;

            fn field(name: &str) -> Field {
                Field::new(name, <$arrow>::DATA_TYPE, false)
            }
            fn builder(capacity: usize) -> Self::Builder {
                PrimitiveBuilder::with_capacity(capacity)
            }
            fn append(self, builder: &mut Self::Builder) {
                builder.append_value(self);
            }
            fn finish(builder: &mut Self::Builder) -> Result<ArrayRef, ArrowError> {
                Ok(Arc::new(builder.finish()))
            }
            fn get(column: &Self::Column, row: usize) -> Option<Self> {
                column.is_valid(row).then(|| column.value(row))
            }
        }

        impl Cell for Option<$native> {
            type Builder = PrimitiveBuilder<$arrow>;
            type Column = PrimitiveArray<$arrow>;

            fn field(name: &str) -> Field {
                Field::new(name, <$arrow>::DATA_TYPE, true)
            }
            fn builder(capacity: usize) -> Self::Builder {
                PrimitiveBuilder::with_capacity(capacity)
            }
            fn append(self, builder: &mut Self::Builder) {
                builder.append_option(self);
            }
            fn finish(builder: &mut Self::Builder) -> Result<ArrayRef, ArrowError> {
                Ok(Arc::new(builder.finish()))
            }
            fn get(column: &Self::Column, row: usize) -> Option<Self> {
                Some(column.is_valid(row).then(|| column.value(row)))
            }
            fn absent() -> Option<Self> {
                Some(None)
            }
        }
    )* };
}
primitive!(u8 => UInt8Type, u16 => UInt16Type, u32 => UInt32Type, u64 => UInt64Type, i32 => Int32Type);

impl Cell for bool {
    type Builder = BooleanBuilder;
    type Column = BooleanArray;

    fn field(name: &str) -> Field {
        Field::new(name, DataType::Boolean, false)
    }
    fn builder(capacity: usize) -> Self::Builder {
        BooleanBuilder::with_capacity(capacity)
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_value(self);
    }
    fn finish(builder: &mut Self::Builder) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(builder.finish()))
    }
    fn get(column: &Self::Column, row: usize) -> Option<Self> {
        column.is_valid(row).then(|| column.value(row))
    }
}

impl Cell for Option<bool> {
    type Builder = BooleanBuilder;
    type Column = BooleanArray;

    fn field(name: &str) -> Field {
        Field::new(name, DataType::Boolean, true)
    }
    fn builder(capacity: usize) -> Self::Builder {
        BooleanBuilder::with_capacity(capacity)
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_option(self);
    }
    fn finish(builder: &mut Self::Builder) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(builder.finish()))
    }
    fn get(column: &Self::Column, row: usize) -> Option<Self> {
        Some(column.is_valid(row).then(|| column.value(row)))
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// One of a few names. Stored as a dictionary of texts, so that a reader sees names and not codes;
/// the keys are signed, as pandas takes no unsigned ones.
pub(super) trait Name: Copy + 'static {
    /// Every value, in the order of its key.
    const ALL: &'static [Self];
    /// The text.
    fn text(self) -> &'static str;
    /// Its place in [`Self::ALL`].
    fn key(self) -> i8;
}

/// Wraps a [`Name`], so that it can be a [`Cell`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<N>(pub(super) N);

/// Collects the keys; the texts are made once, so that the stream carries them once.
pub(super) struct NamedBuilder {
    keys: PrimitiveBuilder<Int8Type>,
    texts: ArrayRef,
}

impl<N: Name> Cell for Named<N> {
    type Builder = NamedBuilder;
    type Column = DictionaryArray<Int8Type>;

    fn field(name: &str) -> Field {
        let kind = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        Field::new(name, kind, false)
    }
    fn builder(capacity: usize) -> Self::Builder {
        let texts: StringArray = N::ALL.iter().map(|name| Some(name.text())).collect();
        NamedBuilder { keys: PrimitiveBuilder::with_capacity(capacity), texts: Arc::new(texts) }
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.keys.append_value(self.0.key());
    }
    fn finish(builder: &mut Self::Builder) -> Result<ArrayRef, ArrowError> {
        let keys = builder.keys.finish();
        Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(keys, Arc::clone(&builder.texts))?))
    }
    fn get(column: &Self::Column, row: usize) -> Option<Self> {
        let texts = column.values().as_string_opt::<i32>()?;
        let text = column.key(row).filter(|&key| key < texts.len()).map(|key| texts.value(key))?;
        N::ALL.iter().copied().find(|name| name.text() == text).map(Named)
    }
}
