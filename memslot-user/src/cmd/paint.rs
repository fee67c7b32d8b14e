//! Colours: which, and when. anstream takes them out again where they are not wanted: no terminal, `NO_COLOR`,
//! `--color never`.

use clap::ColorChoice;
use clap::builder::styling::{AnsiColor, Style, Styles};
use std::ffi::OsString;

/// Of errors.
pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Of remarks.
pub(super) const NOTE: Style = AnsiColor::Yellow.on_default().bold();
const HEADING: Style = Style::new().bold();
const RULE: Style = Style::new().dimmed();

/// Of help texts.
pub(crate) const HELP: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// What `--color` asks for, before the command line is parsed: help texts and errors of parsing obey it too.
/// What stands behind `--` is another program's.
pub(crate) fn asked(arguments: impl IntoIterator<Item = OsString>) -> ColorChoice {
    let mut arguments = arguments.into_iter().skip(1).map_while(|word| word.into_string().ok());
    let mut choice = ColorChoice::Auto;
    while let Some(word) = arguments.next() {
        let value = match word.split_once('=') {
            Some(("--color" | "--colour", value)) => Some(value.to_owned()),
            None if word == "--" => break,
            None if word == "--color" || word == "--colour" => arguments.next(),
            _ => None,
        };
        match value.as_deref() {
            Some("always") => choice = ColorChoice::Always,
            Some("never") => choice = ColorChoice::Never,
            Some("auto") => choice = ColorChoice::Auto,
            _ => {}
        }
    }
    choice
}

/// From here on everything that is printed obeys.
pub(crate) fn obey(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Headings stand out, rules stand back; figures stay as they are.
pub(super) fn tables(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut painted = String::with_capacity(text.len() + 64 * lines.len());
    for (at, line) in lines.iter().enumerate() {
        let style = match (line, lines.get(at + 2)) {
            (line, _) if is_rule(line) => Some(RULE),
            // A heading stands above the names of the columns, and these above their rule.
            (line, Some(rule)) if is_rule(rule) && !line.is_empty() => Some(HEADING),
            _ => None,
        };
        match style {
            Some(style) => {
                painted += &format!("{}{line}{}\n", style.render(), style.render_reset());
            }
            None => {
                painted += line;
                painted.push('\n');
            }
        }
    }
    painted
}

fn is_rule(line: &str) -> bool {
    !line.is_empty() && line.chars().all(|c| c == '─')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(words: &[&str]) -> ColorChoice {
        asked(["memslot"].iter().chain(words).map(OsString::from))
    }

    #[test]
    fn the_last_word_before_another_program_counts() {
        assert_eq!(choice(&["summary", "rec"]), ColorChoice::Auto);
        assert_eq!(choice(&["--color", "never", "summary"]), ColorChoice::Never);
        assert_eq!(choice(&["summary", "--color=always"]), ColorChoice::Always);
        assert_eq!(choice(&["--color=never", "record", "--", "ls", "--color=always"]), ColorChoice::Never);
        assert_eq!(choice(&["--color", "purple"]), ColorChoice::Auto);
    }

    #[test]
    fn headings_and_rules_are_painted_and_nothing_is_lost() {
        let text = "Heads\n  name   count\n────────\n  a          1\n\nnote\n";
        let painted = tables(text);
        assert!(painted.starts_with("\u{1b}[1mHeads\u{1b}[0m\n  name"), "{painted:?}");
        assert_eq!(painted.matches('\u{1b}').count(), 4);
        assert_eq!(anstream::adapter::strip_str(&painted).to_string(), text);
    }
}
