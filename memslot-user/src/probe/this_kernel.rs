//! What the running kernel has: symbols, types, and where a target's function is.

use super::{
    AttachError,
    kernel_types::{Gaps, KernelTypes, settings},
    symbols::Symbols,
    target::Target,
};
use memslot_common::settings::Settings;

/// What attaching needs to know of the kernel.
pub(super) struct Kernel {
    pub(super) symbols: Symbols,
    pub(super) types: KernelTypes,
    /// Elements of `kvm.memslots`: 2 where there is SMM.
    pub(super) address_spaces: u16,
}

impl Kernel {
    pub(super) fn of_this_host() -> Result<Self, AttachError> {
        Ok(Self {
            symbols: Symbols::of_this_kernel().map_err(AttachError::Symbols)?,
            types: KernelTypes::of_this_kernel()?,
            address_spaces: 1,
        })
    }

    pub(super) fn settings(&mut self) -> (Settings, Gaps) {
        let module = |symbols: &Symbols, function: &str, modules: &[&str]| {
            let name = *symbols.names_of(function).first()?;
            symbols.module_of(name, modules).map(str::to_owned)
        };
        let kvm = module(&self.symbols, "kvm_mmu_page_fault", &["kvm"]);
        let vendor = module(&self.symbols, "pause_interception", &["kvm_amd"])
            .or_else(|| module(&self.symbols, "handle_pause", &["kvm_intel"]));
        let vhost = module(&self.symbols, "translate_desc", &["vhost"]);
        let iotlb = module(&self.symbols, "vhost_iotlb_itree_first", &["vhost_iotlb"]);
        // Read each first: the map of modules lends them out together only afterwards. One that cannot be
        // read is a gap like one that is not there.
        for name in [&kvm, &vendor, &vhost, &iotlb].into_iter().flatten() {
            self.types.module(name).ok();
        }
        let types = &self.types;
        let get = |name: &Option<String>| name.as_deref().and_then(|name| types.loaded(name));
        let (mut settings, mut gaps) = settings(get(&kvm), get(&vendor), get(&vhost), get(&iotlb));
        if let [clone, ..] = self.symbols.names_of("translate_desc").as_slice()
            && *clone != "translate_desc"
        {
            settings.walk_regions = 0;
            gaps.regions =
                Some(format!("the compiler has changed the parameters of translate_desc ({clone})"));
        }
        settings.words_type = types.rdonly_cast().map_or(0, |(_, words)| words);
        let spaces = get(&kvm).and_then(|kvm| kvm.elements("kvm", "memslots").ok()).unwrap_or(1);
        self.address_spaces = u16::try_from(spaces).unwrap_or(1);
        (settings, gaps)
    }
}

/// A function as this kernel has it.
pub(super) struct Found {
    /// The names of the function or of its clones.
    pub(super) names: Vec<String>,
    /// "" where it is built in.
    pub(super) module: String,
}

/// Looks for a target's function; where there is none, says why and what to do.
pub(super) fn find(target: &Target, symbols: &Symbols) -> Result<Found, String> {
    for function in target.functions {
        let names: Vec<_> = symbols
            .names_of(function)
            .into_iter()
            .filter(|name| symbols.module_of(name, target.modules).is_some())
            .collect();
        if let Some(module) = names.first().and_then(|name| symbols.module_of(name, target.modules)) {
            let module = module.to_owned();
            return Ok(Found { names: names.into_iter().map(str::to_owned).collect(), module });
        }
    }
    Err(missing(target, symbols))
}

fn missing(target: &Target, symbols: &Symbols) -> String {
    let loaded = |function: &str, module: &str| symbols.module_of(function, &[module]).is_some();
    let remedy = match target.modules {
        ["kvm"] if !loaded("kvm_mmu_page_fault", "kvm") => {
            Some("KVM is not loaded; load it with `modprobe kvm_amd` or `modprobe kvm_intel`")
        }
        ["kvm_amd", "kvm_intel"] => {
            Some("neither kvm_amd nor kvm_intel is loaded; load the one of this CPU with `modprobe`")
        }
        ["vhost"] if symbols.names_of("vhost_dev_init").is_empty() => {
            Some("vhost is not loaded; load it with `modprobe vhost_net`")
        }
        ["vhost_iotlb"] if symbols.names_of("vhost_iotlb_alloc").is_empty() => {
            Some("vhost_iotlb is not loaded; it comes with `modprobe vhost_net`")
        }
        _ => None,
    };
    remedy.map_or_else(
        || {
            format!(
                "this kernel has no function {}: it is inlined, or named otherwise",
                target.functions.join(" or ")
            )
        },
        str::to_owned,
    )
}
