//! One boot: one layout, the stock kernel and every engine.

use super::layout::{self, Order};
use super::{Args, Which};
use crate::interrupt::Interrupted;
use crate::lab::{self, KernelChoice, Request};
use crate::scratch;
use crate::{command, paths};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

const GUEST: &str = include_str!("guest.sh");
/// An emulated guest that counts instructions is slow, and others may use the machine.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

/// Regions that vhost is to take.
const MOST_REGIONS: u64 = 4096;

/// A boot that is wanted.
pub(super) struct Boot<'a> {
    pub(super) args: &'a Args,
    pub(super) slots: u64,
    pub(super) memslot: &'a Path,
    pub(super) modules: &'a Path,
}

impl Boot<'_> {
    /// Boots, unless its folder is there already, and returns the folder's name in `out`.
    ///
    /// # Errors
    /// The folder is of another experiment, or the guest failed.
    pub(super) fn run(&self, out: &Path) -> Result<String> {
        let name = self.name();
        let folder = out.join(&name);
        let setup = serde_json::to_string_pretty(&self.setup())? + "\n";
        if let Ok(known) = fs::read_to_string(folder.join("setup.json")) {
            ensure!(
                known == setup,
                "{} holds another experiment; remove it, or name another folder with --out",
                folder.display()
            );
            eprintln!("xtask: {name} is there already");
            return Ok(name);
        }
        let part = out.join(format!("{name}.part"));
        for old in [&part, &folder] {
            if old.exists() {
                fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
            }
        }
        eprintln!("xtask: {name}: Linux {}", self.args.kernel.name());
        let files = scratch::directory(&paths::lab().join("runs"))?;
        let outcome = lab::run(&self.request(&part, files.path())?, &mut io::stderr()).map_err(|error| {
            if error.is::<Interrupted>() { error } else { error.context(format!("{name} failed")) }
        })?;
        for note in &outcome.notes {
            eprintln!("xtask: {name}: {note}");
        }
        ensure!(
            outcome.exit_code == 0,
            "{name} failed in the guest, which said\n{}",
            command::last_lines(&outcome.output, 20)
        );
        fs::write(part.join("setup.json"), setup)
            .with_context(|| format!("cannot write to {}", part.display()))?;
        fs::rename(&part, &folder).with_context(|| format!("cannot rename {}", part.display()))?;
        Ok(name)
    }

    fn name(&self) -> String {
        match (self.args.series, self.args.classic) {
            (Which::Kvm, true) => "slots-2011".to_owned(),
            (Which::Kvm, false) => format!("slots-{}", self.slots),
            (Which::Vhost, _) => format!("regions-{}", self.slots),
        }
    }

    /// As `memslot experiment evaluate` reads it.
    fn setup(&self) -> serde_json::Value {
        let args = self.args;
        json!({
            "module": args.series.name(),
            "kernel": args.kernel.name(),
            "engines": args.engines,
            "slots": self.slots,
            "pattern": args.pattern,
            "order": args.order.name(),
            "cached": args.cached(),
            "calls": args.calls,
            "exact": !args.no_exact,
        })
    }

    fn script(&self) -> String {
        let (args, series) = (self.args, self.args.series.name());
        let (probe, own_tree) = match args.series {
            Which::Kvm => ("page_fault", "rbtree"),
            Which::Vhost => ("translate", "interval_tree"),
        };
        format!(
            "here=$PWD series={series} name=memslot_klp_{series} cached={} probe={probe} own_tree={own_tree}\nengines='{}'\n\
             workload=\"{}\"\n{GUEST}",
            u8::from(args.cached()),
            args.engines.join(" "),
            layout::workload(args, self.slots),
        )
    }

    fn request(&self, out: &Path, files: &Path) -> Result<Request> {
        let args = self.args;
        let kernel = KernelChoice::Series(args.kernel);
        let mut request = Request::new(kernel, ["sh", "-c", &self.script()].map(str::to_owned).to_vec());
        if !args.no_exact {
            request = request.exact();
        }
        request.time_limit = TIME_LIMIT;
        // Beyond the second of the two vhost would drop the oldest region.
        for vhost in request.modules.iter_mut().filter(|module| module.name == "vhost") {
            vhost.parameters = format!("max_mem_regions={MOST_REGIONS} max_iotlb_entries={MOST_REGIONS}");
        }
        request.memslot = Some(self.memslot.to_owned());
        request.files = vec![self.modules.join(format!("memslot_klp_{}.ko", args.series.name()))];
        request.out = Some(out.to_owned());
        if args.series == Which::Kvm && args.order == Order::Shuffled && !args.classic {
            let file = files.join(layout::FILE);
            let text = serde_json::to_string(&layout::shuffled(self.slots))?;
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
            request.files.push(file);
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::process::Command;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_guests_script_is_one_and_names_what_it_takes() {
        for (words, expected) in [
            ("kvm", "series=kvm name=memslot_klp_kvm cached=1 probe=page_fault own_tree=rbtree\n"),
            ("kvm --uncached --order shuffled", "name=memslot_klp_kvm cached=0 "),
            (
                "vhost --engines linear,wbtree",
                "\nengines='linear wbtree'\nworkload=\"memslot workload vhost --regions 53 ",
            ),
            ("vhost --cached", "name=memslot_klp_vhost cached=1 probe=translate own_tree=interval_tree\n"),
        ] {
            let line = Line::try_parse_from(["x"].into_iter().chain(words.split(' '))).unwrap();
            let (memslot, modules) = (Path::new("m"), Path::new("d"));
            let script = Boot { args: &line.args, slots: 53, memslot, modules }.script();
            assert!(script.contains(expected), "{expected} in\n{script}");
            assert!(Command::new("sh").args(["-n", "-c", &script]).status().unwrap().success(), "{words}");
        }
    }

    #[test]
    fn engines_are_those_of_the_modules() {
        let parse = |engines: &str| Line::try_parse_from(["x", "kvm", "--engines", engines]);
        let source = paths::workspace().join("xtask/lab/livepatch/memslot_klp_kvm.c");
        let source = fs::read_to_string(source).unwrap();
        for engine in super::super::ENGINES {
            assert!(parse(engine).is_ok() && source.contains(&format!("ENGINE(\"{engine}\"")), "{engine}");
        }
        assert!(parse("btreemap").is_err());
    }
}
