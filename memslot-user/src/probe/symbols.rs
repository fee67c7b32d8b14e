//! The kernel's functions, from `/proc/kallsyms`.

use std::{collections::BTreeMap, io};

/// Functions of the kernel and its modules, by name.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Name to the modules that have a function of that name; "" is the kernel proper.
    functions: BTreeMap<String, Vec<String>>,
}

impl Symbols {
    /// Reads the running kernel's.
    ///
    /// # Errors
    /// When `/proc/kallsyms` cannot be read.
    pub fn of_this_kernel() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read_to_string("/proc/kallsyms")?))
    }

    /// Reads kallsyms text: `address type name [module]` a line; lines of another form are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut functions = BTreeMap::<String, Vec<String>>::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(_), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if !matches!(kind, "t" | "T" | "w" | "W") {
                continue;
            }
            let module = words.next().map(|word| word.trim_matches(['[', ']'])).unwrap_or_default();
            functions.entry(name.to_owned()).or_default().push(module.to_owned());
        }
        Self { functions }
    }

    /// Which of `modules` has the function, or "" where it is built in; `None` where neither has.
    #[must_use]
    pub fn module_of(&self, function: &str, modules: &[&str]) -> Option<&str> {
        let has = self.functions.get(function)?;
        has.iter().find(|module| module.is_empty() || modules.contains(&module.as_str())).map(String::as_str)
    }

    /// Names under which the compiler kept a function: the name itself, else its clones
    /// (`name.isra.0`, `name.constprop.0`, …).
    #[must_use]
    pub fn names_of(&self, function: &str) -> Vec<&str> {
        if let Some((name, _)) = self.functions.get_key_value(function) {
            return vec![name];
        }
        let prefix = format!("{function}.");
        let clones = self.functions.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        // `.cold` is the unlikely part of a function, never its entry.
        clones.map(|(name, _)| name.as_str()).filter(|name| !name.contains(".cold")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Symbols;

    #[test]
    fn clones_are_found_where_the_function_itself_is_not_and_cold_parts_never() {
        let text = "\
ffffffffc0225050 t vhost_iotlb_miss.isra.0\t[vhost]
ffffffffc02250f0 t translate_desc.constprop.0\t[vhost]
ffffffffc02250f8 t translate_desc.isra.0.cold\t[vhost]
ffffffffc02250fc d translate_desc.isra.1\t[vhost]
ffffffff81a11740 T yield_to
broken
";
        let symbols = Symbols::parse(text);
        assert_eq!(symbols.names_of("translate_desc"), ["translate_desc.constprop.0"]);
        assert_eq!(symbols.module_of("translate_desc.constprop.0", &["vhost"]), Some("vhost"));
        assert_eq!(symbols.module_of("translate_desc.constprop.0", &["kvm"]), None);
        assert_eq!(symbols.names_of("yield_to"), ["yield_to"]);
        assert_eq!(symbols.module_of("yield_to", &[]), Some(""));
        assert!(symbols.names_of("yield").is_empty());
    }
}
