//! Starts QEMU and watches it until it ends, however it ends.

use super::outcome::{self, Failure, FailureKind, Report};
use crate::interrupt::Guard;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The emulator's program.
pub(crate) const PROGRAM: &str = "qemu-system-x86_64";

/// How often the output is forwarded and the console looked at.
const POLL: Duration = Duration::from_millis(30);
/// How often QEMU's monitor is asked whether it lives.
const ASK: Duration = Duration::from_secs(10);
/// How long it may take to answer; a loaded host is no reason to give up.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a kernel in trouble may go on writing its trace.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// How the guest's CPU is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The host's own virtualization.
    Kvm,
    /// Software emulation, all virtual CPUs in one thread.
    Emulated,
    /// Software emulation in which one guest nanosecond is one instruction.
    Exact,
}

/// A machine to start.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    /// Accelerator and clock.
    pub(crate) mode: Mode,
    /// Virtual CPUs.
    pub(crate) smp: u32,
    /// Memory in MiB.
    pub(crate) memory: u32,
    /// The bzImage.
    pub(crate) kernel: &'a Path,
    /// The initramfs.
    pub(crate) initramfs: &'a Path,
    /// More kernel arguments.
    pub(crate) kernel_arguments: &'a [String],
    /// The directory of the run's own files.
    pub(crate) directory: &'a Path,
    /// Wall-clock time after which the guest is given up.
    pub(crate) time_limit: Duration,
}

/// What a guest that reported success left behind.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The command's exit code.
    pub(crate) exit_code: u8,
    /// The whole report.
    pub(crate) report: Report,
    /// The kernel's console.
    pub(crate) console: String,
}

/// Files in the run's directory, written by QEMU's character devices.
const CONSOLE: &str = "console";
const OUTPUT: &str = "output";
/// The returned files, as tar.
const RETURNED: &str = "returned.tar";
const REPORT: &str = "report";
const MESSAGES: &str = "qemu.messages";

