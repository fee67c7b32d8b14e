//! Shows what takes long: a spinner on a terminal, plain lines elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

/// Does `work` while saying so on standard error.
pub(crate) fn step<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let spinner = stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        let spinner = ProgressBar::new_spinner()
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
            .with_message(what.to_owned());
        spinner.enable_steady_tick(Duration::from_millis(120));
        spinner
    });
    if spinner.is_none() {
        eprintln!("xtask: {what} …");
    }
    let result = work();
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    let seconds = start.elapsed().as_secs();
    if seconds > 0 {
        eprintln!("xtask: {what}: {seconds} s");
    }
    result
}
