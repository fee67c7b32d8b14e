//! Each view and each key, on a screen that is no terminal.

use super::*;
use crate::model::{
    Bucket, CallKind, Class, DeviceId, Fault, Gpa, HistogramClock, PleExit, Probe, SearchLength, Translation,
    VmId,
};
use crate::recording::Recording;
use crate::replay::synthetic::{self, Shape};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn bucket(vm: u32, kind: CallKind, visited: Option<u32>, count: u64, latency: u64) -> Bucket {
    Bucket {
        time: 1,
        probe: if kind == CallKind::Boosted { Probe::Ple } else { Probe::PageFault },
        vm: Some(VmId(vm)),
        device: None,
        kind,
        visited,
        clock: HistogramClock::Both,
        low: 0,
        high: u64::MAX,
        count,
        sum: count * latency,
    }
}

fn exit(vcpu: u32, window: (u32, u32)) -> PleExit {
    PleExit {
        time: 5,
        latency: 900,
        on_cpu: None,
        on_spin: None,
        cpu: 0,
        vm: VmId(1),
        vcpu,
        window,
        yields: 0,
        boosted: 0,
        declined: 0,
        undercommit: 0,
    }
}

/// A second: VM 0 faults often and fast, VM 1 seldom, slowly, and with losses.
fn second() -> Tick {
    let mut tick = Tick { time: 7, span: 1_000_000_000, every: 10, ..Tick::default() };
    tick.names = [(Subject::Vm(VmId(0)), "web".to_owned()), (Subject::Vm(VmId(1)), "db".to_owned())].into();
    tick.add_bucket(&bucket(0, CallKind::Ram, Some(0), 900, 1000));
    tick.add_bucket(&bucket(0, CallKind::Ram, Some(4), 100, 2000));
    tick.add_bucket(&bucket(1, CallKind::Ram, Some(6), 50, 9000));
    tick.add_bucket(&bucket(1, CallKind::Boosted, None, 20, 4000));
    tick.add_lost(Probe::PageFault, Some(VmId(1)), None, 3);
    tick.add_ple_exit(&exit(0, (4096, 8192)));
    tick.add_ple_exit(&exit(3, (3000, 6000)));
    tick.add_fault(&Fault {
        time: 1,
        latency: 1500,
        on_cpu: None,
        cpu: 0,
        vm: VmId(0),
        vcpu: 2,
        gpa: Gpa(0),
        error_code: 0,
        class: Class::Ram,
        as_id: 0,
        slot: Some(1),
        last_used: None,
        ret: 1,
        length: Some(SearchLength { visited: 5, touched: 5 }),
        generation: 2,
        ambiguous: false,
    });
    tick.add_translation(&Translation {
        time: 1,
        latency: 700,
        on_cpu: None,
        cpu: 0,
        device: DeviceId(0),
        table: crate::model::TableId(0),
        worker: 1,
        queue: Some(1),
        addr: 0,
        len: 1,
        access: 1,
        ret: 1,
        regions: 3,
        length: Some(SearchLength { visited: 2, touched: 3 }),
        is_iotlb: false,
    });
    tick.give_windows();
    tick
}

fn app() -> App {
    let mut app = App::new("lab, Linux 6.12".into(), By::Vm, Sort::Rate, String::new(), false);
    app.take(second());
    app
}

fn press(app: &mut App, keys: &str) -> Answer {
    let mut answer = Answer::Draw;
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            key => KeyCode::Char(key),
        };
        answer = app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }
    answer
}

/// The screen as text, a line each.
fn screen(app: &App, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    (0..height)
        .map(|y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned())
        .collect()
}

fn shown(app: &App) -> Vec<String> {
    screen(app, (110, 30))
}

/// The words of the rows below the headings.
fn names(app: &App) -> Vec<String> {
    let lines = shown(app);
    let head = lines.iter().position(|line| line.contains("FUNCTION")).unwrap();
    lines[head + 1..].iter().take_while(|line| !line.is_empty()).cloned().collect()
}

