//! What stands in a report, and what must not.

use super::*;
use crate::chart::fixture::lifelike;
use crate::digest::Digest;
use crate::model::{Probe, VmId};
use crate::recording::VmMeta;

/// Name of a VM that wants to be more.
const HOSTILE: &str = "</td><script>alert('x')</script><img src=x onerror=alert(1)>\u{1b}[2J\u{202e}";

fn hostile() -> Digest {
    let mut digest = lifelike::slots(HOSTILE, 53, 800, 2);
    digest.meta.vms.push(VmMeta { vm: VmId(0), pid: 7, name: HOSTILE.into(), older: false, gone: None });
    digest.meta.host.name = HOSTILE.into();
    digest.meta.command = vec![HOSTILE.into()];
    digest.meta.warnings = vec![HOSTILE.into()];
    digest
}

/// No tag, no control character and no turn of direction comes from a name.
fn assert_harmless(html: &str) {
    assert!(!html.contains("<script>alert") && !html.contains("<img src=x"));
    assert!(!html.contains(['\u{1b}', '\u{202e}', '\u{7}']));
    assert_eq!(html.matches("<script>").count(), 1, "ours alone");
    for (place, _) in html.match_indices("onerror=") {
        assert!(html[..place].ends_with("&lt;img src=x "), "{}", &html[place.saturating_sub(40)..place]);
    }
    // Nothing that a browser would fetch.
    for (place, _) in html.match_indices("src=\"") {
        assert!(html[place + 5..].starts_with("data:"), "{}", &html[place..place + 40]);
    }
    for (place, _) in html.match_indices("href=\"") {
        let target = &html[place + 6..];
        assert!(target.starts_with('#') || target.starts_with("data:,"), "{}", &target[..20]);
    }
    assert!(!html.contains("url(") && !html.contains("@import"));
}

#[test]
fn hostile_names_are_text() {
    let html = of_recordings(&[hostile()]).unwrap();
    assert_harmless(&html);
    assert!(html.contains("&lt;script&gt;alert"), "the name is there all the same");
}

#[test]
fn a_report_goes_from_the_verdict_to_the_provenance() {
    let digests = [
        lifelike::slots("slots-3", 3, 800, 1),
        lifelike::slots("slots-53", 53, 800, 2),
        lifelike::ple("PLE", 2, false, 7),
    ];
    let html = of_recordings(&digests).unwrap();
    let places: Vec<usize> = [
        "verdict good",
        "<strong>Whole",
        "<div class=\"cards\"",
        "<svg",
        "<table",
        "id=\"notes\"",
        "Provenance of PLE",
    ]
    .map(|part| html.find(part).unwrap_or_else(|| panic!("no {part}")))
    .into();
    assert!(places.is_sorted(), "{places:?}");
    assert!(html.contains("Page faults: slots-53") && html.contains("Pause-loop exits: PLE"));
    assert!(!html.contains("id=\"translate\""), "nothing of what was not recorded");
    assert!(html.contains("6.12.48+deb12-cloud-amd64") && html.contains("kvm_amd.pause_filter_count"));
    let charts = html.matches("<figure>").count();
    assert!(charts >= 14, "{charts} charts");
}

#[test]
fn losses_are_in_the_verdict() {
    let mut digest = lifelike::ple("PLE", 2, false, 7);
    let account = &mut digest.meta.probes.get_mut(&Probe::Ple).unwrap().account;
    account.entries += 4;
    account.begun += 4;
    account.finished += 4;
    account.ring_full = 4;
    digest.meta.complete = false;
    let html = of_recordings(&[digest]).unwrap();
    assert!(html.contains("verdict bad") && html.contains("Incomplete"));
    assert!(html.contains("PLE, ple: 4 of 514 calls are missing (ring buffer full: 4)."));
    assert!(html.contains("the recording was cut off"));
    let empty = of_recordings(&[Digest::default()]).unwrap();
    assert!(empty.contains("No call was recorded."));
}

#[test]
fn a_comparison_is_read_as_it_was_written() {
    let json = include_str!("../compare/golden/slower.json");
    let compared = Compared::parse(json).unwrap();
    let html = of_comparison(&compared, &[("compare-page-fault-ecdf".into(), vec![1, 2, 3])]);
    assert_harmless(&html);
    assert!(html.contains("<strong>Slower</strong>") && html.contains("verdict bad"));
    assert!(html.contains("The control did not pass"));
    assert!(html.contains("data:image/png;base64,AQID"));
    assert!(html.contains("+11.5 %") && html.contains("+7.2 % to +15.6 %"), "change and interval");
    let hostile =
        json.replace("\"host\": \"host\"", &format!("\"host\": {}", serde_json::to_string(HOSTILE).unwrap()));
    assert_harmless(&of_comparison(&Compared::parse(&hostile).unwrap(), &[]));
    assert!(
        Compared::parse(&json.replace("\"schema\": 1", "\"schema\": 9")).unwrap_err().contains("schema 9")
    );
    assert!(Compared::parse("{}").unwrap_err().contains("memslot compare --out DIR"));
}
