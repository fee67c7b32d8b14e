//! Exports of the recordings that are kept as fixtures, read back by the libraries that wrote them; the stage
//! `fleet` reads them by others.

use super::*;
use arrow_array::{Array, cast::AsArray, types::UInt64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

const RECORDINGS: [&str; 5] =
    ["ple-over-6.1", "ple-over-6.12", "regions-cross-6.1", "slots-churn-6.12", "small-6.12"];

fn open(name: &str) -> Recording {
    Recording::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

fn latencies(recording: &Recording) -> Vec<u64> {
    recording.faults().unwrap().map(|fault| fault.unwrap().latency).collect()
}

#[test]
fn parquet_holds_every_row_with_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    for name in RECORDINGS {
        let recording = open(name);
        let outcome =
            to_directory(&recording, Format::Parquet, &Table::all(), folder.path(), &|_| {}).unwrap();
        assert_eq!((outcome.written.len(), outcome.truncated.len()), (12, 0));
        let faults = outcome.written.iter().find(|written| written.table == "faults").unwrap();
        let file = File::open(&faults.path).unwrap();
        let mut read = Vec::new();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap() {
            let batch = batch.unwrap();
            read.extend(batch["latency"].as_primitive::<UInt64Type>().values().iter().copied());
            assert!(batch.column_by_name("at").is_some() && batch.column_by_name("visited").is_some());
            // Version 1 did not look.
            let unknown = if recording.meta().schema == 1 { batch.num_rows() } else { 0 };
            assert_eq!(batch["on_cpu"].null_count(), unknown);
        }
        assert_eq!(read, latencies(&recording), "{name}");
        let path = faults.path.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned();
        let kernel = &recording.meta().host.kernel;
        assert!(path.contains(&format!("/kernel={}/", kernel.replace('+', "%2B"))), "{path}");
    }
}

#[test]
fn what_is_exported_belongs_to_its_owner_and_is_replaced_whole() {
    let folder = tempfile::tempdir().unwrap();
    let recording = open("slots-churn-6.12");
    let export = || to_directory(&recording, Format::Csv, &Table::all(), folder.path(), &|_| {}).unwrap();
    let first = export();
    assert_eq!(first, export());
    for written in &first.written {
        assert_eq!(fs::metadata(&written.path).unwrap().permissions().mode() & 0o777, 0o600);
        let siblings = fs::read_dir(written.path.parent().unwrap()).unwrap().count();
        assert_eq!(siblings, 1, "{}", written.path.display());
    }
}

#[test]
fn text_formats_hold_every_row_and_streams_one_heading() {
    let recordings = RECORDINGS.map(open);
    let expected: Vec<u64> = recordings.iter().flat_map(latencies).collect();
    let table = "faults".parse().unwrap();
    let mut csv = Vec::new();
    to_stream(&recordings, Format::Csv, table, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let mut lines = csv.lines();
    let heading: Vec<&str> = lines.next().unwrap().split(',').collect();
    let latency = heading.iter().position(|name| *name == "latency").unwrap();
    assert_eq!(heading[..3], ["recording", "at", "time"]);
    let read: Vec<u64> = lines.map(|line| line.split(',').nth(latency).unwrap().parse().unwrap()).collect();
    assert_eq!(read, expected);
    let mut ndjson = Vec::new();
    to_stream(&recordings, Format::Ndjson, table, &mut ndjson).unwrap();
    let rows: Vec<serde_json::Value> =
        String::from_utf8(ndjson).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let read: Vec<u64> = rows.iter().map(|row| row["latency"].as_u64().unwrap()).collect();
    assert_eq!(read, expected);
    assert!(rows.iter().all(|row| row["at"].as_str().is_some_and(|at| at.starts_with("20"))));
}

#[test]
fn histogram_logs_hold_every_call() {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let folder = tempfile::tempdir().unwrap();
    for name in RECORDINGS {
        let recording = open(name);
        let outcome = to_directory(&recording, Format::Hdr, &[], folder.path(), &|_| {}).unwrap();
        let bytes = fs::read(&outcome.written[0].path).unwrap();
        let mut calls = 0;
        for entry in IntervalLogIterator::new(&bytes) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                let encoded = data_encoding(interval.encoded_histogram());
                let histogram: hdrhistogram::Histogram<u64> =
                    Deserializer::new().deserialize(&mut encoded.as_slice()).unwrap();
                assert!(interval.tag().is_some_and(|tag| tag.as_str().contains('.')));
                calls += histogram.len();
            }
        }
        let events: u64 = recording.meta().probes.values().map(|probe| probe.events).sum();
        assert_eq!(calls, events, "{name}");
    }
}

/// Base 64, which the log's lines are written in.
fn data_encoding(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').map(value).collect();
    for group in digits.chunks(4) {
        let bits = group.iter().fold(0u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - group.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}

#[test]
fn a_full_disk_is_said_to_be_one() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    /// Takes so many bytes, and then nobody reads on.
    struct Gone(usize);
    impl Write for Gone {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = self.0.min(bytes.len());
            self.0 -= taken;
            if taken == 0 { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for format in [Format::Parquet, Format::Csv, Format::Ndjson] {
        let recordings = [open("slots-churn-6.12")];
        let error = to_stream(&recordings, format, "faults".parse().unwrap(), Full).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot write standard output: no storage space; choose another place or make room",
            "{format:?}"
        );
        let error = to_stream(&recordings, format, "faults".parse().unwrap(), Gone(3000)).unwrap_err();
        assert!(error.is_broken_pipe(), "{format:?}: {error}");
    }
}