impl Machine<'_> {
    /// Where the returned files' tar archive is after a run.
    pub(crate) fn returned(&self) -> PathBuf {
        self.directory.join(RETURNED)
    }

    /// Where the command's output is.
    pub(crate) fn output(&self) -> PathBuf {
        self.directory.join(OUTPUT)
    }

    /// Boots the machine, streams the command's output to `sink` and waits for the end.
    ///
    /// # Errors
    /// A [`Failure`] for whatever the guest or QEMU did wrong, [`crate::interrupt::Interrupted`] on a signal, and
    /// ordinary errors for trouble with the host's files.
    pub(crate) fn run(&self, sink: &mut dyn Write, guard: &Guard) -> Result<Finished> {
        let mut running = Running::start(self)?;
        let end = running.watch(sink, guard);
        running.stop();
        end?;
        forward(&mut running.output, sink)?;

        let console = self.text(CONSOLE)?;
        if let Some((kind, line)) = outcome::trouble(&console) {
            return Err(Failure::new(kind, line, &console).into());
        }
        let report = Report::parse(&self.text(REPORT)?);
        match report.exit_code {
            Some(exit_code) => Ok(Finished { exit_code, report, console }),
            None => Err(self.early_end(&running, report.started, &console)?.into()),
        }
    }

    /// Why there is no marker of success.
    fn early_end(&self, running: &Running, started: bool, console: &str) -> Result<Failure> {
        if let Some(status) = running.status
            && !status.success()
        {
            let how = match (status.code(), status.signal()) {
                (Some(code), _) => format!("it ended with exit code {code}"),
                (None, Some(signal)) => format!("it was killed by signal {signal}"),
                (None, None) => "it ended abnormally".to_owned(),
            };
            let messages = self.text(MESSAGES)?;
            let shown = if messages.trim().is_empty() { console } else { &messages };
            return Ok(Failure::new(FailureKind::QemuFailed, how, shown));
        }
        let when = if started { "while its command was running" } else { "while it was booting" };
        Ok(Failure::new(FailureKind::NoMarker, when, console))
    }

    fn text(&self, name: &str) -> Result<String> {
        let path = self.directory.join(name);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(PROGRAM);
        command.args(self.arguments());
        // The character devices' files are named relative to it, for commas in a path would need escapes.
        command.current_dir(self.directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let messages = self.directory.join(MESSAGES);
        command.stderr(File::create(&messages).context("cannot create a file for QEMU's messages")?);
        // Ctrl-C in the terminal reaches us alone; we then end QEMU.
        command.process_group(0);
        Ok(command)
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut add = |words: &str| arguments.extend(words.split(' ').map(OsString::from));
        add("-nodefaults -no-user-config -display none -no-reboot -nic none");
        // A recording names the maker of its machine, and so says what kind of time its times are.
        match self.mode {
            Mode::Kvm => add("-accel kvm -cpu host -smbios type=1,manufacturer=KVM"),
            // `thread=multi` breaks kernels while probes are toggled. The two pause features are what KVM looks at
            // before it intercepts PAUSE; QEMU warns that it does not emulate them, but exits on every PAUSE.
            Mode::Emulated => {
                add("-accel tcg,thread=single -smbios type=1,manufacturer=QEMU-TCG");
                add("-cpu max,+pause-filter,+pfthreshold,x-force-features=on");
            }
            Mode::Exact => {
                add("-accel tcg,thread=single -icount shift=0,sleep=off");
                add("-smbios type=1,manufacturer=QEMU-TCG-icount");
                add("-cpu max,+pause-filter,+pfthreshold,x-force-features=on");
                add("-seed 1 -rtc base=2024-01-01T00:00:00,clock=vm");
            }
        }
        add(&format!("-smp {} -m {}", self.smp, self.memory));
        add(&format!("-chardev file,id=console,path={CONSOLE} -serial chardev:console"));
        add("-chardev stdio,id=monitor,signal=off -mon chardev=monitor,mode=control");
        // Without ioeventfd a write to a port is done when the guest's instruction is: nothing depends on the
        // scheduling of another thread, which the exact mode needs.
        add("-device virtio-serial-pci,ioeventfd=off,max_ports=4");
        for (number, name) in [(1, OUTPUT), (2, RETURNED), (3, REPORT)] {
            add(&format!("-chardev file,id=port{number},path={name}"));
            add(&format!("-device virtserialport,chardev=port{number},nr={number}"));
        }
        arguments.extend(["-kernel".into(), self.kernel.into()]);
        arguments.extend(["-initrd".into(), self.initramfs.into()]);
        let mut append = "console=ttyS0 panic=-1 quiet nokaslr mitigations=off".to_owned();
        if self.mode == Mode::Exact {
            append.push_str(" norandmaps");
        }
        for argument in self.kernel_arguments {
            append.push(' ');
            append.push_str(argument);
        }
        arguments.extend(["-append".into(), append.into()]);
        arguments
    }
}

/// A QEMU that must not outlive us.
struct Running {
    child: Child,
    monitor: Monitor,
    output: File,
    console: File,
    console_seen: String,
    start: Instant,
    time_limit: Duration,
    status: Option<std::process::ExitStatus>,
}

impl Running {
    fn start(machine: &Machine<'_>) -> Result<Self> {
        // Created by us so that reading them cannot come too early.
        for name in [CONSOLE, OUTPUT, RETURNED, REPORT] {
            File::create(machine.directory.join(name))
                .with_context(|| format!("cannot create a file in {}", machine.directory.display()))?;
        }
        let mut command = machine.command()?;
        die_with_parent(&mut command);
        let mut child = command
            .spawn()
            .with_context(|| format!("{PROGRAM} could not be started; run `cargo xtask setup`"))?;
        let monitor = Monitor::new(child.stdin.take(), child.stdout.take());
        Ok(Self {
            child,
            monitor,
            output: File::open(machine.output())?,
            console: File::open(machine.directory.join(CONSOLE))?,
            console_seen: String::new(),
            start: Instant::now(),
            time_limit: machine.time_limit,
            status: None,
        })
    }

