//! What is written is read; what is cut off, damaged or foreign is said.

use super::figures::{BucketRow, CountsRow};
use super::frame::{Frame, Frames};
use super::row::Row;
use super::tables::{FaultRow, PleRow, RegionRow, SlotRow, TranslationRow};
use super::*;
use crate::model::*;
use proptest::prelude::*;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

fn fault(number: u64) -> Fault {
    Fault {
        time: 1_000_000_000 + number * 1500,
        latency: 2000 + number % 700,
        on_cpu: None,
        cpu: 1,
        vm: VmId(3),
        vcpu: 2,
        gpa: Gpa(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xf_ffff_f000),
        error_code: 0x1_0000_0006,
        class: Class::Ram,
        as_id: 0,
        slot: Some(7),
        last_used: None,
        ret: 1,
        length: Some(SearchLength { visited: 5, touched: 6 }),
        generation: 40,
        ambiguous: false,
    }
}

fn create(dir: &Path) -> Writer {
    Writer::create(dir, &Meta::default(), Options::default()).unwrap()
}

/// A finished recording of `count` faults, in batches of 100, in a new directory.
fn recorded(count: u64) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    let mut writer = create(&dir);
    for number in 0..count {
        writer.push_fault(&fault(number)).unwrap();
        if number % 100 == 99 {
            writer.flush().unwrap();
        }
    }
    writer.finish(Meta::default()).unwrap();
    (parent, dir)
}

/// A recording to damage, and the bytes of its faults before that.
static WHOLE: LazyLock<(tempfile::TempDir, PathBuf, Vec<u8>)> = LazyLock::new(|| {
    let (parent, dir) = recorded(300);
    let bytes = fs::read(dir.join(FaultRow::FILE)).unwrap();
    (parent, dir, bytes)
});

prop_compose! {
    fn any_fault()(
        (time, latency, gpa, error_code, generation) in any::<(u64, u64, u64, u64, u64)>(),
        (cpu, vm, vcpu, class, as_id) in (any::<u32>(), any::<u32>(), any::<u32>(), 0..4_usize, any::<u8>()),
        (slot, last_used, ret, length, ambiguous) in any::<(Option<i32>, Option<i32>, i32, Option<(u32, u32)>, bool)>(),
        on_cpu in any::<Option<u64>>(),
    ) -> Fault {
        let length = length.map(|(visited, touched)| SearchLength { visited, touched });
        Fault { time, latency, on_cpu, cpu, vm: VmId(vm), vcpu, gpa: Gpa(gpa), error_code, class: Class::ALL[class],
            as_id, slot, last_used, ret, length, generation, ambiguous }
    }
}

prop_compose! {
    fn any_exit()(
        (time, latency, on_spin, cpu, vm, vcpu) in any::<(u64, u64, Option<u64>, u32, u32, u32)>(),
        (window, yields, boosted, declined, undercommit) in any::<((u32, u32), u32, u32, u32, u32)>(),
        on_cpu in any::<Option<u64>>(),
    ) -> PleExit {
        PleExit { time, latency, on_cpu, on_spin, cpu, vm: VmId(vm), vcpu, window, yields, boosted, declined, undercommit }
    }
}

prop_compose! {
    fn any_translation()(
        (time, latency, addr, cpu, device, table) in any::<(u64, u64, u64, u32, u32, u32)>(),
        (worker, queue, len, access, ret) in any::<(u32, Option<u16>, u32, u8, i32)>(),
        (regions, length, is_iotlb) in any::<(u32, Option<(u32, u32)>, bool)>(),
        on_cpu in any::<Option<u64>>(),
    ) -> Translation {
        let length = length.map(|(visited, touched)| SearchLength { visited, touched });
        Translation { time, latency, on_cpu, cpu, device: DeviceId(device), table: TableId(table), worker, queue, addr,
            len, access, ret, regions, length, is_iotlb }
    }
}

prop_compose! {
    fn any_slot_change()(
        (time, vm, as_id, generation) in any::<(u64, u32, u16, u64)>(),
        (id, base, npages, flags, hva) in (any::<i32>(), any::<u64>(), 1_u64.., any::<u32>(), any::<u64>()),
        (kind, order, black, old) in (0..5, any::<u32>(), any::<bool>(), any::<u64>()),
    ) -> SlotChange {
        let kind = match kind {
            0 => SlotChangeKind::Snapshot { order, black },
            1 => SlotChangeKind::Create,
            2 => SlotChangeKind::Delete,
            3 => SlotChangeKind::Move { old_base_gfn: Gfn(old) },
            _ => SlotChangeKind::Flags,
        };
        let slot = Memslot { id, base_gfn: Gfn(base), npages };
        SlotChange { time, vm: VmId(vm), as_id, generation, kind, slot, flags, hva }
    }
}

