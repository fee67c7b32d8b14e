//! What every command does with its answer and with what it has to say besides.
//!
//! A reader that has gone is no error anywhere: `memslot summary rec | head` ends as it should.

use super::paint;
use anyhow::Context;
use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// Writes to standard output; that its reader has gone is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    written(anstream::stdout().write_all(text.as_bytes()))
}

/// Prints tables, or other text with headings, for people: coloured where colours are wanted.
pub(crate) fn print_tables(text: &str) -> anyhow::Result<()> {
    print(&paint::tables(text))
}

/// Prints a document of JSON.
pub(crate) fn print_json(document: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document).context("the answer cannot be written as JSON")? + "\n";
    print(&text)
}

/// Prints one line of NDJSON, at once.
pub(crate) fn print_line(document: &impl serde::Serialize) -> anyhow::Result<()> {
    let line = serde_json::to_string(document).context("the answer cannot be written as JSON")? + "\n";
    let mut out = std::io::stdout().lock();
    written(out.write_all(line.as_bytes()).and_then(|()| out.flush()))
}

/// What writing to standard output came to.
fn written(result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            anyhow::bail!("standard output cannot be written: {}; send it elsewhere", error.kind())
        }
        _ => Ok(()),
    }
}

/// A line on standard error, as it is. Where nobody reads it, it is not for us to fail.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// A remark on standard error, under our name.
pub(crate) fn note(text: impl Display) {
    say(format_args!("{}memslot:{} {text}", paint::NOTE.render(), paint::NOTE.render_reset()));
}

/// An error on standard error, under our name.
pub(crate) fn error(text: impl Display) {
    say(format_args!("{}memslot:{} {text}", paint::ERROR.render(), paint::ERROR.render_reset()));
}
