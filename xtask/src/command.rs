//! Runs external commands and reports their failures so that they can be repeated by hand.

use anyhow::{Context, Result, anyhow};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Lines of a failed command's output that its report repeats.
const REPORTED_LINES: usize = 25;

/// An external command, its environment and the remedy to name when it fails.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    program: OsString,
    arguments: Vec<OsString>,
    /// `None` removes the variable.
    environment: Vec<(String, Option<OsString>)>,
    directory: Option<PathBuf>,
    /// How long the command may go without writing anything.
    silence_limit: Option<Duration>,
    remedy: Option<String>,
}

impl Tool {
    /// A command without arguments.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            silence_limit: None,
            remedy: None,
        }
    }

    /// Adds one argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds several arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Removes an inherited environment variable.
    pub(crate) fn env_remove(mut self, name: &str) -> Self {
        self.environment.push((name.to_owned(), None));
        self
    }

    /// Sets the working directory.
    pub(crate) fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Has [`Tool::output`] kill the command when it has written nothing for `limit`.
    pub(crate) fn silence_limit(mut self, limit: Duration) -> Self {
        self.silence_limit = Some(limit);
        self
    }

    /// Says what a person can do when the command fails.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The command as a shell would take it, with the variables it sets.
    pub(crate) fn command_line(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.environment {
            if let Some(value) = value {
                let _ = write!(line, "{name}={} ", quote(&value.to_string_lossy()));
            }
        }
        line.push_str(&quote(&self.program.to_string_lossy()));
        for argument in &self.arguments {
            line.push(' ');
            line.push_str(&quote(&argument.to_string_lossy()));
        }
        line
    }

    /// Runs the command with the terminal's own streams.
    ///
    /// # Errors
    /// When it cannot be started or fails.
    pub(crate) fn run(&self) -> Result<()> {
        let mut command = self.command();
        let status = self.spawn(&mut command)?.wait()?;
        if status.success() { Ok(()) } else { Err(self.failure(&describe(status), "")) }
    }

    /// Runs the command with the terminal's own streams and returns its exit code.
    ///
    /// # Errors
    /// When it cannot be started, or was killed by a signal.
    pub(crate) fn exit_code(&self) -> Result<i32> {
        let mut command = self.command();
        let status = self.spawn(&mut command)?.wait()?;
        status.code().ok_or_else(|| self.failure(&describe(status), ""))
    }

    /// Runs the command and returns its exit code, standard output and standard error.
    ///
    /// # Errors
    /// When it cannot be started, or was killed by a signal.
    pub(crate) fn answer(&self) -> Result<(i32, String, String)> {
        let mut command = self.command();
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| self.failure(&format!("could not be started: {error}"), ""))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let code = output.status.code().ok_or_else(|| self.failure(&describe(output.status), ""))?;
        Ok((code, text(&output.stdout), text(&output.stderr)))
    }

    /// Runs the command silently and returns its standard output.
    ///
    /// # Errors
    /// When it cannot be started, fails or was silent for too long; the error repeats the end of its output.
    pub(crate) fn output(&self) -> Result<Vec<u8>> {
        // Files rather than pipes: a chatty command never blocks, and a grandchild that outlives a killed
        // command cannot keep us waiting for the end of the stream.
        let mut stdout = tempfile::tempfile().context("no temporary file for a command's output")?;
        let mut stderr = tempfile::tempfile().context("no temporary file for a command's output")?;
        let mut command = self.command();
        command.stdin(Stdio::null());
        command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        let status = self.wait(&mut self.spawn(&mut command)?, || {
            Ok(stdout.metadata()?.len() + stderr.metadata()?.len())
        })?;
        let captured = read_back(&mut stdout)?;
        let what = match status {
            Some(status) if status.success() => return Ok(captured),
            Some(status) => describe(status),
            None => "was given up, for it had written nothing for a while".to_owned(),
        };
        let mut text = String::from_utf8_lossy(&captured).into_owned();
        text.push_str(&String::from_utf8_lossy(&read_back(&mut stderr)?));
        Err(self.failure(&what, &text))
    }

    /// Like [`Tool::output`], as text without the white space at its end.
    ///
    /// # Errors
    /// As [`Tool::output`].
    pub(crate) fn text(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.output()?).trim_end().to_owned())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        command.spawn().map_err(|error| self.failure(&format!("could not be started: {error}"), ""))
    }

    /// Until the command ends, or `None` when it was silent for too long; `written` says how much it has written.
    fn wait(&self, child: &mut Child, written: impl Fn() -> Result<u64>) -> Result<Option<ExitStatus>> {
        let Some(limit) = self.silence_limit else {
            return Ok(Some(child.wait().with_context(|| format!("waiting for `{}`", self.command_line()))?));
        };
        let (mut size, mut since) = (0, Instant::now());
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            let now = written()?;
            if now != size {
                (size, since) = (now, Instant::now());
            }
            if since.elapsed() >= limit {
                // It may have ended just now; then there is nothing to kill.
                let _ = child.kill();
                let _ = child.wait();
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn failure(&self, what: &str, output: &str) -> anyhow::Error {
        let mut message = format!("`{}` {what}", self.command_line());
        let end = last_lines(output, REPORTED_LINES);
        if !end.is_empty() {
            let _ = write!(message, "; its output ends:\n{}", indent(&end));
        }
        if let Some(remedy) = &self.remedy {
            let _ = write!(message, "\n{remedy}");
        }
        anyhow!(message)
    }
}

/// The path of `program` in `$PATH` or the system directories that a user's `$PATH` may lack.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    directories.extend(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from));
    directories.iter().map(|directory| directory.join(program)).find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Quotes `word` for a POSIX shell where it needs it; works for every character, newlines included.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The last `count` lines of `text`.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Sets `text` off from the sentence around it.
pub(crate) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("failed with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "failed".to_owned(),
    }
}