prop_compose! {
    fn any_region_change()(
        (time, table, start, last, hva, perm) in any::<(u64, u32, u64, u64, u64, u8)>(),
        (kind, order, black) in (0..4, any::<u32>(), any::<bool>()),
    ) -> RegionChange {
        let kind = match kind {
            0 => RegionChangeKind::Snapshot { order, black },
            1 => RegionChangeKind::Add,
            2 => RegionChangeKind::RemoveRange,
            _ => RegionChangeKind::Free,
        };
        RegionChange { time, table: TableId(table), kind, region: Region { start, last }, hva, perm }
    }
}

fn all<T: Stored>(rows: Result<Rows<T>, Error>) -> Vec<T> {
    let mut rows = rows.unwrap();
    let read = rows.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.truncated(), None);
    read
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_row_comes_back(
        faults in prop::collection::vec(any_fault(), 0..200),
        exits in prop::collection::vec(any_exit(), 0..50),
        calls in prop::collection::vec(any_translation(), 0..50),
        slots in prop::collection::vec(any_slot_change(), 0..50),
        regions in prop::collection::vec(any_region_change(), 0..50),
        flush in 1..80_usize,
    ) {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("recording");
        let mut writer = create(&dir);
        for (number, fault) in faults.iter().enumerate() {
            writer.push_fault(fault).unwrap();
            if number % flush == 0 { writer.flush().unwrap(); }
        }
        for exit in &exits { writer.push_ple_exit(exit).unwrap(); }
        for call in &calls { writer.push_translation(call).unwrap(); }
        for change in &slots { writer.push_slot_change(change).unwrap(); }
        for change in &regions { writer.push_region_change(change).unwrap(); }
        writer.finish(Meta::default()).unwrap();

        let recording = Recording::open(&dir).unwrap();
        prop_assert!(recording.meta().complete);
        prop_assert_eq!(all(recording.faults()), faults);
        prop_assert_eq!(all(recording.ple_exits()), exits);
        prop_assert_eq!(all(recording.translations()), calls);
        prop_assert_eq!(all(recording.slot_changes()), slots);
        prop_assert_eq!(all(recording.region_changes()), regions);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn damage_never_panics_and_never_goes_on_silently_past_the_end(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..6),
    ) {
        let (_parent, dir, bytes) = &*WHOLE;
        let (path, mut bytes) = (dir.join(FaultRow::FILE), bytes.clone());
        for (place, flip) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= flip;
        }
        fs::write(&path, bytes).unwrap();
        if let Ok(rows) = Recording::open(dir).unwrap().faults() {
            let read = rows.take(1_000_000).filter(Result::is_ok).count();
            prop_assert!(read <= 300, "{read} rows of 300");
        }
    }
}

#[test]
fn cut_off_anywhere_all_whole_batches_are_read_and_the_cut_is_noted() {
    let (_parent, dir) = recorded(300);
    let path = dir.join(FaultRow::FILE);
    let bytes = fs::read(&path).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for length in (0..bytes.len()).step_by(7).chain(bytes.len() - 9..bytes.len()) {
        fs::write(&path, &bytes[..length]).unwrap();
        let mut rows = Recording::open(&dir).unwrap().faults().unwrap();
        let read: Vec<Fault> = rows.by_ref().collect::<Result<_, _>>().unwrap();
        assert_eq!(read.len() % 100, 0, "cut at {length}");
        assert_eq!(read, (0..read.len() as u64).map(fault).collect::<Vec<_>>());
        let truncated = rows.truncated().unwrap();
        assert_eq!(truncated.file, "faults.arrow");
        assert!(truncated.to_string().starts_with("faults.arrow was cut off"), "{truncated}");
        seen.insert(read.len());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 100, 200, 300]);
}

#[test]
fn a_recorder_that_is_killed_leaves_what_was_flushed() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    let mut writer = create(&dir);
    (0..1000).for_each(|number| writer.push_fault(&fault(number)).unwrap());
    writer.flush().unwrap();
    (0..10).for_each(|number| writer.push_fault(&fault(number)).unwrap());
    drop(writer);
    let recording = Recording::open(&dir).unwrap();
    assert!(!recording.meta().complete);
    let mut rows = recording.faults().unwrap();
    assert_eq!(rows.by_ref().filter_map(Result::ok).count(), 1000);
    assert_eq!(rows.truncated(), Some(Truncated { file: "faults.arrow", bytes: 0 }));
    fs::remove_file(dir.join("regions.arrow")).unwrap();
    assert_eq!(recording.region_changes().unwrap().count(), 0);
}

