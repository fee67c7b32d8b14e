//! Served figures held against what was counted, and the server against clients of every kind.

use super::*;
use crate::model::{AccountRow, Bucket, CallKind, HistogramClock, Probe, VmId};
use crate::recording::{Account, ProbeMeta, VmMeta};
use memslot_common::histogram::{bounds, bucket_of};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn bucket(vm: u32, kind: CallKind, clock: HistogramClock, value: u64, count: u64) -> Bucket {
    let (low, high) = bounds(bucket_of(value));
    let visited = kind.searches().then_some(3);
    let vm = Some(VmId(vm));
    let probe = Probe::PageFault;
    Bucket { time: 1, probe, vm, device: None, kind, visited, clock, low, high, count, sum: value * count }
}

fn totals() -> Totals {
    let mut totals = Totals::new(MAX_VMS);
    totals.add_bucket(&bucket(0, CallKind::Ram, HistogramClock::Both, 1000, 7));
    totals.add_bucket(&bucket(0, CallKind::Ram, HistogramClock::Wall, 50_000, 2));
    totals.add_bucket(&bucket(0, CallKind::Ram, HistogramClock::OnCpu, 2000, 2));
    totals.add_bucket(&bucket(1, CallKind::MmioCached, HistogramClock::Both, 300, 4));
    let account =
        Account { entries: 13, begun: 13, returns: 13, finished: 13, missed: 2, ..Account::default() };
    let (probe, vm) = (Probe::PageFault, Some(VmId(0)));
    totals.add_account(&AccountRow { time: 1, probe, vm, device: None, account, in_flight: 0 });
    let vm = |vm: u32, name: &str| VmMeta {
        vm: VmId(vm),
        pid: 40 + vm,
        name: name.into(),
        older: false,
        gone: None,
    };
    totals.know(&[vm(0, "we\"b\\1"), vm(1, "db")], &[], 0);
    totals
}

fn snapshot() -> Snapshot {
    let source = Source {
        version: "1.2".into(),
        probes: [(Probe::PageFault, ProbeMeta::default())].into(),
        read_at: 1_500_000_000,
        ..Source::default()
    };
    totals().snapshot(&source)
}

fn text(format: Format) -> String {
    String::from_utf8(snapshot().render(format).to_vec()).unwrap()
}

#[test]
fn open_metrics_says_every_figure_once() {
    let text = text(Format::OpenMetrics);
    for line in [
        "# TYPE memslot_call_duration_seconds histogram",
        "# UNIT memslot_call_duration_seconds seconds",
        "memslot_build_info{version=\"1.2\",revision=\"\",kernel=\"\"} 1",
        "memslot_call_duration_seconds_bucket{probe=\"page_fault\",vm=\"we\\\"b\\\\1\",pid=\"40\",kind=\"ram\",le=\"5.12e-07\"} 0",
        "memslot_call_duration_seconds_bucket{probe=\"page_fault\",vm=\"we\\\"b\\\\1\",pid=\"40\",kind=\"ram\",le=\"1.024e-06\"} 7",
        "memslot_call_duration_seconds_bucket{probe=\"page_fault\",vm=\"we\\\"b\\\\1\",pid=\"40\",kind=\"ram\",le=\"+Inf\"} 9",
        "memslot_call_duration_seconds_count{probe=\"page_fault\",vm=\"we\\\"b\\\\1\",pid=\"40\",kind=\"ram\"} 9",
        "memslot_call_on_cpu_seconds_count{probe=\"page_fault\",vm=\"we\\\"b\\\\1\",pid=\"40\",kind=\"ram\"} 9",
        "memslot_search_length_nodes_bucket{probe=\"page_fault\",vm=\"we\\\"b\\\\1\",pid=\"40\",kind=\"ram\",le=\"3.0\"} 9",
        "memslot_lost_calls_total{probe=\"page_fault\",reason=\"missed\"} 2",
        "memslot_read_timestamp_seconds 1.5",
    ] {
        assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1);
    // A cached MMIO fault makes no search.
    assert!(!text.contains("memslot_search_length_nodes_count{probe=\"page_fault\",vm=\"db\""));
    let types: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut once = types.clone();
    once.dedup();
    assert_eq!(types, once);
}

