//! What is shown, and what each key does.

use super::figures::Figures;
use super::rows::{By, Row, Sort, rows};
use super::source::Tick;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What a key asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To draw again.
    Draw,
    /// To end.
    Quit,
    /// To stop until the shell goes on with it.
    Suspend,
}

/// The state of the screen.
#[derive(Clone, Debug)]
pub struct App {
    /// What is measured.
    pub title: String,
    /// Rows are of this.
    pub by: By,
    /// Sorted by this.
    pub sort: Sort,
    /// The other way round.
    pub reversed: bool,
    /// Only rows that hold this.
    pub filter: String,
    /// The filter is being typed.
    pub editing: bool,
    /// What comes is kept back.
    pub paused: bool,
    /// Figures since the start instead of the last interval's.
    pub total: bool,
    /// The histogram of the selected row is shown.
    pub histogram: bool,
    /// The help is shown.
    pub help: bool,
    /// Nothing will come any more.
    pub ended: bool,
    /// The selected row, from 0.
    pub selected: usize,
    /// Use colours.
    pub colour: bool,
    interval: Tick,
    since_start: Option<Tick>,
    /// What came while paused.
    held: Option<Tick>,
}

impl App {
    /// An empty screen.
    #[must_use]
    pub fn new(title: String, by: By, sort: Sort, filter: String, colour: bool) -> Self {
        Self {
            title,
            by,
            sort,
            reversed: false,
            filter,
            editing: false,
            paused: false,
            total: false,
            histogram: false,
            help: false,
            ended: false,
            selected: 0,
            colour,
            interval: Tick::default(),
            since_start: None,
            held: None,
        }
    }

    /// Takes an interval.
    pub fn take(&mut self, tick: Tick) {
        if self.paused {
            match &mut self.held {
                Some(held) => held.merge(tick),
                None => self.held = Some(tick),
            }
            return;
        }
        match &mut self.since_start {
            Some(total) => total.merge(tick.clone()),
            None => self.since_start = Some(tick.clone()),
        }
        self.interval = tick;
    }

    /// What is shown: the last interval, or everything since the start.
    #[must_use]
    pub fn shown(&self) -> &Tick {
        self.since_start.as_ref().filter(|_| self.total).unwrap_or(&self.interval)
    }

    /// Calls lost since the start.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.since_start.as_ref().map_or(0, Tick::lost)
    }

    /// The rows, sorted and filtered.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        rows(self.shown(), self.by, (self.sort, self.reversed), &self.filter)
    }

    /// The figures of a row.
    #[must_use]
    pub fn figures(&self, row: &Row) -> Option<&Figures> {
        let shown = self.shown();
        shown.counted.get(&row.key).or_else(|| shown.seen.get(&row.key))
    }

    /// Does what a key asks for.
    pub fn key(&mut self, key: KeyEvent) -> Answer {
        if key.kind == KeyEventKind::Release {
            return Answer::Draw;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Answer::Quit,
                KeyCode::Char('z') => Answer::Suspend,
                _ => Answer::Draw,
            };
        }
        if self.editing {
            self.edit(key.code);
            return Answer::Draw;
        }
        if self.help {
            // Any key closes it.
            self.help = false;
            return Answer::Draw;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Answer::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('v') => self.by = By::Vm,
            KeyCode::Char('c') => self.by = By::Vcpu,
            KeyCode::Char('u') => self.by = By::Queue,
            KeyCode::Tab => self.by = self.by.next(),
            KeyCode::Char('s' | '>') | KeyCode::Right => self.sort = self.sort.step(1),
            KeyCode::Char('<') | KeyCode::Left => self.sort = self.sort.step(Sort::ALL.len() - 1),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/') => self.editing = true,
            KeyCode::Char('t') => self.total = !self.total,
            KeyCode::Char('g') | KeyCode::Enter => self.histogram = !self.histogram,
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('j') | KeyCode::Down => self.selected += 1,
            KeyCode::Char('k') | KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = usize::MAX,
            _ => {}
        }
        self.selected = self.selected.min(self.rows().len().saturating_sub(1));
        Answer::Draw
    }

    fn edit(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.editing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.editing = false;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if !c.is_control() => self.filter.push(c),
            _ => {}
        }
        self.selected = 0;
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let Some(held) = self.held.take() {
            self.take(held);
        }
    }
}
