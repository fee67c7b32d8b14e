//! The terminal: taken, and given back as it was, whatever happens.

use super::app::{Answer, App};
use super::source::{Error as SourceError, Polled, Source};
use super::view;
use crossterm::event::{self, Event};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use std::io::{self, Stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a key is waited for before the source is looked at again: its ring must not fill up.
const WAIT: Duration = Duration::from_millis(20);

/// Why the screen ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The terminal refused.
    #[error("the terminal cannot be used: {}; --once and --json do without", .0.kind())]
    Terminal(#[from] io::Error),
    /// The figures ended.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// The terminal while it is ours. Dropping it gives it back.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    fn open() -> io::Result<Self> {
        take()?;
        // From here on it must be given back.
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide).inspect_err(|_| give_back())
}

/// What fails here cannot be told any more: the terminal may be gone.
fn give_back() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

/// A panic's message belongs on the terminal as it was, not on our screen.
fn give_back_before_a_panic_speaks() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        usual(panic);
    }));
}

/// Shows the source until a key or a signal ends it, or after so many intervals. `after_draw` is called after
/// each picture.
///
/// # Errors
/// When the terminal or the source fails; the terminal is given back.
pub fn run(
    source: &mut dyn Source,
    app: &mut App,
    most: Option<u64>,
    after_draw: &mut dyn FnMut(),
) -> Result<(), Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    give_back_before_a_panic_speaks();
    let mut screen = Screen::open()?;
    let (mut is_stale, mut intervals) = (true, 0);
    while !stop.load(Ordering::Relaxed) {
        match source.poll()? {
            Polled::Nothing => {}
            Polled::Tick(tick) => {
                app.take(*tick);
                is_stale = true;
                intervals += 1;
            }
            Polled::End => {
                is_stale |= !app.ended;
                app.ended = true;
            }
        }
        if is_stale {
            screen.terminal.draw(|frame| view::draw(frame, app))?;
            is_stale = false;
            after_draw();
            if most.is_some_and(|most| intervals >= most) {
                break;
            }
        }
        if !event::poll(WAIT)? {
            continue;
        }
        is_stale = true;
        if let Event::Key(key) = event::read()? {
            match app.key(key) {
                Answer::Draw => {}
                Answer::Quit => break,
                Answer::Suspend => {
                    give_back();
                    signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
                    take()?;
                    screen.terminal.clear()?;
                }
            }
        }
    }
    Ok(())
}