#[test]
fn by_vm_every_call_counts() {
    let app = app();
    let lines = shown(&app);
    assert_eq!(lines[0], "memslot top   lab, Linux 6.12   by VM and device, every call");
    assert_eq!(lines[1], "interval 1.00 s   1,070 calls/s   3 lost since the start");
    let rows = names(&app);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        words(&rows[0]),
        [
            "VM",
            "0",
            "web",
            "page_fault",
            "1,000",
            "1.00",
            "µs",
            "2.00",
            "µs",
            "2.00",
            "µs",
            "0.4",
            "90",
            "%",
            "–",
            "0"
        ]
    );
    assert_eq!(
        words(&rows[1]),
        [
            "VM",
            "1",
            "db",
            "page_fault",
            "50",
            "9.00",
            "µs",
            "9.00",
            "µs",
            "9.00",
            "µs",
            "6",
            "0",
            "%",
            "–",
            "3"
        ]
    );
    // Windows are those of the vCPUs; a PLE exit searches nothing.
    assert!(rows[2].contains("ple") && rows[2].contains("3000–8192") && rows.len() == 3, "{rows:?}");
}

#[test]
fn by_vcpu_and_queue_the_sample_counts_and_says_so() {
    let mut app = app();
    press(&mut app, "c");
    let lines = shown(&app);
    assert!(lines[0].ends_with("by vCPU, from one call in 10"), "{}", lines[0]);
    let rows = names(&app);
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().any(|row| row.starts_with("VM 0/2 web") && row.contains("~10")), "{rows:?}");
    assert!(rows.iter().any(|row| row.starts_with("VM 1/3 db") && row.contains("3000–6000")), "{rows:?}");
    press(&mut app, "u");
    assert!(names(&app)[0].starts_with("device 0/1"), "{:?}", names(&app));
    press(&mut app, "\t");
    assert_eq!(app.by, By::Vm);
    // Without events there is nothing by vCPU, and the heading says what to do.
    let mut none = App::new(String::new(), By::Vcpu, Sort::Rate, String::new(), false);
    none.take(Tick { span: 1, ..Tick::default() });
    assert!(shown(&none)[0].contains("needs --mode sample:N or events"));
    assert!(shown(&none).iter().any(|line| line == "no call yet"));
}

#[test]
fn rows_are_sorted_by_every_column_and_turned_round() {
    let mut app = app();
    for (sort, first) in [
        (Sort::Name, "VM 0 web"),
        (Sort::Rate, "VM 0 web"),
        (Sort::P50, "VM 1 db"),
        (Sort::P99, "VM 1 db"),
        (Sort::Max, "VM 1 db"),
        (Sort::Nodes, "VM 1 db"),
        (Sort::Hits, "VM 0 web"),
        (Sort::Window, "VM 1 db"),
        (Sort::Lost, "VM 1 db"),
    ] {
        app.sort = sort;
        assert!(names(&app)[0].starts_with(first), "{sort:?}: {:?}", names(&app));
        assert!(shown(&app)[2].contains('▼'));
    }
    app.sort = Sort::Rate;
    press(&mut app, "r");
    assert!(names(&app)[0].contains("ple") && shown(&app)[2].contains("CALLS/S▲"));
    press(&mut app, "s");
    assert_eq!(app.sort, Sort::P50);
    press(&mut app, "<<<");
    assert_eq!(app.sort, Sort::Lost, "round");
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut app = app();
    press(&mut app, "/DBx");
    assert!(shown(&app)[29].starts_with("rows that hold: DBx▏"), "{}", shown(&app)[29]);
    assert!(shown(&app).iter().any(|line| line == "no row holds the filter's text"));
    press(&mut app, "\u{8}\n");
    assert!(names(&app).iter().all(|row| row.starts_with("VM 1 db")));
    assert!(shown(&app)[29].contains("rows that hold \"DB\""));
    // What is a key elsewhere is text here, and q does not quit.
    assert_eq!(press(&mut app, "/q"), Answer::Draw);
    press(&mut app, "\u{1b}");
    assert_eq!((app.filter.as_str(), names(&app).len()), ("", 3));
    press(&mut app, "/ple\n");
    assert_eq!(names(&app).len(), 1, "by function too");
}

#[test]
fn while_paused_nothing_moves_and_nothing_is_lost() {
    let mut app = app();
    press(&mut app, "p");
    let before = names(&app);
    app.take(second());
    app.take(second());
    assert_eq!(names(&app), before);
    assert!(shown(&app)[1].contains("PAUSED"));
    press(&mut app, " ");
    // What came meanwhile is one interval of two seconds.
    assert!(shown(&app)[1].starts_with("interval 2.00 s   1,070 calls/s   9 lost"), "{}", shown(&app)[1]);
    press(&mut app, "t");
    assert!(shown(&app)[1].starts_with("since the start 3.00 s"), "{}", shown(&app)[1]);
}

