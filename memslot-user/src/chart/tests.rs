//! Pictures: their size, their colours, and that no data is too strange.

use super::fixture::{self, lifelike};
use super::*;
use crate::digest::Group;
use crate::model::{Class, Fault, Gpa, SearchLength, VmId};
use crate::replay::{Fit, Interval, Prediction, Quantiles};
use plotters::style::RGBColor;

fn pixels(image: &Image) -> impl Iterator<Item = RGBColor> {
    image.rgb.as_chunks::<3>().0.iter().map(|[r, g, b]| RGBColor(*r, *g, *b))
}

fn has(image: &Image, colour: RGBColor) -> bool {
    pixels(image).any(|pixel| pixel == colour)
}

/// Bars are drawn at 85 % over white.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
fn bar(colour: RGBColor) -> RGBColor {
    let over = |value: u8| (255.0 + (f64::from(value) - 255.0) * 0.85).round() as u8;
    RGBColor(over(colour.0), over(colour.1), over(colour.2))
}

/// Draws all charts of all probes; keeps them where `MEMSLOT_CHARTS` names a directory, to be looked at.
fn draw_all(name: &str, digests: &[&Digest]) -> Vec<(Probe, Chart, Image)> {
    let mut images = Vec::new();
    for probe in Probe::ALL {
        for chart in Chart::of(probe) {
            let picture = draw(chart, probe, digests, Size::default());
            let image = picture.raster().unwrap();
            assert_eq!(image.rgb.len(), 3 * image.width as usize * image.height as usize);
            assert_eq!(image.width, 1600);
            assert!(image.height >= 640);
            assert!(
                pixels(&image).filter(|pixel| *pixel != palette::WHITE).count() > 2000,
                "blank: {probe:?} {chart:?}"
            );
            if let Some(dir) = std::env::var_os("MEMSLOT_CHARTS") {
                let dir = Path::new(&dir).join(name);
                std::fs::create_dir_all(&dir).unwrap();
                for format in [Format::Png, Format::Svg] {
                    let file = format!("{}.{}", chart.file_stem(probe), format.name());
                    picture.save(&dir.join(file), format).unwrap();
                }
            }
            images.push((probe, chart, image));
        }
    }
    images
}

fn find(images: &[(Probe, Chart, Image)], probe: Probe, chart: Chart) -> &Image {
    &images.iter().find(|(p, c, _)| *p == probe && *c == chart).unwrap().2
}

#[test]
fn every_series_has_its_colour() {
    let digests = [
        lifelike::slots("slots-3", 3, 6152, 1),
        lifelike::slots("slots-53", 53, 6152, 2),
        lifelike::slots("slots-509", 509, 6152, 3),
        lifelike::regions("regions-3", 3, 10_000, 4),
        lifelike::regions("regions-53", 53, 10_000, 5),
        lifelike::regions("regions-509", 509, 10_000, 6),
        lifelike::ple("PLE, 2 vCPUs on 2 CPUs", 2, false, 7),
        lifelike::ple("PLE, 4 vCPUs on 1 CPU", 4, true, 8),
    ];
    let digests: Vec<&Digest> = digests.iter().collect();
    let images = draw_all("lifelike", &digests);

    let latency = find(&images, Probe::PageFault, Chart::Latency);
    for group in [Group::LastUsed, Group::Searched, Group::NoSlot, Group::MmioCached] {
        assert!(has(latency, palette::group(group)), "{group:?}");
        assert!(has(latency, bar(palette::group(group))), "{group:?}");
    }
    assert!(!has(latency, palette::group(Group::Failed)));
    for probe in [Probe::PageFault, Probe::Translate] {
        for chart in [Chart::SearchLength, Chart::Prediction, Chart::Scaling] {
            for engine in ["linear", "linear_by_size", "sorted_array", "wbtree"] {
                let image = find(&images, probe, chart);
                assert!(has(image, palette::engine(engine).colour), "{probe:?} {chart:?} {engine}");
            }
            assert!(!has(find(&images, probe, chart), palette::engine("rbtree").colour));
        }
        let residuals = find(&images, probe, Chart::Residuals);
        assert!(has(residuals, palette::BLUE) && has(residuals, palette::VERMILLION), "{probe:?}");
        let image = find(&images, probe, Chart::LengthLatency);
        assert!(has(image, palette::BLUE) && has(image, palette::VERMILLION), "{probe:?}");
    }
    let window = find(&images, Probe::Ple, Chart::PleWindow);
    for vcpu in 0..4 {
        assert!(has(window, palette::numbered(vcpu).colour), "vCPU {vcpu}");
    }
    assert!(has(window, palette::GREY), "the windows by the rules");
    let replayed = lifelike::ple_replayed("PLE, 2 vCPUs on 1 CPU");
    let image = draw(Chart::PleReplay, Probe::Ple, &[&replayed], Size::default()).raster().unwrap();
    for policy in 0..4 {
        assert!(has(&image, palette::numbered(policy).colour), "policy {policy}");
    }
    let yields = find(&images, Probe::Ple, Chart::PleYield);
    for group in [Group::Boosted, Group::Declined, Group::Undercommit] {
        assert!(has(yields, palette::group(group)));
    }
}

