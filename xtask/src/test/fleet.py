"""Reads memslot's exports by DuckDB, polars and pyarrow, and what it serves by Prometheus.

Called by `cargo xtask test --stage fleet` with: memslot, the workspace, the folder of what the lab left, prometheus and
promtool. Whatever is not as it must be is an AssertionError.
"""

import glob
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import duckdb
import polars
import pyarrow
import pyarrow.compute as compute
import pyarrow.dataset
import pyarrow.ipc
from hdrh.log import HistogramLogReader
from hdrh.histogram import HdrHistogram

MEMSLOT, WORKSPACE, LAB, PROMETHEUS, PROMTOOL = (Path(word).resolve() for word in sys.argv[1:6])
FIXTURES = WORKSPACE / "memslot-user/tests/fixtures"
DOCS = WORKSPACE / "docs"
KERNELS = ["6.1", "6.12"]
TABLES = ["faults", "ple_exits", "translations", "slots", "regions", "histograms", "accounts"]


def run(*words, code=(0,), **options):
    """Runs a command and returns what it printed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert done.returncode in code, f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def until(what, ask, seconds=120):
    """Asks until there is an answer; a machine that is busy may take its time."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"{what}: still nothing after {seconds} s"
        time.sleep(0.1)


def blocks(document, language):
    """The code blocks of a document."""
    return re.findall(rf"```{language}\n(.*?)```", document, re.DOTALL)


def recordings():
    """Every recording that is read here: the fixtures of each version, and the lab's."""
    kept = [path.parent for path in sorted(FIXTURES.glob("*/meta.json"))]
    fresh = [path.parent for path in sorted(LAB.glob("6.*/*.rec/meta.json"))]
    assert len(kept) >= 5 and len(fresh) >= 6, (kept, fresh)
    return kept, fresh


def check_recordings(every):
    """A recording is read without memslot, whatever its version, and both readers find the same."""
    versions = set()
    for path in every:
        meta = json.loads((path / "meta.json").read_text())
        versions.add(meta["schema"])
        events = {"faults": "page_fault", "ple_exits": "ple", "translations": "translate"}
        for table in TABLES if meta["schema"] >= 2 else TABLES[:5]:
            file = path / f"{table}.arrow"
            arrow = pyarrow.ipc.open_stream(file.open("rb")).read_all()
            frame = polars.read_ipc_stream(file)
            assert arrow.num_rows == frame.height, file
            assert arrow.schema.metadata[b"memslot.schema"] == str(meta["schema"]).encode(), file
            assert arrow.column_names == frame.columns, file
            for name in ["latency", "visited", "base_gfn", "count", "entries"]:
                if name in frame.columns:
                    assert compute.sum(arrow[name]).as_py() in (frame[name].sum(), None), (file, name)
            probe = meta["probes"].get(events.get(table))
            if probe:
                assert arrow.num_rows == probe["events"], file
    assert versions == {1, 2}, versions
    print(f"{len(every)} recordings of versions {sorted(versions)} read by pyarrow and polars")


def export(every, folder):
    """Exports everything into one folder, as a fleet would."""
    listed = json.loads(run(MEMSLOT, "export", *every, "--out", folder, "--json", code=(0, 1)))
    assert len(listed["files"]) == 12 * len(every), len(listed["files"])
    return listed


def check_exports(every, folder):
    """DuckDB, polars and pyarrow read the folder as one table, and find what memslot finds."""
    expected = {}
    for path in every:
        meta = json.loads((path / "meta.json").read_text())
        table = pyarrow.ipc.open_stream((path / "faults.arrow").open("rb")).read_all()
        key = (meta["host"]["name"], meta["host"]["kernel"])
        rows, total = expected.get(key, (0, 0))
        expected[key] = (rows + table.num_rows, total + (compute.sum(table["latency"]).as_py() or 0))
    expected = {key: value for key, value in expected.items() if value[0]}
    assert len({host for host, _ in expected}) >= 4 and len({kernel for _, kernel in expected}) >= 2, expected

    pattern = f"{folder}/faults/**/*.parquet"
    rows = duckdb.sql(
        "SELECT host, kernel, count(*), sum(latency)::BIGINT FROM read_parquet($pattern, hive_partitioning = true) "
        "GROUP BY ALL",
        params={"pattern": pattern},
    ).fetchall()
    assert {(host, kernel): (count, total) for host, kernel, count, total in rows} == expected, rows

    frame = polars.scan_parquet(pattern, hive_partitioning=True)
    grouped = frame.group_by("host", "kernel").agg(polars.len(), polars.col("latency").sum()).collect()
    found = {(row[0], row[1]): (row[2], row[3]) for row in grouped.iter_rows()}
    assert found == expected, found

    dataset = pyarrow.dataset.dataset(f"{folder}/faults", format="parquet", partitioning="hive").to_table()
    grouped = dataset.group_by(["host", "kernel"]).aggregate([("latency", "count"), ("latency", "sum")]).to_pylist()
    found = {(row["host"], row["kernel"]): (row["latency_count"], row["latency_sum"]) for row in grouped}
    assert found == expected, found

    # The wall clock stands in the recording's own second.
    late = duckdb.sql(
        "SELECT count(*) FROM read_parquet($faults, hive_partitioning = true) f JOIN read_parquet($recordings) r "
        "USING (recording) WHERE epoch_ns(f.at) < r.start OR epoch_ns(f.at) > r.start + coalesce(r.duration, 0)",
        params={"faults": pattern, "recordings": f"{folder}/recordings/**/*.parquet"},
    ).fetchall()[0]
    assert late == (0,), late
    print(f"{sum(count for count, _ in expected.values())} faults of {len(expected)} hosts read by DuckDB, polars and pyarrow")