#[test]
fn the_older_text_format_names_counters_by_their_series() {
    let text = text(Format::Text);
    assert!(text.contains("# TYPE memslot_lost_calls_total counter\n"));
    assert!(text.contains("# TYPE memslot_build_info gauge\n"));
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
}

#[test]
fn two_vms_of_one_name_and_process_are_one_series() {
    let mut totals = totals();
    totals.add_bucket(&bucket(2, CallKind::MmioCached, HistogramClock::Both, 300, 5));
    let twin = |vm: u32| VmMeta { vm: VmId(vm), pid: 41, name: "db".into(), older: false, gone: None };
    totals.know(&[twin(1), twin(2)], &[], 0);
    let rendered = totals.snapshot(&Source::default()).render(Format::Text);
    let text = String::from_utf8(rendered.to_vec()).unwrap();
    let line = "memslot_call_duration_seconds_count{probe=\"page_fault\",vm=\"db\",pid=\"41\",kind=\"mmio_cached\"} 9";
    assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{text}");
}

async fn server(limits: Limits) -> (Server, std::net::SocketAddr) {
    let server = Server::new(snapshot(), limits);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let running = server.clone();
    tokio::spawn(async move { running.run(listener, std::future::pending()).await });
    (server, address)
}

async fn ask(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

const GET: &str =
    "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n";

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn requests_get_what_they_ask_for() {
    block_on(async {
        let (server, address) = server(Limits::default()).await;
        let answer = ask(address, GET).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"));
        assert!(answer.contains("connection: close") && answer.ends_with("# EOF\n"));
        for (request, status) in [
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET /-/healthy HTTP/1.0\r\n\r\n", "200"),
            ("HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"),
            ("GET /../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "405"),
            ("nonsense\r\n\r\n", "400"),
        ] {
            let answer = ask(address, request).await;
            assert_eq!(answer.split(' ').nth(1), Some(status), "{request}: {answer}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The server may close before it has all.
        let _ = stream.write_all(long.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!String::from_utf8_lossy(&answer).contains(" 200 "));
        assert_eq!(server.served().evicted, 0);
    });
}

/// Whether the other side has closed, whatever it said before.
async fn is_closed(stream: &mut TcpStream) -> bool {
    loop {
        match tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0; 512])).await {
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => {}
            Err(_) => return false,
        }
    }
}

#[test]
fn a_thousand_clients_that_say_nothing_or_half_of_it_keep_nobody_out() {
    block_on(async {
        let limits =
            Limits { connections: 8, head: Duration::from_secs(600), whole: Duration::from_secs(600) };
        let (server, address) = server(limits).await;
        let mut idle = Vec::new();
        for number in 0..1000 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            match number % 3 {
                0 => {}
                1 => drop(stream.write_all(b"GET /metr").await),
                _ => drop(stream.write_all(&[0xff; 512]).await),
            }
            idle.push(stream);
            if number % 100 == 50 {
                assert!(ask(address, GET).await.ends_with("# EOF\n"));
            }
        }
        assert!(ask(address, GET).await.ends_with("# EOF\n"));
        let mut open = 0;
        for stream in &mut idle {
            open += usize::from(!is_closed(stream).await);
        }
        assert!(open < 8, "{open} of the idle clients still hold a place");
        let served = server.served();
        assert!(served.evicted > 600 && served.refused > 300, "{served:?}");
    });
}

#[test]
fn a_client_that_takes_too_long_is_let_go() {
    block_on(async {
        let limits =
            Limits { connections: 8, head: Duration::from_millis(50), whole: Duration::from_millis(200) };
        let (server, address) = server(limits).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        // It ends because the server closes it, however long this machine takes.
        let mut rest = Vec::new();
        let _ = silent.read_to_end(&mut rest).await;
        assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));
        while server.served().timed_out == 0 {
            tokio::task::yield_now().await;
        }
    });
}