#[test]
fn simulated_policies_are_drawn_and_what_is_not_there_is_no_chart() {
    let mut digest = lifelike::ple("PLE", 2, false, 7);
    for chart in [Chart::PlePolicies, Chart::PleReplay] {
        assert!(!worthwhile(chart, Probe::Ple, &[&digest]));
    }
    digest.ple_simulated = crate::ple::simulate_for(&digest.meta).unwrap();
    assert_eq!(digest.ple_simulated.len(), 2, "in cycles, and in the recording's PAUSEs");
    assert!(worthwhile(Chart::PlePolicies, Probe::Ple, &[&digest]));
    assert!(worthwhile(Chart::PleReplay, Probe::Ple, &[&lifelike::ple_replayed("PLE")]));
    for (_, _, image) in draw_all("policies", &[&digest, &lifelike::ple_replayed("PLE, 2 vCPUs on 1 CPU")]) {
        assert!(image.height < 4000);
    }
    let image = draw(Chart::PlePolicies, Probe::Ple, &[&digest], Size::default()).raster().unwrap();
    for policy in 0..5 {
        assert!(has(&image, palette::numbered(policy).colour), "policy {policy}");
    }
    let slots = [lifelike::slots("slots-3", 3, 100, 1), lifelike::slots("slots-53", 53, 100, 1)];
    assert!(!worthwhile(Chart::Residuals, Probe::PageFault, &[&slots[0]]), "it has no line");
    assert!(worthwhile(Chart::Residuals, Probe::PageFault, &[&slots[1]]));
}

#[test]
fn one_recording_is_drawn_as_well_as_many() {
    draw_all("one", &[&lifelike::slots("slots-53", 53, 6152, 2)]);
    let many: Vec<Digest> =
        (0..30).map(|seed| lifelike::slots(&format!("run {seed}"), 53, 40, seed)).collect();
    let many: Vec<&Digest> = many.iter().collect();
    draw_all("many", &many);
}

#[test]
fn recordings_stand_in_order_of_size_where_they_differ_in_it() {
    let sized = |label: &str, slots| {
        let mut digest = fixture::faults(label, &[]);
        digest.slots = slots;
        digest
    };
    let order = |digests: &[Digest]| {
        let digests: Vec<&Digest> = digests.iter().collect();
        by_size(&digests, Probe::PageFault).iter().map(|digest| digest.label.clone()).collect::<Vec<_>>()
    };
    let shell = [sized("3", Some(3)), sized("509", Some(509)), sized("53", Some(53))];
    assert_eq!(order(&shell), ["3", "53", "509"]);
    let given = [sized("before", Some(53)), sized("after", Some(3)), sized("again", Some(3))];
    assert_eq!(order(&given), ["before", "after", "again"]);
    let unknown = [sized("b", Some(53)), sized("a", None)];
    assert_eq!(order(&unknown), ["b", "a"]);
}

#[test]
fn the_file_decodes_to_the_picture() {
    let digest = lifelike::slots("slots-53", 53, 500, 2);
    let size = Size { width: 1234, height: 987 };
    let picture = draw(Chart::SearchLength, Probe::PageFault, &[&digest], size);
    let image = picture.raster().unwrap();
    assert_eq!((image.width, image.height), (1234, 987));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.png");
    picture.save(&path, Format::Png).unwrap();
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut rgb).unwrap();
    assert_eq!((info.width, info.height, info.color_type), (1234, 987, png::ColorType::Rgb));
    assert_eq!(rgb, image.rgb);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing half written is left");
}

#[test]
fn a_directory_that_is_not_there_is_one_clear_sentence() {
    let image = draw(Chart::Latency, Probe::Ple, &[], Size::default());
    let error = image.save(Path::new("/nonexistent/a.png"), Format::Png).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot write /nonexistent/a.png: entity not found; choose another directory with --out or make room"
    );
}

