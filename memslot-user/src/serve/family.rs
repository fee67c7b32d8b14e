//! Metric families, before any format.

/// What a family's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Always 1; its labels say something.
    Info,
    /// Counts values by size.
    Histogram,
}

/// Metrics of one name.
#[derive(Clone, Debug)]
pub(super) struct Family {
    /// Without the suffixes that formats add.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// The unit that the name ends with, if any.
    pub(super) unit: Option<&'static str>,
    pub(super) kind: Kind,
    pub(super) metrics: Vec<Metric>,
}

/// One series.
#[derive(Clone, Debug)]
pub(super) struct Metric {
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Number(f64),
    Histogram(Histogram),
}

/// A histogram in both of Prometheus' forms.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Histogram {
    pub(super) count: u64,
    pub(super) sum: f64,
    /// Upper bound, and values up to it; the last bound is infinite.
    pub(super) classic: Vec<(f64, u64)>,
    pub(super) native: Native,
}

/// The sparse form: bucket `i` holds values in (base^(i−1), base^i] with base = 2^(2^−schema).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Native {
    pub(super) schema: i32,
    /// Values that are 0.
    pub(super) zeros: u64,
    /// Index of a bucket, and its values; ascending.
    pub(super) buckets: Vec<(i32, u64)>,
}