#[test]
fn a_full_batch_is_written_without_a_flush() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    let mut writer = create(&dir);
    (0..65_537).for_each(|number| writer.push_fault(&fault(number)).unwrap());
    drop(writer);
    assert_eq!(Recording::open(&dir).unwrap().faults().unwrap().count(), 65_536);
}

#[test]
fn a_full_disk_is_said_and_the_rows_are_tried_again() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    let mut writer = create(&dir);
    writer.push_fault(&fault(0)).unwrap();
    writer.flush().unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let file = writer.swap_fault_file(full);
    writer.push_fault(&fault(1)).unwrap();
    let error = writer.flush().unwrap_err();
    assert!(matches!(error, Error::NoSpace(_)), "{error}");
    assert!(error.to_string().contains("no space is left for"), "{error}");
    writer.swap_fault_file(file);
    writer.finish(Meta::default()).unwrap();
    assert_eq!(all(Recording::open(&dir).unwrap().faults()), [fault(0), fault(1)]);
}

#[test]
fn only_the_owner_can_read_a_recording() {
    let (_parent, dir) = recorded(1);
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    let mut files: Vec<String> = Vec::new();
    for entry in fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{entry:?}");
        files.push(entry.file_name().into_string().unwrap());
    }
    files.sort();
    let expected = [
        "accounts.arrow",
        "faults.arrow",
        "histograms.arrow",
        "meta.json",
        "ple_exits.arrow",
        "regions.arrow",
        "slots.arrow",
        "translations.arrow",
    ];
    assert_eq!(files, expected);
}

#[test]
fn nothing_is_overwritten_without_force_nor_followed() {
    let (parent, dir) = recorded(1);
    let other = dir.join("notes.txt");
    fs::write(&other, "mine").unwrap();
    let again = |options| Writer::create(&dir, &Meta::default(), options);
    let error = again(Options::default()).err().unwrap();
    assert!(error.to_string().ends_with("use --force to replace the recording in it"), "{error}");

    // A link in the place of a table is replaced, and what it points to left alone.
    let target = parent.path().join("target");
    fs::write(&target, "precious").unwrap();
    fs::remove_file(dir.join("faults.arrow")).unwrap();
    symlink(&target, dir.join("faults.arrow")).unwrap();
    again(Options { force: true }).unwrap().finish(Meta::default()).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    assert_eq!(Recording::open(&dir).unwrap().faults().unwrap().count(), 0);

    let link = parent.path().join("link");
    symlink(&dir, &link).unwrap();
    let error = Writer::create(&link, &Meta::default(), Options { force: true }).err().unwrap();
    assert!(matches!(error, Error::Symlink(_)), "{error}");
    let error = Writer::create(&target, &Meta::default(), Options { force: true }).err().unwrap();
    assert!(matches!(error, Error::NotADirectory(_)), "{error}");
    let nowhere = parent.path().join("no/such");
    let error = Writer::create(&nowhere, &Meta::default(), Options::default()).err().unwrap();
    assert!(matches!(error, Error::NotFound(_)), "{error}");
}

#[test]
fn a_directory_that_is_taken_away_is_noticed() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    let mut writer = create(&dir);
    writer.push_fault(&fault(0)).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    assert!(matches!(writer.flush(), Err(Error::Removed(_))));
    fs::create_dir(&dir).unwrap();
    assert!(matches!(writer.flush(), Err(Error::Removed(_))));
}