#[test]
fn the_same_recordings_give_the_same_bytes() {
    let draw_once = || {
        let digest = lifelike::slots("slots-53", 53, 2000, 2);
        draw(Chart::Latency, Probe::PageFault, &[&digest], Size::default()).encode(Format::Png).unwrap()
    };
    assert_eq!(draw_once(), draw_once());
}

#[test]
fn losses_are_named_in_the_warning_colour() {
    let mut digest = lifelike::ple("PLE", 2, false, 7);
    let clean = draw(Chart::Latency, Probe::Ple, &[&digest], Size::default()).raster().unwrap();
    assert!(!has(&clean, palette::VERMILLION));
    let account = &mut digest.meta.probes.get_mut(&Probe::Ple).unwrap().account;
    account.entries += 1104;
    account.ring_full = 1100;
    account.missed = 4;
    let lossy = draw(Chart::Latency, Probe::Ple, &[&digest], Size::default()).raster().unwrap();
    assert!(has(&lossy, palette::VERMILLION));
    let remarks = footer::remarks(&[&digest], Probe::Ple);
    let texts: Vec<_> = remarks.iter().map(|remark| (remark.text.as_str(), remark.warning)).collect();
    assert_eq!(
        texts,
        [
            (
                "host lab · Linux 6.12.48+deb12-cloud-amd64 · pause_interception by fentry · 510 events, 1,104 lost",
                false
            ),
            ("Emulated time (QEMU TCG): shows the algorithms' cost, not hardware time", false),
            ("PLE: 1,104 of 1,614 calls lost (ring buffer full 1,100, probe skipped by the kernel 4)", true),
        ]
    );
}

#[test]
fn nothing_is_drawn_as_a_chart_that_says_so() {
    draw_all("no-recording", &[]);
    draw_all("no-events", &[&Digest::default()]);
}

#[test]
fn strange_data_is_drawn_all_the_same() {
    let label = "a label that goes on and on \u{1f980} \n\t with control characters, ".repeat(20);
    let strange: Vec<Digest> = [
        vec![0],
        vec![u64::MAX],
        vec![0, u64::MAX],
        vec![5; 100_000],
        (0..64).map(|bit| 1_u64 << bit).collect(),
    ]
    .into_iter()
    .map(|values| {
        let mut digest =
            fixture::faults(&label, &[(Group::Searched, &values), (Group::LastUsed, &values[..1])]);
        for value in values {
            digest.translations.latency.add(value);
            digest.translations.by_group.entry(Group::Iotlb).or_default().add(value);
            digest.faults.by_length.entry(u32::try_from(value).unwrap_or(u32::MAX)).or_default().add(value);
            digest.faults.visited.add(u32::try_from(value).unwrap_or(u32::MAX));
            digest.ple.latency.add(value);
            digest.ple.by_group.entry(Group::NoYield).or_default().add(value);
            digest.windows.entry((VmId(9), u32::MAX)).or_default().add(value, u32::MAX);
        }
        digest.meta.complete = false;
        digest
    })
    .collect();
    for digest in &strange {
        draw_all("strange", &[digest]);
    }
    let all: Vec<&Digest> = strange.iter().collect();
    draw_all("strange-all", &all);
}

#[test]
fn figures_that_are_no_numbers_do_no_harm() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -5.0, f64::MAX] {
        let interval = Interval { value, low: value, high: value };
        let quantiles = Quantiles { p50: value, p90: value, p99: value };
        let mut digest =
            fixture::replayed("a", &[(u32::MAX, 1)], &[("linear", &[(0, 1)]), ("unheard of", &[(7, 1)])]);
        digest.faults.latency.add(5);
        digest.faults.visited.add(5);
        digest.faults.by_length.entry(5).or_default().add(5);
        let replay = &mut digest.replays[0];
        replay.latency_ns = quantiles;
        replay.fit =
            Some(Fit { intercept: interval, slope: interval, r_squared: value, events: 0, range: (9, 2) });
        for engine in &mut replay.engines {
            engine.visited_mean = value;
            engine.ns_per_lookup = interval;
            engine.predicted =
                Some(Prediction { latency_ns: quantiles, median_ns: interval, extrapolates: true });
        }
        draw_all("no-numbers", &[&digest, &digest]);
    }
}

