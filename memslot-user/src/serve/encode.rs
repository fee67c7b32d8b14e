//! Families to bytes: Prometheus' text format, OpenMetrics, and Prometheus' protobuf, which alone has native histograms.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>,
//! <https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto>

use super::family::{Family, Histogram, Kind, Metric, Value};
use super::native;
use prost::Message;
use std::fmt::Write as _;

/// A format of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text, version 0.0.4: what a browser or curl gets.
    Text,
    /// `OpenMetrics` 1.0
    OpenMetrics,
    /// Length-delimited `io.prometheus.client.MetricFamily`
    Protobuf,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Text, Self::OpenMetrics, Self::Protobuf];

    /// What the server calls it.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The richest format that a client takes, by its `Accept`.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        let named = |name: &str| {
            accept.split(',').map(str::trim).any(|range| {
                let mut parts = range.split(';').map(str::trim);
                parts.next() == Some(name) && !parts.any(|part| part == "q=0" || part == "q=0.0")
            })
        };
        if named("application/vnd.google.protobuf") && accept.contains("encoding=delimited") {
            Self::Protobuf
        } else if named("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }
}

pub(super) fn encode(families: &[Family], format: Format) -> Vec<u8> {
    match format {
        Format::Text => text(families, false),
        Format::OpenMetrics => text(families, true),
        Format::Protobuf => {
            families.iter().flat_map(|family| message(family).encode_length_delimited_to_vec()).collect()
        }
    }
}

/// The name of a family's series.
fn series(family: &Family) -> String {
    match family.kind {
        Kind::Counter => format!("{}_total", family.name),
        Kind::Info => format!("{}_info", family.name),
        Kind::Gauge | Kind::Histogram => family.name.to_owned(),
    }
}

fn text(families: &[Family], open_metrics: bool) -> Vec<u8> {
    let mut out = String::new();
    for family in families {
        let series = series(family);
        let name = if open_metrics { family.name } else { &series };
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Info if open_metrics => "info",
            Kind::Gauge | Kind::Info => "gauge",
            Kind::Histogram => "histogram",
        };
        // The older format knows no escaped quotes here.
        let help = if open_metrics { escaped(family.help) } else { family.help.replace('\\', "\\\\") };
        let _ = writeln!(out, "# HELP {name} {help}");
        let _ = writeln!(out, "# TYPE {name} {kind}");
        if let Some(unit) = family.unit.filter(|_| open_metrics) {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        for metric in &family.metrics {
            match &metric.value {
                Value::Number(value) => line(&mut out, &series, metric, None, *value),
                Value::Histogram(histogram) => buckets(&mut out, family.name, metric, histogram),
            }
        }
    }
    if open_metrics {
        out.push_str("# EOF\n");
    }
    out.into_bytes()
}

fn buckets(out: &mut String, name: &str, metric: &Metric, histogram: &Histogram) {
    let bucket = format!("{name}_bucket");
    for (bound, count) in &histogram.classic {
        #[expect(clippy::cast_precision_loss, reason = "as Prometheus keeps it")]
        line(out, &bucket, metric, Some(&canonical(*bound)), *count as f64);
    }
    line(out, &format!("{name}_sum"), metric, None, histogram.sum);
    #[expect(clippy::cast_precision_loss, reason = "as Prometheus keeps it")]
    line(out, &format!("{name}_count"), metric, None, histogram.count as f64);
}

fn line(out: &mut String, name: &str, metric: &Metric, bound: Option<&str>, value: f64) {
    let labels = metric.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let labels: Vec<String> = labels.chain(bound.map(|bound| format!("le=\"{bound}\""))).collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(out, "{name}{labels} {value}");
}