#[test]
fn the_histogram_is_of_the_selected_row() {
    let mut app = app();
    press(&mut app, "g");
    let lines = shown(&app);
    let pane = lines.iter().position(|line| line.contains("VM 0 web page_fault: latency of 1,000 calls"));
    let bars: Vec<&String> = lines[pane.unwrap()..].iter().filter(|line| line.contains('█')).collect();
    assert!(bars[0].contains("900") && bars.len() >= 2, "{bars:?}");
    let length = |line: &str| line.chars().filter(|c| *c == '█').count();
    assert!((length(bars[0]) / length(bars[bars.len() - 1]).max(1)) >= 8, "{bars:?}");
    press(&mut app, "j");
    assert!(shown(&app).iter().any(|line| line.contains("VM 1 db page_fault: latency of 50 calls")));
    press(&mut app, "jjjjjj");
    assert_eq!(app.selected, 2, "no further than the last");
    press(&mut app, "kkkk\n");
    assert_eq!((app.selected, app.histogram), (0, false));
}

#[test]
fn help_names_every_key_and_any_key_closes_it() {
    let mut app = app();
    press(&mut app, "?");
    let text = shown(&app).join("\n");
    for word in [
        "memslot top: keys",
        "by VM and device",
        "sort by another column",
        "pause",
        "histogram",
        "quit",
        "last-used slot",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!(press(&mut app, "q"), Answer::Draw, "the key closes the help and does nothing else");
    assert!(!app.help);
}

#[test]
fn keys_end_and_suspend() {
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    let mut app = app();
    assert_eq!(press(&mut app, "q"), Answer::Quit);
    assert_eq!(press(&mut app, "\u{1b}"), Answer::Quit);
    assert_eq!(app.key(control('c')), Answer::Quit);
    assert_eq!(app.key(control('z')), Answer::Suspend);
    press(&mut app, "/");
    assert_eq!(app.key(control('c')), Answer::Quit, "also while typing");
}

#[test]
fn any_size_and_any_name_are_drawn() {
    let mut app = app();
    let mut tick = second();
    tick.names.insert(Subject::Vm(VmId(0)), crate::chart::text::plain("\u{1b}[2Jx\u{7}"));
    app.take(tick);
    press(&mut app, "g?");
    for size in [(1, 1), (2, 3), (20, 5), (80, 24), (300, 100)] {
        for line in screen(&app, size) {
            assert!(!line.contains('\u{1b}'), "{line}");
        }
    }
    app.help = false;
    assert!(screen(&app, (110, 30)).iter().any(|line| line.starts_with("VM 0 \u{fffd}[2Jx\u{fffd}")));
}

#[test]
fn json_holds_what_the_table_shows() {
    let app = app();
    let line = json::line(&app.rows(), app.by, app.shown()).unwrap();
    assert!(line.ends_with('\n') && line.matches('\n').count() == 1);
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&value["schema"], &value["by"], &value["lost"]), (&1.into(), &"vm".into(), &3.into()));
    let first = &value["rows"][0];
    assert_eq!(
        (&first["vm"], &first["vcpu"], &first["calls"]),
        (&0.into(), &serde_json::Value::Null, &1000.into())
    );
    assert_eq!((&first["last_used_hit_share"], &first["mean_visited"]), (&0.9.into(), &0.4.into()));
    assert_eq!(value["rows"][2]["window"]["high"], 8192);
    let text = text::table_of(&app.rows(), app.shown());
    assert!(text.starts_with("In 1.00 s, 3 lost\n") && text.contains("VM 0 web"), "{text}");
}

#[test]
fn a_recording_is_replayed_to_its_last_call() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("r");
    synthetic::write(&dir, &Shape { faults: 3000, churn: 0, translations: 700, ..Shape::default() }).unwrap();
    let recording = Recording::open(&dir).unwrap();
    let mut source = Replay::new(&recording, None).unwrap();
    let mut whole = Tick::default();
    let mut ticks = 0;
    loop {
        match source.poll().unwrap() {
            Polled::Tick(tick) => whole.merge(*tick),
            Polled::End => break,
            Polled::Nothing => panic!("it never waits"),
        }
        ticks += 1;
    }
    assert!(ticks >= 1);
    let calls = |by| rows(&whole, by, (Sort::Name, false), "").iter().map(|row| row.calls).sum::<u64>();
    assert_eq!(calls(By::Vcpu), 3000);
    assert_eq!(calls(By::Queue), 700);
    assert_eq!(calls(By::Vm), 3700);
    let vcpus = rows(&whole, By::Vcpu, (Sort::Name, false), "");
    assert_eq!(vcpus.len(), 4);
    assert!(vcpus.iter().all(|row| row.nodes.is_some() && row.hits.is_some() && !row.estimated));
}
