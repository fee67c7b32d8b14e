//! Whether the probes count what bpftrace, perf and the kernel's own kprobe_profile count.

use super::lab_tests::{in_guest, on_both};
use crate::{
    lab::{Accelerator, KernelChoice},
    paths, peers,
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{fs, path::Path};

const COMPARE: &str = include_str!("peers.sh");

/// Each probe with its function.
const PROBES: [(&str, &str); 3] =
    [("page_fault", "kvm_mmu_page_fault"), ("ple", "pause_interception"), ("translate", "translate_desc")];

pub(super) fn run(memslot: &Path) -> Result<()> {
    // Before both kernels ask for it at once.
    crate::setup::ensure_peers()?;
    on_both(|kernel| {
        let text = counts(&kernel, memslot)?;
        print!("{kernel}:\n{text}");
        Ok(())
    })
}

fn counts(kernel: &KernelChoice, memslot: &Path) -> Result<String> {
    let out = paths::target().join("test/peers").join(kernel.to_string().replace(['/', ' '], "_"));
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let mut request = peers::request(kernel.clone(), memslot.to_owned(), out.clone(), COMPARE)?;
    // Under KVM the CPU's own PAUSE filter would decide how many exits there are.
    request.accelerator = Accelerator::Tcg;
    in_guest(&request)?;
    let mut text = String::new();
    let mut wrong = Vec::new();
    for attach in ["fentry", "kprobe"] {
        for (probe, function) in PROBES {
            let name = format!("{attach}_{probe}");
            let calls: Value = serde_json::from_str(&read(&out, &format!("{name}.workload"))?)?;
            let calls = calls["calls"][function].as_u64().filter(|calls| *calls > 0);
            let calls = calls.with_context(|| format!("the workload of {name} does not say its calls"))?;
            let counted = counted(&out, &name, probe)?;
            let differs = counted.iter().any(|(_, count)| *count != Some(calls));
            let figures: Vec<String> =
                counted.iter().map(|(who, count)| format!("{who} {}", shown(*count))).collect();
            let line = format!("  {name}: {calls} calls; {}", figures.join(", "));
            text.push_str(&line);
            text.push('\n');
            if differs {
                wrong.push(line);
            }
        }
    }
    ensure!(wrong.is_empty(), "the counts differ:\n{}", wrong.join("\n"));
    Ok(text)
}

fn shown(count: Option<u64>) -> String {
    count.map_or_else(|| "nothing".to_owned(), |count| count.to_string())
}

fn read(out: &Path, name: &str) -> Result<String> {
    fs::read_to_string(out.join(name)).with_context(|| format!("the guest left no {name}"))
}

/// Everyone's counts of entries and returns.
fn counted(out: &Path, name: &str, probe: &str) -> Result<Vec<(&'static str, Option<u64>)>> {
    let meta: Value = serde_json::from_str(&read(out, &format!("{name}.recording/meta.json"))?)?;
    let own = &meta["probes"][probe];
    let (bpftrace, perf) = (read(out, &format!("{name}.tool"))?, read(out, &format!("{name}.perf"))?);
    let profile = read(out, "kprobe_profile")?;
    let returns = format!("{name}_return");
    Ok(vec![
        ("memslot's entries", own["account"]["entries"].as_u64()),
        ("returns", own["account"]["returns"].as_u64()),
        ("events", own["events"].as_u64()),
        ("bpftrace's kprobe", bpftrace_count(&bpftrace, "entry")),
        ("kretprobe", bpftrace_count(&bpftrace, "return")),
        ("kfunc", bpftrace_count(&bpftrace, "fentry")),
        ("kretfunc", bpftrace_count(&bpftrace, "fexit")),
        ("perf's kprobe", perf_count(&perf, name)),
        ("kretprobe", perf_count(&perf, &returns)),
        ("kprobe_profile", profile_count(&profile, name)),
        ("of returns", profile_count(&profile, &returns)),
    ])
}

/// `@entry: 2048`
fn bpftrace_count(text: &str, map: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim().strip_prefix(&format!("@{map}: "))?.parse().ok())
}

/// `2048,,memslot:NAME,1234,100.00,,` of `perf stat -x ,`.
fn perf_count(text: &str, event: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut fields = line.split(',');
        let count = fields.next()?;
        (fields.nth(1)? == format!("memslot:{event}")).then(|| count.parse().ok())?
    })
}

/// `  NAME      2048      0`: hits, and what was missed, of which there must be none.
fn profile_count(text: &str, event: &str) -> Option<u64> {
    text.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [name, hits, "0"] if name == event => hits.parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyones_output_is_read() {
        let bpftrace = "Attaching 4 probes...\n\n\n@entry: 2048\n@return: 2047\n";
        assert_eq!(bpftrace_count(bpftrace, "return"), Some(2047));
        assert_eq!(bpftrace_count(bpftrace, "fentry"), None);
        let perf = "# started on Mon\n\n2048,,memslot:a,100,100.00,,\n2046,,memslot:a_return,100,100.00,,\n";
        assert_eq!((perf_count(perf, "a"), perf_count(perf, "a_return")), (Some(2048), Some(2046)));
        let profile = "  a            2048               0\n  a_return     2040               8\n";
        assert_eq!((profile_count(profile, "a"), profile_count(profile, "a_return")), (Some(2048), None));
    }
}