/// A bound as OpenMetrics wants it, so that the same bucket is always the same series: a decimal point or an exponent.
fn canonical(bound: f64) -> String {
    if bound.is_infinite() {
        return "+Inf".to_owned();
    }
    if bound != 0.0 && bound < 1e-4 {
        let text = format!("{bound:e}");
        // As Go and Python write it: two digits of exponent.
        return match text.split_once("e-") {
            Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
            None => text,
        };
    }
    format!("{bound:?}")
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The messages of `metrics.proto`, as far as they are used.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct LabelPair {
        #[prost(string, optional, tag = "1")]
        pub(super) name: Option<String>,
        #[prost(string, optional, tag = "2")]
        pub(super) value: Option<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Number {
        #[prost(double, optional, tag = "1")]
        pub(super) value: Option<f64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Bucket {
        #[prost(uint64, optional, tag = "1")]
        pub(super) cumulative_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub(super) upper_bound: Option<f64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct BucketSpan {
        #[prost(sint32, optional, tag = "1")]
        pub(super) offset: Option<i32>,
        #[prost(uint32, optional, tag = "2")]
        pub(super) length: Option<u32>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Histogram {
        #[prost(uint64, optional, tag = "1")]
        pub(super) sample_count: Option<u64>,
        #[prost(double, optional, tag = "2")]
        pub(super) sample_sum: Option<f64>,
        #[prost(message, repeated, tag = "3")]
        pub(super) bucket: Vec<Bucket>,
        #[prost(sint32, optional, tag = "5")]
        pub(super) schema: Option<i32>,
        #[prost(double, optional, tag = "6")]
        pub(super) zero_threshold: Option<f64>,
        #[prost(uint64, optional, tag = "7")]
        pub(super) zero_count: Option<u64>,
        #[prost(message, repeated, tag = "12")]
        pub(super) positive_span: Vec<BucketSpan>,
        #[prost(sint64, repeated, packed = "false", tag = "13")]
        pub(super) positive_delta: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Metric {
        #[prost(message, repeated, tag = "1")]
        pub(super) label: Vec<LabelPair>,
        #[prost(message, optional, tag = "2")]
        pub(super) gauge: Option<Number>,
        #[prost(message, optional, tag = "3")]
        pub(super) counter: Option<Number>,
        #[prost(message, optional, tag = "7")]
        pub(super) histogram: Option<Histogram>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct MetricFamily {
        #[prost(string, optional, tag = "1")]
        pub(super) name: Option<String>,
        #[prost(string, optional, tag = "2")]
        pub(super) help: Option<String>,
        #[prost(int32, optional, tag = "3")]
        pub(super) kind: Option<i32>,
        #[prost(message, repeated, tag = "4")]
        pub(super) metric: Vec<Metric>,
    }

    pub(super) const COUNTER: i32 = 0;
    pub(super) const GAUGE: i32 = 1;
    pub(super) const HISTOGRAM: i32 = 4;
}

/// Below it a value counts as 0: nothing that is counted lies between.
const ZERO_THRESHOLD: f64 = 1e-12;

fn message(family: &Family) -> proto::MetricFamily {
    let kind = match family.kind {
        Kind::Counter => proto::COUNTER,
        Kind::Gauge | Kind::Info => proto::GAUGE,
        Kind::Histogram => proto::HISTOGRAM,
    };
    proto::MetricFamily {
        name: Some(series(family)),
        help: Some(family.help.to_owned()),
        kind: Some(kind),
        metric: family.metrics.iter().map(|metric| metric_message(family.kind, metric)).collect(),
    }
}

fn metric_message(kind: Kind, metric: &Metric) -> proto::Metric {
    let label = |(name, value): &(&str, String)| proto::LabelPair {
        name: Some((*name).to_owned()),
        value: Some(value.clone()),
    };
    let mut message =
        proto::Metric { label: metric.labels.iter().map(label).collect(), ..proto::Metric::default() };
    match &metric.value {
        Value::Number(value) if kind == Kind::Counter => {
            message.counter = Some(proto::Number { value: Some(*value) })
        }
        Value::Number(value) => message.gauge = Some(proto::Number { value: Some(*value) }),
        Value::Histogram(histogram) => message.histogram = Some(histogram_message(histogram)),
    }
    message
}

fn histogram_message(histogram: &Histogram) -> proto::Histogram {
    let (spans, deltas) = native::spans(&histogram.native);
    proto::Histogram {
        sample_count: Some(histogram.count),
        sample_sum: Some(histogram.sum),
        bucket: histogram
            .classic
            .iter()
            .map(|(bound, count)| proto::Bucket { cumulative_count: Some(*count), upper_bound: Some(*bound) })
            .collect(),
        schema: Some(histogram.native.schema),
        zero_threshold: Some(ZERO_THRESHOLD),
        zero_count: Some(histogram.native.zeros),
        positive_span: spans
            .into_iter()
            .map(|(offset, length)| proto::BucketSpan { offset: Some(offset), length: Some(length) })
            .collect(),
        positive_delta: deltas,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_richest_that_is_asked_for() {
        let prometheus = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                          application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::Protobuf);
        assert_eq!(
            Format::accepted("application/openmetrics-text; version=1.0.0,text/plain;q=0.5"),
            Format::OpenMetrics
        );
        for text in [
            "",
            "*/*",
            "text/html",
            "application/vnd.google.protobuf;encoding=text",
            "application/openmetrics-text;q=0",
        ] {
            assert_eq!(Format::accepted(text), Format::Text, "{text}");
        }
    }

    #[test]
    fn bounds_are_written_as_other_libraries_write_them() {
        let bounds = [2.56e-7, 1.024e-6, 0.000_131_072, 0.0, 1.0, 1.073_741_824, f64::INFINITY];
        let written = ["2.56e-07", "1.024e-06", "0.000131072", "0.0", "1.0", "1.073741824", "+Inf"];
        assert_eq!(bounds.map(canonical), written);
    }
}
