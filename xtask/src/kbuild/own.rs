//! Our own modules, from `xtask/lab`, built against a kernel's headers.

use super::{make, patched};
use crate::lab::Series;
use crate::{paths, setup};
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// Modules of ours that are built together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// `memslot_truth`: functions of known length.
    Truth,
    /// `memslot_klp_vhost` and `memslot_klp_kvm`: the searches, replaced while the kernel runs.
    Livepatch,
}

impl Own {
    /// Its directory below `xtask/lab`.
    fn name(self) -> &'static str {
        match self {
            Self::Truth => "truth",
            Self::Livepatch => "livepatch",
        }
    }
}

/// Builds them for the kernel of `series`; the directory with the modules comes back.
///
/// # Errors
/// What the compiler complained of, or what is missing.
pub(crate) fn build(own: Own, series: Series) -> Result<PathBuf> {
    setup::ensure_for_modules(series, false)?;
    let source = paths::workspace().join("xtask/lab").join(own.name());
    let mut key = make::environment(series)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(&source).with_context(|| format!("cannot read {}", source.display()))? {
        files.push(entry?.path());
    }
    files.sort();
    for file in &files {
        key.push_str(&format!("{}\n", file.display()));
        key.push_str(&fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?);
    }
    let out = paths::lab().join("modules").join(format!("{}-{}", series.name(), own.name()));
    if fs::read_to_string(out.join(patched::KEY)).is_ok_and(|built| built == key) {
        return Ok(out);
    }

    // The build writes beside the sources.
    let place = paths::lab().join("own").join(format!("{}-{}", series.name(), own.name()));
    fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
    for file in &files {
        let to = place.join(file.file_name().unwrap_or_default());
        fs::copy(file, &to)
            .with_context(|| format!("cannot copy {} to {}", file.display(), place.display()))?;
    }
    let headers = make::build_directory(&setup::headers_directory(series))?;
    make::modules(&format!("the {} modules for {}", own.name(), series.name()), &headers, &place)?;
    patched::clear(&out)?;
    for entry in fs::read_dir(&place)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ko") {
            make::take(&path, &out)?;
        }
    }
    fs::write(out.join(patched::KEY), key).with_context(|| format!("cannot write to {}", out.display()))?;
    Ok(out)
}
