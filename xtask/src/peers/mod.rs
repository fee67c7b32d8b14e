//! perf and bpftrace in the lab, and what their output says.

use crate::{
    lab::{KernelChoice, Request},
    setup,
};
use anyhow::Result;
use std::path::PathBuf;

/// Defines the shell function `measure NAME WORKLOAD [TOOL…]`.
const MEASURE: &str = include_str!("measure.sh");

/// A guest that runs a shell script, with perf and bpftrace in its `$PATH` and [`MEASURE`] in front.
///
/// # Errors
/// When they are not there and cannot be fetched.
pub(crate) fn request(kernel: KernelChoice, memslot: PathBuf, out: PathBuf, script: &str) -> Result<Request> {
    setup::ensure_peers()?;
    let command = ["sh", "-c", &format!("{MEASURE}\n{script}")].map(str::to_owned).to_vec();
    let mut request = Request::new(kernel, command);
    request.files = vec![setup::peers::directory()];
    request.memslot = Some(memslot);
    request.out = Some(out);
    Ok(request)
}

/// A histogram as another tool prints it: its buckets' names and counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Histogram(pub(crate) Vec<(String, u64)>);

impl Histogram {
    /// All that was counted.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The fullest bucket.
    pub(crate) fn mode(&self) -> Option<&str> {
        self.0.iter().max_by_key(|(_, count)| *count).map(|(name, _)| name.as_str())
    }
}

/// Reads bpftrace's `hist()`: `[512, 1K)   1234 |@@@   |`.
pub(crate) fn bpftrace_histogram(text: &str) -> Histogram {
    Histogram(text.lines().filter_map(|line| row(line, &['[', '('], &[')', ']'])).collect())
}

fn row(line: &str, first: &[char], last: &[char]) -> Option<(String, u64)> {
    let (left, _) = line.split_once('|')?;
    let left = left.trim();
    let (name, count) = left.rsplit_once(char::is_whitespace)?;
    let name = name.trim();
    (name.starts_with(first) && name.ends_with(last)).then_some(())?;
    Some((name.to_owned(), count.parse().ok()?))
}

/// Reads `perf ftrace latency`: `   1 - 2    us |       1234 | ####   |`.
pub(crate) fn perf_histogram(text: &str) -> Histogram {
    let row = |line: &str| {
        let mut fields = line.split('|');
        let (name, count) = (fields.next()?.trim(), fields.next()?.trim());
        (name.contains(" - ") && name.ends_with('s')).then_some(())?;
        Some((name.split_whitespace().collect::<Vec<_>>().join(" "), count.parse().ok()?))
    };
    Histogram(text.lines().filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[(&str, u64)]) -> Histogram {
        Histogram(rows.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect())
    }

    #[test]
    fn bpftraces_histogram_is_read() {
        let text = "Attaching 2 probes...\n\n\n@ns: \n\
            [0]                    3 |                                                    |\n\
            [256, 512)             1 |                                                    |\n\
            [1K, 2K)           61436 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\n\n";
        let histogram = bpftrace_histogram(text);
        assert_eq!(histogram, rows(&[("[0]", 3), ("[256, 512)", 1), ("[1K, 2K)", 61436)]));
        assert_eq!((histogram.count(), histogram.mode()), (61440, Some("[1K, 2K)")));
        assert_eq!(bpftrace_histogram("@n: 12\n").mode(), None);
    }

    #[test]
    fn perfs_histogram_is_read() {
        let text = "#   DURATION     |      COUNT | GRAPH                                          |\n\
            \x20    0 - 1    us |      27954 | ############################################## |\n\
            \x20    1 - 2    us |          4 |                                                |\n\
            \x20 512 - 1024 ms |          0 |                                                |\n\
            \x20    1 - ...   s |          1 |                                                |\n";
        let histogram = perf_histogram(text);
        assert_eq!(
            histogram,
            rows(&[("0 - 1 us", 27954), ("1 - 2 us", 4), ("512 - 1024 ms", 0), ("1 - ... s", 1)])
        );
        assert_eq!(histogram.count(), 27959);
    }
}
