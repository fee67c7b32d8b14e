//! The packages, installed into a root of their own and run there: nothing else is in it.

use crate::command::{Tool, find_program};
use crate::{dist, paths};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) fn run(memslot: &Path) -> Result<()> {
    let out = paths::target().join("test/dist");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let packages = dist::build_all(memslot, &out)?;
    let [deb, archive, sums] = packages.as_slice() else { anyhow::bail!("not three files: {packages:?}") };
    Tool::new("sha256sum").args(["--check", "--quiet"]).arg(sums).directory(&out).run()?;
    // The same input makes the same package.
    let again = out.join("again");
    let second = dist::build_all(memslot, &again)?;
    ensure!(fs::read(sums)? == fs::read(&second[2])?, "a second run makes other packages");

    let installed = out.join("root");
    install(deb, &installed)?;
    check(&installed)?;
    let unpacked = out.join("unpacked");
    fs::create_dir_all(&unpacked)?;
    Tool::new("tar")
        .args(["--extract", "--gzip", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(&unpacked)
        .output()?;
    for file in ["usr/bin/memslot", "lib/systemd/system/memslot.service"] {
        ensure!(
            fs::read(installed.join(file))? == fs::read(unpacked.join(file))?,
            "{file} differs in the archive"
        );
    }
    serve(&installed)?;
    remove(&installed)
}

fn dpkg(root: &Path) -> Tool {
    let mut root_of = std::ffi::OsString::from("--root=");
    root_of.push(root);
    // Where the tests do not run as root, the files are theirs.
    Tool::new("dpkg").arg(root_of).args(["--force-not-root", "--force-script-chrootless", "--log=/dev/null"])
}

fn install(deb: &Path, root: &Path) -> Result<()> {
    let admin = root.join("var/lib/dpkg");
    for folder in ["info", "updates", "triggers"] {
        fs::create_dir_all(admin.join(folder))?;
    }
    fs::write(admin.join("status"), "")?;
    dpkg(root).arg("--install").arg(deb).output()?;
    let listed = Tool::new("dpkg-query").arg(format!("--admindir={}", admin.display()));
    let status = listed.args(["--show", "--showformat=${Status} ${Version}", "memslot"]).text()?;
    ensure!(status.starts_with("install ok installed 0."), "dpkg says {status}");
    dpkg(root).args(["--verify", "memslot"]).output().map(drop)
}

/// What the package brings, in the shape that its readers need.
fn check(root: &Path) -> Result<()> {
    let binary = root.join("usr/bin/memslot");
    ensure!(crate::lab::is_static(&fs::read(&binary)?), "the binary needs shared libraries");
    for (file, mode) in [
        ("usr/bin/memslot", 0o755),
        ("etc/default/memslot", 0o644),
        ("lib/systemd/system/memslot.service", 0o644),
        ("usr/share/bash-completion/completions/memslot", 0o644),
        ("usr/share/zsh/vendor-completions/_memslot", 0o644),
        ("usr/share/fish/vendor_completions.d/memslot.fish", 0o644),
        ("usr/share/man/man1/memslot.1.gz", 0o644),
        ("usr/share/man/man1/memslot-serve.1.gz", 0o644),
        ("usr/share/doc/memslot/copyright", 0o644),
        ("usr/share/doc/memslot/changelog.gz", 0o644),
        ("usr/share/doc/memslot/schema/summary.json", 0o644),
        ("usr/share/doc/memslot/grafana/memslot.json", 0o644),
    ] {
        let data = fs::metadata(root.join(file)).with_context(|| format!("the package has no {file}"))?;
        let found = data.permissions().mode() & 0o777;
        ensure!(data.len() > 0 && found == mode, "{file} has mode {found:o} and {} bytes", data.len());
    }
    let page = Tool::new("gzip").args(["--decompress", "--stdout"]);
    let page = page.arg(root.join("usr/share/man/man1/memslot-serve.1.gz")).text()?;
    ensure!(page.contains(".TH memslot") && page.contains("listen"), "the man page is none");
    Tool::new("bash")
        .arg("-n")
        .arg(root.join("usr/share/bash-completion/completions/memslot"))
        .output()
        .map(drop)
}

/// The unit's command with its options: what systemd would start.
fn command_of_unit(root: &Path) -> Result<Vec<String>> {
    let unit = fs::read_to_string(root.join("lib/systemd/system/memslot.service"))?;
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).context("no ExecStart=")?;
    let default = unit.lines().find_map(|line| line.strip_prefix("EnvironmentFile=-"));
    let default = default.context("no EnvironmentFile=")?.trim_start_matches('/');
    let options = fs::read_to_string(root.join(default))?;
    ensure!(options.lines().any(|line| line == "MEMSLOT_OPTIONS=\"\""), "{default} sets other options");
    let words = line.split_whitespace().filter(|word| *word != "$MEMSLOT_OPTIONS");
    Ok(words.map(str::to_owned).collect())
}

/// Runs the unit's command in the root, of a recording, and asks it.
fn serve(root: &Path) -> Result<()> {
    let words = command_of_unit(root)?;
    let fixture = paths::workspace().join("memslot-user/tests/fixtures/small-6.12");
    let recording = root.join("rec");
    fs::create_dir_all(&recording)?;
    for entry in fs::read_dir(&fixture)? {
        let path = entry?.path();
        fs::copy(&path, recording.join(path.file_name().unwrap_or_default()))?;
    }
    let (program, arguments) = words.split_first().context("the unit starts nothing")?;
    // SAFETY: geteuid has no preconditions and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let inside =
        |path: &str| if is_root { PathBuf::from(path) } else { root.join(path.trim_start_matches('/')) };
    let mut command = if is_root {
        let mut command = Command::new(find_program("chroot").context("there is no chroot")?);
        command.arg(root).arg(program);
        command
    } else {
        Command::new(inside(program))
    };
    let mut child = command
        .args(arguments)
        .args(["--listen", "127.0.0.1:0", "--json", "--recording"])
        .arg(inside("/rec"))
        .env_clear()
        .stdout(Stdio::piped())
        .spawn()
        .context("the unit's command cannot be started")?;
    let asked = ask(&mut child);
    // SAFETY: the number is that of our child, which has not been waited for.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    let status = child.wait()?;
    let answer = asked?;
    ensure!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.contains("memslot_build_info{"),
        "it said {answer}"
    );
    ensure!(status.success(), "it ended with {status}");
    Ok(())
}

fn ask(child: &mut std::process::Child) -> Result<String> {
    let out = child.stdout.take().context("no standard output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    let said: serde_json::Value = serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))?;
    let address = said["listening"].as_str().context("it does not say where it listens")?;
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Takes the package away again; nothing of it stays.
fn remove(root: &Path) -> Result<()> {
    dpkg(root).args(["--purge", "memslot"]).output()?;
    for file in ["usr/bin/memslot", "etc/default/memslot", "usr/share/doc/memslot"] {
        ensure!(!root.join(file).exists(), "{file} is left");
    }
    Ok(())
}