    /// Until QEMU ends by itself, or there is a reason to end it.
    fn watch(&mut self, sink: &mut dyn Write, guard: &Guard) -> Result<()> {
        let mut trouble_since: Option<Instant> = None;
        loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for QEMU")? {
                self.status = Some(status);
                return Ok(());
            }
            guard.check()?;
            forward(&mut self.output, sink)?;
            if self.read_console()?
                && trouble_since.is_none()
                && outcome::trouble(&self.console_seen).is_some()
            {
                trouble_since = Some(Instant::now());
            }
            if trouble_since.is_some_and(|since| since.elapsed() > LAST_WORDS) {
                return Ok(());
            }
            if self.monitor.is_stuck() {
                return Err(Failure::new(FailureKind::QemuStuck, "", &self.console_seen).into());
            }
            if self.start.elapsed() > self.time_limit {
                let limit = format!("it was given {} s", self.time_limit.as_secs());
                return Err(Failure::new(FailureKind::TimeOut, limit, &self.console_seen).into());
            }
            thread::sleep(POLL);
        }
    }

    /// Whether there was anything new.
    fn read_console(&mut self) -> Result<bool> {
        let mut bytes = Vec::new();
        self.console.read_to_end(&mut bytes).context("cannot read the guest's console")?;
        self.console_seen.push_str(&String::from_utf8_lossy(&bytes).replace('\r', ""));
        Ok(!bytes.is_empty())
    }

    fn stop(&mut self) {
        if self.status.is_none() {
            // Both fail only when QEMU has ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Asks the kernel to kill QEMU when we die without a chance to.
fn die_with_parent(command: &mut Command) {
    let request = || {
        // SAFETY: prctl with this option takes a signal number and touches no memory of ours.
        match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: after fork the closure only makes one async-signal-safe system call.
    unsafe { command.pre_exec(request) };
}

/// Copies what has been appended to `from`.
fn forward(from: &mut File, sink: &mut dyn Write) -> Result<()> {
    let mut buffer = [0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).context("cannot read the guest's output")?;
        if length == 0 {
            return sink.flush().context("cannot write the guest's output");
        }
        sink.write_all(&buffer[..length]).context("cannot write the guest's output")?;
    }
}

/// QEMU's monitor (QMP over its standard streams), which tells a slow guest from a QEMU that is stuck.
struct Monitor {
    questions: Option<ChildStdin>,
    answers: Option<Receiver<()>>,
    asked: Option<Instant>,
    next: Instant,
}

impl Monitor {
    fn new(questions: Option<ChildStdin>, answers: Option<ChildStdout>) -> Self {
        let mut questions = questions;
        if let Some(questions) = &mut questions {
            // If QEMU has died meanwhile, the watch loop notices.
            let _ = questions.write_all(b"{\"execute\":\"qmp_capabilities\"}\n");
        }
        let answers = answers.map(|stream| {
            let (sender, receiver) = mpsc::channel();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines() {
                    let Ok(line) = line else { return };
                    if line.starts_with("{\"return\"") && sender.send(()).is_err() {
                        return;
                    }
                }
            });
            receiver
        });
        // The answer to the capabilities is the first one that is waited for.
        Self { questions, answers, asked: Some(Instant::now()), next: Instant::now() }
    }

    /// Asks from time to time; true when an answer is long overdue.
    fn is_stuck(&mut self) -> bool {
        let (Some(questions), Some(answers)) = (&mut self.questions, &self.answers) else { return false };
        if let Some(asked) = self.asked {
            if answers.try_recv().is_err() {
                return asked.elapsed() > ANSWER;
            }
            self.asked = None;
            self.next = Instant::now() + ASK;
        }
        if Instant::now() >= self.next && questions.write_all(b"{\"execute\":\"query-status\"}\n").is_ok() {
            self.asked = Some(Instant::now());
        }
        false
    }
}
