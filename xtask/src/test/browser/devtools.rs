//! A headless Chromium, spoken to through pipes by its own protocol: no port, no driver.

use crate::scratch;
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long an answer may take where others use the machine too.
const PATIENCE: Duration = Duration::from_secs(120);

/// The browser with one page.
pub(super) struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: Option<String>,
    number: u64,
    /// What it said without being asked, since it was last cleared.
    events: Vec<Value>,
    // After the browser, which writes there.
    _profile: TempDir,
}

impl Browser {
    /// Starts it with an empty page.
    pub(super) fn start() -> Result<Self> {
        let profile = scratch::directory(&crate::paths::target().join("tmp"))?;
        let pipe = |name: &str| profile.path().join(name);
        for name in ["in", "out"] {
            crate::command::Tool::new("mkfifo").arg(pipe(name)).output()?;
        }
        // The protocol takes the file descriptors 3 and 4. The pages are ours, so root needs no sandbox; whatever a
        // page asks for, no name resolves.
        let script = "exec chromium --headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars \
                      --disable-background-networking --disable-component-update --host-resolver-rules='MAP * ~NOTFOUND' \
                      --remote-debugging-pipe --user-data-dir=\"$1\" 3<\"$2\" 4>\"$3\"";
        let child = Command::new("sh")
            .args(["-c", script, "sh"])
            .args([pipe("profile"), pipe("in"), pipe("out")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a shell")?;
        let to = OpenOptions::new().write(true).open(pipe("in")).context("cannot open the browser's pipe")?;
        let out = File::open(pipe("out")).context("cannot open the browser's pipe")?;
        let mut browser = Self {
            child,
            to,
            from: listen(out),
            session: None,
            number: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached = browser
            .call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }))?;
        browser.session = Some(attached["sessionId"].as_str().context("no session")?.to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// Calls a method and waits for its answer.
    pub(super) fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let gone = || format!("{method}: the browser has gone");
        self.to.write_all(format!("{message}\0").as_bytes()).with_context(gone)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut answer = self.next(deadline).with_context(|| method.to_owned())?;
            if answer["id"] != self.number {
                self.events.push(answer);
            } else if answer["error"].is_null() {
                return Ok(answer["result"].take());
            } else {
                bail!("{method}: {}", answer["error"]);
            }
        }
    }

    fn next(&self, deadline: Instant) -> Result<Value> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.from.recv_timeout(left).map_err(|_| anyhow!("the browser says nothing"))
    }

    /// Opens a file and waits until it is loaded; everything said from then on is in [`Self::events`].
    pub(super) fn open(&mut self, file: &Path) -> Result<()> {
        self.events.clear();
        let answer = self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }))?;
        ensure!(answer["errorText"].is_null(), "{}: {}", file.display(), answer["errorText"]);
        let deadline = Instant::now() + PATIENCE;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next(deadline).context("the page does not load")?;
            self.events.push(event);
        }
        Ok(())
    }

    /// The value of an expression in the page.
    pub(super) fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", parameters)?;
        ensure!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        Ok(answer["result"]["value"].take())
    }

    /// Errors on the console, and addresses that were asked for, other than the file and what it holds itself.
    pub(super) fn complaints(&self) -> Vec<String> {
        let complaint = |event: &Value| {
            let parameters = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(format!("exception: {}", parameters["exceptionDetails"])),
                "Runtime.consoleAPICalled" => Some(format!("console: {}", parameters["args"])),
                "Log.entryAdded" => Some(format!("log: {}", parameters["entry"]["text"])),
                "Network.requestWillBeSent" => {
                    let url = parameters["request"]["url"].as_str().unwrap_or_default();
                    let own = url.starts_with("file://") && parameters["type"] == "Document";
                    (!own && !url.starts_with("data:")).then(|| format!("request: {url}"))
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its children go with it.
        let _ = self.call("Browser.close", json!({}));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads messages, which end with a zero byte.
fn listen(out: File) -> Receiver<Value> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut out = BufReader::new(out);
        let mut message = Vec::new();
        while out.read_until(0, &mut message).is_ok_and(|length| length > 0) {
            message.pop();
            let parsed = serde_json::from_slice(&message);
            message.clear();
            if parsed.is_ok_and(|value: Value| send.send(value).is_err()) {
                break;
            }
        }
    });
    receive
}