def check_texts(path, folder):
    """CSV and NDJSON hold what Parquet holds, and a histogram log what the histograms hold."""
    for format, reader in [("csv", "read_csv"), ("ndjson", "read_ndjson")]:
        run(MEMSLOT, "export", path, "--format", format, "--out", folder / format, code=(0, 1))
        totals = []
        for source, function, extension in [(folder / format, reader, format), (folder / "parquet", "read_parquet", "parquet")]:
            if extension == "parquet":
                run(MEMSLOT, "export", path, "--out", source, code=(0, 1))
            for table in ["faults", "histograms", "probes"]:
                file = glob.glob(f"{source}/{table}/**/*.{extension}", recursive=True)[0]
                number = {"faults": "gpa", "histograms": "sum", "probes": "entries"}[table]
                totals.append(duckdb.sql(f"SELECT count(*), sum({number})::HUGEINT FROM {function}('{file}')").fetchall()[0])
        assert totals[:3] == totals[3:], (format, totals)
    run(MEMSLOT, "export", path, "--format", "hdr", "--out", folder / "hdr", code=(0, 1))
    log = glob.glob(f"{folder}/hdr/histograms/**/*.hlog", recursive=True)[0]
    reader = HistogramLogReader(log, HdrHistogram(1, 3_600_000_000_000, 3))
    calls = 0
    while interval := reader.get_next_interval_histogram():
        calls += interval.get_total_count()
    meta = json.loads((path / "meta.json").read_text())
    counted = sum(probe["counted"] for probe in meta["probes"].values())
    assert calls == counted > 0, (calls, counted)
    print(f"{path.name}: CSV, NDJSON and Parquet agree; its HdrHistogram log holds all {calls} calls")


def check_document(folder):
    """The queries of docs/fleet.md run as they stand there, in a folder that holds `fleet`."""
    document = (DOCS / "fleet.md").read_text()
    queries, programs = blocks(document, "sql"), blocks(document, "python")
    assert len(queries) >= 4 and len(programs) >= 2, (len(queries), len(programs))
    here = os.getcwd()
    os.chdir(folder)
    try:
        for query in queries:
            rows = duckdb.connect().execute(query).fetchall()
            assert rows, f"no answer to\n{query}"
        for program in programs:
            exec(compile(program, "docs/fleet.md", "exec"), {"print": lambda *_: None})
    finally:
        os.chdir(here)
    print(f"{len(queries)} queries and {len(programs)} programs of docs/fleet.md run")