#[test]
fn what_is_no_recording_is_said() {
    let (parent, dir) = recorded(1);
    let open = |dir: &Path| Recording::open(dir).unwrap_err().to_string();
    assert!(open(parent.path()).ends_with("is no recording: it has no meta.json"));
    assert!(open(&parent.path().join("nowhere")).contains("does not exist"));
    let meta = dir.join(META_FILE);
    fs::write(&meta, r#"{"schema": 99, "unheard": "of"}"#).unwrap();
    assert!(open(&dir).contains("recording format 99, and this memslot reads up to 2"));
    fs::write(&meta, r#"{"schema": 1"#).unwrap();
    assert!(open(&dir).contains("may be damaged"));
    fs::write(&meta, r#"{"schema": 0}"#).unwrap();
    assert!(open(&dir).contains("never was"));
    fs::write(&meta, [0xff; 16]).unwrap();
    assert!(open(&dir).contains("it is no text"));
}

#[test]
fn another_tables_columns_and_a_missing_table_are_said() {
    let (_parent, dir) = recorded(1);
    let recording = Recording::open(&dir).unwrap();
    fs::copy(dir.join("ple_exits.arrow"), dir.join("faults.arrow")).unwrap();
    let error = recording.faults().unwrap().next().unwrap().unwrap_err();
    assert!(error.to_string().contains("its columns are not those of this recording format"), "{error}");
    fs::remove_file(dir.join("faults.arrow")).unwrap();
    assert!(matches!(recording.faults(), Err(Error::MissingTable(_))));
}

#[test]
fn a_tail_of_zeros_counts_as_cut_off() {
    let (_parent, dir) = recorded(100);
    let path = dir.join(FaultRow::FILE);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len() - 8;
    bytes.truncate(end);
    bytes.resize(end + 4096, 0);
    fs::write(&path, bytes).unwrap();
    let mut rows = Recording::open(&dir).unwrap().faults().unwrap();
    assert_eq!(rows.by_ref().filter(Result::is_ok).count(), 100);
    assert_eq!(rows.truncated(), Some(Truncated { file: "faults.arrow", bytes: 4096 }));
}

#[test]
fn the_texts_of_a_column_are_stored_once() {
    let (_parent, dir) = recorded(300);
    let file = File::open(dir.join(FaultRow::FILE)).unwrap();
    let columns = FaultRow::schema().fields().len();
    let mut frames = Frames::new(dir.join(FaultRow::FILE), file, columns).unwrap();
    let mut messages = 0;
    while let Frame::Message(message) = frames.next().unwrap() {
        frames.advance(message.len());
        messages += 1;
    }
    assert_eq!(messages, 1 + 1 + 3, "schema, dictionary, three batches");
}

#[test]
fn the_format_document_lists_every_column() {
    let document = include_str!("../../../docs/recording-format.md");
    let schemas = [
        (FaultRow::FILE, FaultRow::schema()),
        (PleRow::FILE, PleRow::schema()),
        (TranslationRow::FILE, TranslationRow::schema()),
        (SlotRow::FILE, SlotRow::schema()),
        (RegionRow::FILE, RegionRow::schema()),
        (BucketRow::FILE, BucketRow::schema()),
        (CountsRow::FILE, CountsRow::schema()),
    ];
    for (file, schema) in schemas {
        let section =
            document.split("\n## ").find(|section| section.starts_with(&format!("`{file}`"))).unwrap();
        let documented: Vec<&str> =
            section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
        let columns: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(documented, columns, "{file}");
    }
}

#[test]
fn what_was_counted_survives_being_written() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    let bucket = Bucket {
        time: 7,
        probe: Probe::Translate,
        vm: None,
        device: Some(DeviceId(2)),
        kind: CallKind::Iotlb,
        visited: Some(510),
        clock: HistogramClock::OnCpu,
        low: 64,
        high: 64,
        count: u64::MAX,
        sum: u64::MAX,
    };
    let account = Account { entries: 3, nested: 1, missed_returns: u64::MAX, ..Account::default() };
    let row =
        AccountRow { time: 7, probe: Probe::Ple, vm: Some(VmId(1)), device: None, account, in_flight: 2 };
    let mut writer = create(&dir);
    writer.push_bucket(&bucket).unwrap();
    writer.push_account(&row).unwrap();
    writer.finish(Meta::default()).unwrap();
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(recording.histograms().unwrap().collect::<Result<Vec<_>, _>>().unwrap(), [bucket]);
    assert_eq!(recording.accounts().unwrap().collect::<Result<Vec<_>, _>>().unwrap(), [row]);
}

#[test]
fn a_recording_of_version_1_opens_with_what_it_has() {
    let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/slots-churn-6.12"));
    let recording = Recording::open(dir).unwrap();
    assert_eq!(recording.meta().schema, 1);
    let faults: Vec<_> = recording.faults().unwrap().collect::<Result<_, _>>().unwrap();
    assert!(!faults.is_empty() && faults.iter().all(|fault| fault.on_cpu.is_none()));
    assert_eq!((recording.histograms().unwrap().count(), recording.accounts().unwrap().count()), (0, 0));
    for meta in recording.meta().probes.values() {
        assert!(meta.is_whole(0), "{meta:?}");
    }
}
