//! Reports as a person sees them: in a real browser, light and dark, sorted and printed.

mod devtools;

use super::cargo;
use crate::{command::Tool, paths, setup};
use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use devtools::Browser;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Recordings of real kernels.
const FIXTURES: &str = "memslot-user/tests/fixtures";
/// The name of a VM that wants to be more than a name.
const HOSTILE: &str =
    "</td><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u{1b}[2J";

/// `binary` is a `memslot` that is there already; without one it is built.
pub(super) fn run(binary: Option<&Path>) -> Result<()> {
    setup::ensure_browser()?;
    let out = paths::target().join("test/browser");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let fixture = |name: &str| paths::workspace().join(FIXTURES).join(name);
    let comparison = out.join("comparison");
    memslot(
        binary,
        "compare",
        &comparison,
        &["--before".into(), fixture("ple-over-6.1"), "--after".into(), fixture("ple-over-6.12")],
    )?;
    let reports = [
        (
            "recordings",
            vec![fixture("slots-churn-6.12"), fixture("ple-over-6.12"), fixture("regions-cross-6.1")],
        ),
        ("hostile", vec![hostile(&fixture("slots-churn-6.12"), &out)?]),
        ("compared", vec![comparison]),
    ];
    let mut browser = Browser::start()?;
    for (name, sources) in reports {
        let file = out.join(format!("{name}.html"));
        memslot(binary, "report", &file, &sources)?;
        check(&mut browser, &file).with_context(|| format!("report of {name}"))?;
        screenshots(&mut browser, &out, name)?;
        println!("{name}: {}", file.display());
    }
    Ok(())
}

/// Runs the command; 1 means that something is missing or lost, as in these fixtures.
fn memslot(binary: Option<&Path>, command: &str, out: &Path, sources: &[PathBuf]) -> Result<()> {
    let tool = binary.map_or_else(
        || {
            cargo().args([
                "run",
                "--quiet",
                "--locked",
                "--package",
                "memslot-user",
                "--bin",
                "memslot",
                "--",
            ])
        },
        Tool::new,
    );
    let tool = tool.args([command, "--out"]).arg(out).args(sources);
    let (code, _, said) = tool.answer()?;
    ensure!(code <= 1, "{}: exit code {code}\n{said}", tool.command_line());
    Ok(())
}

/// A copy of a recording whose names are hostile.
fn hostile(fixture: &Path, out: &Path) -> Result<PathBuf> {
    let copy = out.join("hostile.rec");
    fs::create_dir_all(&copy)?;
    for entry in fs::read_dir(fixture)? {
        let entry = entry?;
        fs::copy(entry.path(), copy.join(entry.file_name()))?;
    }
    let meta = copy.join("meta.json");
    let mut value: Value = serde_json::from_str(&fs::read_to_string(&meta)?)?;
    value["label"] = HOSTILE.into();
    value["host"]["name"] = HOSTILE.into();
    value["vms"] = json!([{ "vm": 0, "pid": 1, "name": HOSTILE, "older": false }]);
    fs::write(&meta, value.to_string())?;
    Ok(copy)
}

fn check(browser: &mut Browser, file: &Path) -> Result<()> {
    browser.open(file)?;
    // Images decode in their own time.
    browser.evaluate("Promise.all([...document.images].map(image => image.decode()))")?;
    let images = browser.evaluate("[...document.images].map(image => image.naturalWidth)")?;
    let images = images.as_array().context("no list of images")?;
    ensure!(images.iter().all(|width| width.as_u64() > Some(0)), "images that were not decoded: {images:?}");
    let drawn =
        browser.evaluate("[...document.querySelectorAll('figure svg')].map(svg => svg.getBBox().width)")?;
    let drawn = drawn.as_array().context("no list of charts")?;
    ensure!(drawn.iter().all(|width| width.as_f64() > Some(100.0)), "charts of no width: {drawn:?}");
    ensure!(images.len() + drawn.len() > 0, "no chart at all");
    sort(browser)?;
    let title = browser.evaluate("document.title")?;
    ensure!(title.as_str().is_some_and(|title| title.starts_with("memslot: ")), "the title is {title}");
    let wide =
        browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")?;
    ensure!(wide.as_i64() == Some(0), "the page is {wide} pixels wider than the window");
    let complaints = browser.complaints();
    ensure!(complaints.is_empty(), "the browser complains:\n{}", complaints.join("\n"));
    Ok(())
}

/// Clicks on the heading of the first column of figures with different values, twice, and looks at the order.
fn sort(browser: &mut Browser) -> Result<()> {
    let script = "(() => {
        for (const heading of document.querySelectorAll('th.figure')) {
            const table = heading.closest('table');
            const column = [...heading.parentElement.children].indexOf(heading);
            const values = () => [...table.tBodies[0].rows].map(row => row.children[column].dataset.v)
                .filter(value => value !== undefined).map(Number);
            if (new Set(values()).size < 2) continue;
            const button = heading.querySelector('button');
            button.click();
            const up = values(), mark = heading.getAttribute('aria-sort');
            button.click();
            return { up, mark, down: values(), turned: heading.getAttribute('aria-sort') };
        }
        return null;
    })()";
    let found = browser.evaluate(script)?;
    let values =
        |key: &str| -> Option<Vec<f64>> { found[key].as_array()?.iter().map(Value::as_f64).collect() };
    let (up, down) = values("up").zip(values("down")).context("no column of figures could be sorted")?;
    ensure!(up.is_sorted() && down.iter().rev().is_sorted(), "sorted up {up:?}, down {down:?}");
    ensure!(found["mark"] == "ascending" && found["turned"] == "descending", "the marks are {found}");
    Ok(())
}

/// Light, dark, and printed, beside the report; and whether they are what they should be.
fn screenshots(browser: &mut Browser, out: &Path, name: &str) -> Result<()> {
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        browser.call("Emulation.setEmulatedMedia", json!({ "features": features }))?;
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": false }),
        )?;
        grounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor")?);
        let shot = browser.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }))?;
        write(&out.join(format!("{name}-{scheme}.png")), &shot, b"\x89PNG")?;
    }
    ensure!(grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"], "light and dark are {grounds:?}");
    let printed = browser.call("Page.printToPDF", json!({}))?;
    write(&out.join(format!("{name}.pdf")), &printed, b"%PDF")
}

fn write(path: &Path, answer: &Value, magic: &[u8]) -> Result<()> {
    let data = answer["data"].as_str().context("the browser sent no data")?;
    let bytes = STANDARD.decode(data).context("the browser sent no base64")?;
    ensure!(bytes.starts_with(magic) && bytes.len() > 5000, "{} is nothing", path.display());
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
