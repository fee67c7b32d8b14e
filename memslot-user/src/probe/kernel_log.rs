//! The probes' own rare warnings (aya-log).

use super::Probes;
use aya_log::EbpfLogger;
use log::{Log, Metadata, Record};
use std::sync::{Arc, Mutex, PoisonError};

/// Takes what the probes say and keeps it until it is asked for.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<String>>>);

impl Log for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// Reads the probes' warnings.
pub struct KernelLog {
    logger: EbpfLogger<Collector>,
    collector: Collector,
}

impl KernelLog {
    /// Opens the warnings of attached probes; once for each set. `None` where the object has none.
    #[must_use]
    pub fn open(probes: &mut Probes) -> Option<Self> {
        let collector = Collector::default();
        let logger = EbpfLogger::init_with_logger(probes.ebpf_mut(), collector.clone()).ok()?;
        Some(Self { logger, collector })
    }

    /// Warnings since the last call.
    pub fn take(&mut self) -> Vec<String> {
        self.logger.flush();
        std::mem::take(&mut *self.collector.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