fn read_back(file: &mut std::fs::File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_real_shell() {
        for word in ["plain", "", "two words", "it's", "a\nb", "$HOME `id` \\ \"x\"", "*?[", "-n", "ünï"] {
            let script = format!("printf %s {}", quote(word));
            let printed = Tool::new("sh").arg("-c").arg(script).output().unwrap();
            assert_eq!(String::from_utf8(printed).unwrap(), word);
        }
    }

    #[test]
    fn a_failure_names_the_command_its_output_and_the_remedy() {
        let tool = Tool::new("sh")
            .env("MEMSLOT_TEST", "a b")
            .args(["-c", "echo first; echo last >&2; exit 3"])
            .remedy("Try again.");
        let message = tool.output().unwrap_err().to_string();
        assert_eq!(
            message,
            "`MEMSLOT_TEST='a b' sh -c 'echo first; echo last >&2; exit 3'` failed with exit code 3; \
             its output ends:\n    first\n    last\nTry again."
        );
    }

    #[test]
    fn a_command_that_hangs_is_killed_one_that_goes_on_writing_is_not() {
        let start = Instant::now();
        let limit = Duration::from_millis(700);
        let tool = Tool::new("sh").args(["-c", "echo said; exec sleep 60"]).silence_limit(limit);
        let message = tool.output().unwrap_err().to_string();
        assert!(message.contains("was given up") && message.ends_with("    said"), "{message}");
        assert!(start.elapsed() < Duration::from_secs(20));
        let script = "for i in 1 2 3 4 5 6 7 8 9 10; do echo; sleep 0.1; done";
        assert!(Tool::new("sh").args(["-c", script]).silence_limit(limit).output().is_ok());
    }

    #[test]
    fn a_missing_program_is_named() {
        let message = Tool::new("memslot-no-such-program").output().unwrap_err().to_string();
        assert!(message.starts_with("`memslot-no-such-program` could not be started"), "{message}");
    }
}
