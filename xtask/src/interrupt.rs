//! Ctrl-C and SIGTERM: asked for while the lab runs, deadly as ever otherwise.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

struct State {
    /// A signal has come while somebody was looking after it.
    asked: Arc<AtomicBool>,
    /// Nobody looks after signals: the default action applies.
    idle: Arc<AtomicBool>,
    guards: AtomicUsize,
}

static STATE: OnceLock<State> = OnceLock::new();

/// While it lives, signals only set a flag, for the owner has something to clean up.
#[derive(Debug)]
pub(crate) struct Guard(());

/// The error of work that was given up on a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("interrupted; the guest was stopped")
    }
}

impl std::error::Error for Interrupted {}

/// Takes the signals over.
///
/// # Errors
/// When the handlers cannot be installed.
pub(crate) fn guard() -> Result<Guard> {
    if STATE.get().is_none() {
        let state = State {
            asked: Arc::new(AtomicBool::new(false)),
            idle: Arc::new(AtomicBool::new(true)),
            guards: AtomicUsize::new(0),
        };
        // Two threads may come here at once; only the one whose state is taken installs handlers.
        if STATE.set(state).is_ok()
            && let Some(state) = STATE.get()
        {
            for signal in [SIGINT, SIGTERM, SIGHUP] {
                flag::register_conditional_default(signal, Arc::clone(&state.idle))
                    .and_then(|_| flag::register(signal, Arc::clone(&state.asked)))
                    .context("cannot watch for Ctrl-C")?;
            }
        }
    }
    if let Some(state) = STATE.get() {
        state.guards.fetch_add(1, Ordering::SeqCst);
        state.idle.store(false, Ordering::SeqCst);
    }
    Ok(Guard(()))
}

impl Guard {
    /// Fails when a signal has come.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        match STATE.get() {
            Some(state) if state.asked.load(Ordering::SeqCst) => Err(Interrupted),
            _ => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(state) = STATE.get()
            && state.guards.fetch_sub(1, Ordering::SeqCst) == 1
        {
            state.idle.store(true, Ordering::SeqCst);
        }
    }
}
