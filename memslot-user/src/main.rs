//! The command `memslot`: parse, run, error to exit code.

mod cli;
mod cmd;

use cmd::{output, paint};
use std::process::ExitCode;

/// The text without the numbers that the standard library adds to system errors: the words say it.
fn without_errno(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        plain.push_str(rest.strip_prefix(')').unwrap_or(rest));
    }
    plain
}

fn main() -> ExitCode {
    let choice = paint::asked(std::env::args_os());
    paint::obey(choice);
    match cli::Cli::parse(choice).run() {
        Ok(code) => code,
        Err(error) => {
            output::error(without_errno(&format!("{error:#}")));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_errno;

    #[test]
    fn numbers_of_errors_are_left_out_wherever_they_stand() {
        assert_eq!(without_errno("a: gone (os error 2)"), "a: gone");
        assert_eq!(without_errno("a (b: gone (os error 28)); c (os error 1)"), "a (b: gone); c");
        assert_eq!(without_errno("nothing"), "nothing");
    }
}
