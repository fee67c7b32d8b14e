//! A recording's tables as Arrow batches, for those who pass them on instead of folding them.

use super::row::{Row, Stored};
use super::{Error, Recording, Rows, Truncated};
use crate::model::{AccountRow, Bucket, Fault, PleExit, RegionChange, SlotChange, Translation};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

/// Rows of a batch.
const ROWS: usize = 65_536;

/// The tables that every recording has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableName {
    /// Calls of `kvm_mmu_page_fault`.
    Faults,
    /// PLE exits.
    PleExits,
    /// Calls of `translate_desc`.
    Translations,
    /// Changes of VMs' slots.
    Slots,
    /// Changes of vhost tables.
    Regions,
    /// Latencies that the kernel counted.
    Histograms,
    /// Calls and losses that the kernel counted.
    Accounts,
}

impl TableName {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Faults,
        Self::PleExits,
        Self::Translations,
        Self::Slots,
        Self::Regions,
        Self::Histograms,
        Self::Accounts,
    ];

    /// The name of its file, without what comes after the dot.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Faults => "faults",
            Self::PleExits => "ple_exits",
            Self::Translations => "translations",
            Self::Slots => "slots",
            Self::Regions => "regions",
            Self::Histograms => "histograms",
            Self::Accounts => "accounts",
        }
    }

    /// Its columns, as the newest version has them.
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        match self {
            Self::Faults => <Fault as Stored>::Row::schema(),
            Self::PleExits => <PleExit as Stored>::Row::schema(),
            Self::Translations => <Translation as Stored>::Row::schema(),
            Self::Slots => <SlotChange as Stored>::Row::schema(),
            Self::Regions => <RegionChange as Stored>::Row::schema(),
            Self::Histograms => <Bucket as Stored>::Row::schema(),
            Self::Accounts => <AccountRow as Stored>::Row::schema(),
        }
    }
}

/// The rows of a table in batches that have the newest version's columns, whatever the recording's version: what
/// that did not have is null. Each row was checked as every reader of this crate checks it.
pub struct Batches(Box<dyn Source>);

impl Batches {
    /// Once the batches are read to their end: whether the table was cut off.
    #[must_use]
    pub fn truncated(&self) -> Option<Truncated> {
        self.0.truncated()
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.batch().transpose()
    }
}

trait Source {
    fn batch(&mut self) -> Result<Option<RecordBatch>, Error>;
    fn truncated(&self) -> Option<Truncated>;
}

impl<T: Stored> Source for Rows<T> {
    fn batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let mut columns = T::Row::columns(0);
        let mut rows = 0;
        for row in self.by_ref().take(ROWS) {
            T::Row::from_model(&row?).append(&mut columns);
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let batch = T::Row::finish(&mut columns);
        let encode = |error: arrow_schema::ArrowError| Error::Encode {
            path: T::Row::FILE.into(),
            reason: error.to_string(),
        };
        batch.map(Some).map_err(encode)
    }

    fn truncated(&self) -> Option<Truncated> {
        Rows::truncated(self)
    }
}

impl Recording {
    /// A table's rows in batches.
    ///
    /// # Errors
    /// The table is missing or cannot be opened.
    pub fn batches(&self, table: TableName) -> Result<Batches, Error> {
        Ok(Batches(match table {
            TableName::Faults => Box::new(self.faults()?),
            TableName::PleExits => Box::new(self.ple_exits()?),
            TableName::Translations => Box::new(self.translations()?),
            TableName::Slots => Box::new(self.slot_changes()?),
            TableName::Regions => Box::new(self.region_changes()?),
            TableName::Histograms => Box::new(self.histograms()?),
            TableName::Accounts => Box::new(self.accounts()?),
        }))
    }
}
