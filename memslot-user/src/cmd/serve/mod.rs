//! `memslot serve`

mod live;

use super::output;
use anyhow::{Context, ensure};
use live::Live;
use memslot::model::Probe;
use memslot::probe::{self, Options, Preference, Probes};
use memslot::recording::Recording;
use memslot::serve::{Limits, MAX_VMS, Server, Source, Totals};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How often the kernel's counters are read.
const TICK: Duration = Duration::from_secs(1);

/// The ring brings only changes of layouts and VMs, of which nothing is kept.
const RING_BYTES: u32 = 4 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo memslot serve
  sudo memslot serve --listen 127.0.0.1:9752 --probe page_fault,translate
  memslot serve --recording rec
  curl http://127.0.0.1:9752/metrics

It attaches the probes in histogram mode, counts every call, writes nothing, and serves until Ctrl-C or SIGTERM.
There is no encryption and no password: put a reverse proxy in front before it listens elsewhere than on this host.

Exit codes: 0 ended by a signal; 1 ended by a signal, and a probe was missing; 2 error.")]
pub(crate) struct Args {
    /// Address and port to listen on
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9752")]
    listen: SocketAddr,
    /// Serve what this recording counted instead of the running host
    #[arg(short, long, value_name = "RECORDING", conflicts_with_all = ["probe", "attach", "no_walk"])]
    recording: Option<PathBuf>,
    /// What to measure
    #[arg(short, long, value_delimiter = ',', default_values = ["page_fault", "ple", "translate"])]
    probe: Vec<Probe>,
    /// How to attach
    #[arg(short, long, value_enum, default_value_t)]
    attach: Preference,
    /// Leave the searches out: cheaper, without search lengths
    #[arg(long)]
    no_walk: bool,
    /// VMs and vhost devices that have series of their own at one time; others share those of vm="other"
    #[arg(long, value_name = "N", default_value_t = MAX_VMS)]
    max_vms: usize,
    /// Connections at one time; one more takes the place of the oldest
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_connections: u16,
    /// Print one line of JSON when it listens
    #[arg(short, long)]
    json: bool,
}

/// Printed when the server listens.
#[derive(serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "serve")]
pub(crate) struct Listening {
    /// Version of this line, 1.
    schema: u32,
    /// Address and port.
    listening: String,
    /// Where the figures are.
    metrics: String,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let listener = TcpListener::bind(self.listen).map_err(|error| {
            anyhow::anyhow!("cannot listen on {}: {}; choose another --listen", self.listen, error.kind())
        })?;
        listener.set_nonblocking(true).context("cannot listen without blocking")?;
        match &self.recording {
            Some(directory) => self.serve_recording(directory, listener),
            None => self.serve_host(listener),
        }
    }

    fn limits(&self) -> Limits {
        Limits { connections: usize::from(self.max_connections), ..Limits::default() }
    }

    fn announce(&self, listener: &TcpListener) -> anyhow::Result<()> {
        let address = listener.local_addr().context("cannot find the address that was bound")?;
        let metrics = format!("http://{address}/metrics");
        if !address.ip().is_loopback() {
            output::note(format_args!(
                "whoever reaches {address} can read names and figures of VMs, unencrypted; docs/fleet.md shows a \
                 reverse proxy with TLS and passwords"
            ));
        }
        if self.json {
            return output::print_line(&Listening { schema: 1, listening: address.to_string(), metrics });
        }
        output::say(format_args!("serving {metrics}"));
        Ok(())
    }

    fn serve_recording(&self, directory: &Path, listener: TcpListener) -> anyhow::Result<ExitCode> {
        let recording = Recording::open(directory)?;
        let meta = recording.meta();
        ensure!(
            meta.schema >= 2,
            "{} is of version 1, which has no histograms to serve; record anew",
            directory.display()
        );
        let totals = Totals::of_recording(&recording, self.max_vms)?;
        let mut source = Source {
            kernel: meta.host.kernel.clone(),
            probes: meta.probes.clone(),
            read_at: if meta.complete { meta.end.realtime } else { meta.start.realtime },
            ..source()
        };
        let server = Server::new(totals.snapshot(&source), self.limits());
        self.announce(&listener)?;
        let served = server.clone();
        run(server, listener, move || {
            source.served = served.served();
            served.show(totals.snapshot(&source));
            Ok(())
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn serve_host(&self, listener: TcpListener) -> anyhow::Result<ExitCode> {
        let probes: BTreeSet<Probe> = self.probe.iter().copied().collect();
        let options = Options {
            probes,
            preference: self.attach,
            ring_bytes: RING_BYTES,
            sample_every: 0,
            follow: !self.no_walk,
            ..Options::default()
        };
        let probes = Probes::attach(&options).context("nothing can be served on this host")?;
        let mut live = Live::start(probes, &options, self.max_vms)?;
        let server = Server::new(live.snapshot(source()), self.limits());
        self.announce(&listener)?;
        let served = server.clone();
        let missing = live.is_missing();
        run(server, listener, move || {
            live.read()?;
            served.show(live.snapshot(Source { served: served.served(), ..source() }));
            Ok(())
        })?;
        Ok(ExitCode::from(u8::from(missing)))
    }
}

fn source() -> Source {
    let whole = env!("MEMSLOT_VERSION");
    let (version, revision) = whole.split_once(" (").unwrap_or((whole, ""));
    Source {
        version: version.to_owned(),
        revision: revision.trim_end_matches(')').to_owned(),
        kernel: probe::kernel_release(),
        read_at: probe::clock().realtime,
        ..Source::default()
    }
}

/// Serves in a thread of its own, so that no client holds up what reads the kernel; calls `tick` once a second until a
/// signal comes.
fn run(
    server: Server,
    listener: TcpListener,
    mut tick: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = std::thread::Builder::new().name("memslot-http".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            server.run(listener, async { drop(stopped.await) }).await;
            Ok::<_, std::io::Error>(())
        })
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended: anyhow::Result<()> = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interval = tokio::time::interval(TICK);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = interrupt.recv() => return Ok(()),
                _ = terminate.recv() => return Ok(()),
                _ = interval.tick() => tick()?,
            }
        }
    });
    drop(stop);
    let served = serving.join();
    ended?;
    match served {
        Ok(result) => result.context("the server cannot run"),
        Err(_) => anyhow::bail!("the server's thread ended before its time; please report it"),
    }
}