class Served:
    """`memslot serve` of a recording."""

    def __init__(self, *options):
        command = [str(MEMSLOT), "serve", "--listen", "127.0.0.1:0", "--json", *map(str, options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.address = json.loads(line)["listening"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, "serve did not end in order"

    def get(self, path="/metrics", accept="*/*"):
        request = urllib.request.Request(f"http://{self.address}{path}", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers["Content-Type"], answer.read()

    def memory(self):
        """Resident memory, KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))


class Prometheus:
    """A Prometheus that scrapes one target every second."""

    def __init__(self, folder, target, *options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % free.getsockname()[1]
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: ['{DOCS}/alerts/memslot.yml']\n"
            f"scrape_configs: [{{job_name: memslot, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        run(PROMTOOL, "check", "config", config)
        self.log = (folder / "prometheus.log").open("w")
        command = [PROMETHEUS, f"--config.file={config}", f"--storage.tsdb.path={folder}/data"]
        command += [f"--web.listen-address={self.address}", *options]
        self.process = subprocess.Popen(list(map(str, command)), stdout=self.log, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def ask(self, path, **parameters):
        assert self.process.poll() is None, "Prometheus has ended"
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None  # It is starting.
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        except OSError:
            return None

    def query(self, text):
        data = self.ask("query", query=text)
        return data["result"] if data else None

    def number(self, text):
        """The one number that a query has for an answer, once it has one."""
        [answer] = until(text, lambda: self.query(text))
        return float(answer["value"][1])


def buckets(path):
    """Wall times of a recording's page faults, as its histograms have them: low, high and count, ascending."""
    table = polars.read_ipc_stream(path / "histograms.arrow")
    faults = table.filter((polars.col("probe").cast(str) == "page_fault") & (polars.col("clock").cast(str) != "on_cpu"))
    return faults.group_by("low", "high").agg(polars.col("count").sum()).sort("low").rows()


def quantile(counted, q):
    """Bounds of the bucket that holds the quantile, s."""
    rank = q * sum(count for _, _, count in counted)
    below = 0
    for low, high, count in counted:
        below += count
        if below >= rank:
            return low * 1e-9, (high + 1) * 1e-9
    raise AssertionError("no quantile")


def check_prometheus(path, folder):
    """A real Prometheus scrapes what is served, in both forms of histograms, and answers quantile queries."""
    counted = buckets(path)
    calls = sum(count for _, _, count in counted)
    entries = json.loads((path / "meta.json").read_text())["probes"]["page_fault"]["account"]["entries"]
    with Served("--recording", path) as served:
        content_type, text = served.get(accept="application/openmetrics-text; version=1.0.0")
        assert content_type.startswith("application/openmetrics-text"), content_type
        assert text.endswith(b"# EOF\n")
        content_type, text = served.get()
        assert content_type.startswith("text/plain"), content_type
        lint = run(PROMTOOL, "check", "metrics", input=text.decode())
        assert lint == "", lint
        name = "memslot_call_duration_seconds"
        classic, native = folder / "classic", folder / "native"
        classic.mkdir()
        native.mkdir()
        with Prometheus(classic, served.address) as prometheus:
            found = prometheus.number(f'sum({name}_count{{probe="page_fault"}})')
            assert found == calls, (found, calls)
            found = prometheus.number('sum(memslot_entries_total{probe="page_fault"})')
            assert found == entries, (found, entries)
            for q in [0.5, 0.9, 0.99]:
                query = f'histogram_quantile({q}, sum by (le) ({name}_bucket{{probe="page_fault"}}))'
                found, (low, high) = prometheus.number(query), quantile(counted, q)
                # Classic buckets are octaves: the answer lies in the quantile's own.
                assert math.floor(math.log2(low * 1e9)) <= math.log2(found * 1e9) <= math.ceil(math.log2(high * 1e9)), (q, found, low)
            assert prometheus.number('memslot_build_info * 0 + 1') == 1
            check_dashboard(prometheus)
            check_alerts(prometheus)
        with Prometheus(native, served.address, "--enable-feature=native-histograms") as prometheus:
            found = prometheus.number(f'histogram_count(sum({name}{{probe="page_fault"}}))')
            assert found == calls, (found, calls)
            for q in [0.5, 0.9, 0.99]:
                found = prometheus.number(f'histogram_quantile({q}, sum({name}{{probe="page_fault"}}))')
                low, high = quantile(counted, q)
                # The middle of the quantile's own bucket lies in the native one, which is 4.4 % wide.
                assert low / 1.045 <= found <= high * 1.045, (q, found, low, high)
                print(f"p{100 * q:g} of {calls} faults: {found * 1e6:.3f} µs by native histograms, bucket {low * 1e6:.3f} to {high * 1e6:.3f} µs")
            lengths = prometheus.number('histogram_count(sum(memslot_search_length_nodes{probe="page_fault"}))')
            assert 0 < lengths <= calls, lengths


def variables(expression):
    """A dashboard's expression with its variables filled in."""
    expression = expression.replace("$__rate_interval", "5s").replace("$quantile", "0.99")
    return re.sub(r"\$(vm|probe|instance|kind)", ".*", expression)


def check_dashboard(prometheus):
    """Every expression of the Grafana dashboard is understood, and names metrics that are there."""
    dashboard = json.loads((DOCS / "grafana/memslot.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(expressions) >= 10, expressions
    known = set(prometheus.ask("label/__name__/values"))
    for expression in expressions:
        assert prometheus.query(variables(expression)) is not None, expression
        for name in re.findall(r"memslot_[a-z_]+", expression):
            assert name in known, f"{expression}: nothing is called {name}"
    print(f"{len(expressions)} expressions of the dashboard understood")


def check_alerts(prometheus):
    """The alert rules are loaded, none fails, and they fire on what they should (promtool's unit tests)."""
    run(PROMTOOL, "check", "rules", DOCS / "alerts/memslot.yml")
    run(PROMTOOL, "test", "rules", DOCS / "alerts/memslot-test.yml")
    groups = until("the rules", lambda: (prometheus.ask("rules") or {}).get("groups"))
    rules = [rule for group in groups for rule in group["rules"]]
    until("their evaluation", lambda: all(rule["health"] == "ok" for rule in prometheus.ask("rules")["groups"][0]["rules"]))
    print(f"{len(rules)} alert rules loaded and tested")


def check_clients(path):
    """1,000 slow, broken or silent clients neither keep others out nor take memory."""
    with Served("--recording", path) as served:
        _, whole = served.get()
        before = served.memory()
        host, port = served.address.split(":")
        clients = []
        for number in range(1000):
            client = socket.create_connection((host, int(port)), timeout=30)
            kind = number % 4
            try:
                if kind == 1:
                    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")
                elif kind == 2:
                    client.sendall(os.urandom(4096))
                elif kind == 3:
                    # It asks and never reads.
                    client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            except OSError:
                pass  # The server has closed it: that is its right.
            clients.append(client)
            if number % 100 == 99:
                # The server's own counters go on.
                assert len(served.get()[1]) >= len(whole) * 0.9
        after = served.memory()
        assert after - before < 8 * 1024, f"{before} KiB before, {after} KiB with 1,000 clients"
        threads = len(os.listdir(f"/proc/{served.process.pid}/task"))
        descriptors = len(os.listdir(f"/proc/{served.process.pid}/fd"))
        assert threads <= 4 and descriptors < 64, (threads, descriptors)
        for client in clients:
            client.close()
        print(f"1,000 clients: {before} KiB before, {after} KiB with them, {descriptors} descriptors")


def check_live():
    """What was served of a live kernel is what the workloads say that they caused."""
    functions = {"page_fault": "kvm_mmu_page_fault", "ple": "pause_interception", "translate": "translate_desc"}
    for kernel in KERNELS:
        folder = LAB / kernel
        expected = dict.fromkeys(functions, 0)
        for workload in ["slots", "ple", "vhost"]:
            result = json.loads((folder / f"served-{workload}.json").read_text().splitlines()[-1])
            assert result["exact"], result
            for probe, function in functions.items():
                expected[probe] += result["calls"][function]
        text = (folder / "served.txt").read_text()

        def total(name):
            found = dict.fromkeys(functions, 0)
            for probe, value in re.findall(rf'^{name}{{probe="(\w+)"[^}}]*}} (\S+)$', text, re.MULTILINE):
                found[probe] += int(float(value))
            return found

        for name in ["memslot_entries_total", "memslot_returns_total", "memslot_call_duration_seconds_count"]:
            assert total(name) == expected, (kernel, name, total(name), expected)
        for name in ["memslot_lost_calls_total", "memslot_account_residual", "memslot_calls_in_flight"]:
            assert not any(total(name).values()), (kernel, name, total(name))
        assert len(re.findall(r"^memslot_probe_attached{.*} 1$", text, re.MULTILINE)) == 3, text
        print(f"{kernel}: served live, exactly what was caused: {expected}")


def distinct(every):
    """Each recording once: a fixture may have been made by this very test."""
    def start(path):
        meta = json.loads((path / "meta.json").read_text())
        return meta["host"]["name"], meta["host"]["kernel"], meta["start"]["realtime"]

    return list({start(path): path for path in every}.values())


def main():
    kept, fresh = recordings()
    check_live()
    check_recordings(kept + fresh)
    every = distinct(kept + fresh)
    with tempfile.TemporaryDirectory(dir=LAB) as scratch:
        scratch = Path(scratch)
        export(every, scratch / "fleet")
        check_exports(every, scratch / "fleet")
        check_document(scratch)
        check_texts(LAB / "6.12/live.rec", scratch)
        check_prometheus(LAB / "6.12/histogram.rec", scratch)
        check_clients(LAB / "6.12/live.rec")


main()
