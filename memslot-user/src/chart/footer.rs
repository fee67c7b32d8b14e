//! Where a chart's figures come from, and what is missing from them.

use super::page::Remark;
use super::text;
use crate::digest::Digest;
use crate::model::Probe;
use std::collections::BTreeSet;

/// The footer of a chart of one probe over some recordings.
pub(crate) fn remarks(digests: &[&Digest], probe: Probe) -> Vec<Remark> {
    let mut origins: Vec<String> = Vec::new();
    for digest in digests {
        let origin = origin(digest, probe);
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    let events: u64 = digests.iter().map(|digest| digest.probe(probe).latency.count()).sum();
    let lost: u64 = digests.iter().map(|digest| lost(digest, probe)).sum();
    let recordings = match digests.len() {
        0 | 1 => String::new(),
        several => format!(" in {several} recordings"),
    };
    let account = format!("{}{recordings}, {} lost", text::counted(events, "event"), text::count(lost));
    origins.push(account);
    let mut remarks = vec![Remark { text: origins.join(" · "), warning: false }];
    let hosts: BTreeSet<&str> =
        digests.iter().filter_map(|digest| digest.meta.host.virtualised.as_deref()).collect();
    remarks.extend(hosts.into_iter().map(|host| Remark { text: virtualised(host), warning: false }));
    remarks.extend(warnings(digests, probe).into_iter().map(|text| Remark { text, warning: true }));
    remarks
}

fn lost(digest: &Digest, probe: Probe) -> u64 {
    digest.probe_meta(probe).map_or(0, |meta| meta.account.lost())
}

fn origin(digest: &Digest, probe: Probe) -> String {
    let host = &digest.meta.host;
    let named =
        |what: &str, value: &str| format!("{what} {}", if value.is_empty() { "unknown" } else { value });
    let attached = match digest.probe_meta(probe).and_then(|meta| meta.attached.first()) {
        Some(attached) => format!("{} by {}", attached.function, attached.kind.name()),
        None => format!("{} not attached", probe.name()),
    };
    [named("host", &host.name), named("Linux", &host.kernel), attached].join(" · ")
}

/// What a hypervisor under the recording host does to the times.
#[must_use]
pub fn virtualised(hypervisor: &str) -> String {
    let name = hypervisor.to_lowercase();
    if name.contains("icount") {
        "Emulated time: instruction counts (1 ns = 1 instruction), not hardware time".into()
    } else if name.contains("tcg") {
        format!("Emulated time ({hypervisor}): shows the algorithms' cost, not hardware time")
    } else {
        format!("The host itself runs under {hypervisor}: its exits are nested, and its times include that")
    }
}

fn warnings(digests: &[&Digest], probe: Probe) -> Vec<String> {
    let mut found = Vec::new();
    let mut cut_off: Vec<String> = Vec::new();
    for digest in digests {
        let label = short(&digest.label);
        let account = digest.probe_meta(probe).map(|meta| meta.account).unwrap_or_default();
        let reasons: Vec<String> = [
            (account.ring_full, "ring buffer full"),
            (account.return_lost, "return missed"),
            (account.start_full, "no memory for the start"),
            (account.clock_back, "clock ran backwards"),
            (account.missed, "probe skipped by the kernel"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, reason)| format!("{reason} {}", text::count(count)))
        .collect();
        if !reasons.is_empty() {
            found.push(format!(
                "{label}: {} of {} calls lost ({})",
                text::count(account.lost()),
                text::count(account.entries),
                reasons.join(", ")
            ));
        }
        let unknown = digest.probe(probe).unknown_length;
        if unknown > 0 {
            found.push(format!("{label}: {} searches could not be followed", text::count(unknown)));
        }
        if !digest.meta.complete {
            cut_off.push(label);
        }
    }
    if !cut_off.is_empty() {
        found.push(format!("Cut off, so that losses are not fully known: {}", cut_off.join(", ")));
    }
    found
}

/// A label that leaves room for the words after it.
fn short(label: &str) -> String {
    const MOST: usize = 40;
    match label.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &label[..end]),
        None if label.trim().is_empty() => "recording without a name".into(),
        None => label.to_owned(),
    }
}