/// A recording of one fault on one slot.
fn smallest() -> Digest {
    let mut digest = lifelike::slots("one fault, one slot", 1, 0, 1);
    digest.add_fault(&Fault {
        time: 5_000_000,
        latency: 3100,
        on_cpu: None,
        cpu: 0,
        vm: VmId(0),
        vcpu: 0,
        gpa: Gpa(0),
        error_code: 0,
        class: Class::Ram,
        as_id: 0,
        slot: Some(0),
        last_used: None,
        ret: 1,
        length: Some(SearchLength { visited: 1, touched: 1 }),
        generation: 2,
        ambiguous: false,
    });
    digest
}

#[test]
fn one_fault_on_one_slot_is_to_be_seen_in_every_chart() {
    let digest = smallest();
    let images = draw_all("smallest", &[&digest]);
    let darkest = palette::ramp(1.0);
    assert!(has(find(&images, Probe::PageFault, Chart::OverTime), darkest));
    assert!(has(find(&images, Probe::PageFault, Chart::Layout), darkest));
    for chart in [Chart::Ecdf, Chart::Percentiles] {
        assert!(has(find(&images, Probe::PageFault, chart), palette::numbered(0).colour), "{chart:?}");
    }
}

#[test]
fn losses_stand_above_the_map_where_they_happened() {
    let mut digest = lifelike::slots("slots-53", 53, 6152, 2);
    let picture = draw(Chart::OverTime, Probe::PageFault, &[&digest], Size::default());
    assert!(!has(&picture.raster().unwrap(), palette::VERMILLION), "nothing was lost");
    let (start, end) = digest.faults.over_time.extent();
    digest.faults.over_time.add_lost(start + (end - start) / 4, start + (end - start) / 2, 321);
    let account = &mut digest.meta.probes.get_mut(&Probe::PageFault).unwrap().account;
    account.entries += 321;
    account.ring_full = 321;
    let images = draw_all("lossy", &[&digest]);
    let image = find(&images, Probe::PageFault, Chart::OverTime);
    // The longest run of the colour is the ribbon, a quarter of the map.
    let row = |y: u32| {
        let from = 3 * (y * image.width) as usize;
        image.rgb[from..from + 3 * image.width as usize]
            .chunks_exact(3)
            .filter(|pixel| RGBColor(pixel[0], pixel[1], pixel[2]) == palette::VERMILLION)
            .count()
    };
    let longest = (0..image.height).map(row).max().unwrap();
    assert!((340..400).contains(&longest), "{longest} pixels");
}

#[test]
fn the_same_recording_has_the_same_colour_in_every_chart() {
    let one = lifelike::slots("slots-3", 3, 2000, 1);
    let two = lifelike::slots("slots-53", 53, 2000, 2);
    for chart in [Chart::Ecdf, Chart::Percentiles] {
        let both = draw(chart, Probe::PageFault, &[&one, &two], Size::default()).raster().unwrap();
        let alone = draw(chart, Probe::PageFault, &[&one], Size::default()).raster().unwrap();
        assert!(has(&both, palette::numbered(0).colour) && has(&both, palette::numbered(1).colour));
        assert!(has(&alone, palette::numbered(0).colour) && !has(&alone, palette::numbered(1).colour));
    }
}

#[test]
fn an_svg_holds_the_words_of_the_picture_and_nothing_that_runs_or_loads() {
    let mut digest = lifelike::slots("slots-53", 53, 2000, 2);
    digest.label = "<script src=https://example.org/x.js>\u{1b}]0;evil\u{7}".into();
    digest.meta.vms.push(crate::recording::VmMeta {
        vm: VmId(0),
        pid: 1,
        name: "\"><img src=x onerror=alert(1)>".into(),
        older: false,
        gone: None,
    });
    for chart in Chart::of(Probe::PageFault) {
        let svg = draw(chart, Probe::PageFault, &[&digest], Size::default()).svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{chart:?}");
        // Every tag is one of ours, every attribute too.
        for tag in
            svg.split('<').skip(1).map(|rest| rest.split(['>', ' ', '/']).find(|word| !word.is_empty()))
        {
            let known = ["svg", "title", "path", "polygon", "circle", "polyline", "text"];
            assert!(known.contains(&tag.unwrap()), "{chart:?}: {tag:?}");
        }
        assert!(!svg.contains("href") && !svg.contains('\u{1b}') && !svg.contains('\u{7}'), "{chart:?}");
        assert!(svg.contains("&lt;script") || chart == Chart::Scaling, "{chart:?}: the label is there");
    }
}
