//! What every command does with its answer.

use std::io::{ErrorKind, Write};

/// Writes to standard output; that its reader has gone is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            anyhow::bail!("standard output cannot be written: {}; send it elsewhere", error.kind())
        }
        _ => Ok(()),
    }
}
