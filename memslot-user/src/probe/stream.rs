//! From the ring buffer to events.

use super::{
    Probes,
    decode::{DecodeError, decode},
    identity::{Event, Resolver},
};
use aya::maps::{MapData, RingBuf};
use std::collections::VecDeque;
use thiserror::Error;

/// Why the stream ended early.
#[derive(Debug, Error)]
pub enum StreamError {
    /// A record that is none of ours.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The ring buffer is not to be had.
    #[error("the probes' ring buffer cannot be opened: {0}")]
    Ring(String),
}

/// Reads the ring of the attached probes.
pub struct Stream {
    ring: RingBuf<MapData>,
    resolver: Resolver,
    ready: VecDeque<Event>,
    /// Requests for older layouts that did not hold still.
    unanswered: Vec<Event>,
}

impl Stream {
    /// Opens the ring of the probes; once for each set of probes.
    ///
    /// # Errors
    /// When it was opened before.
    pub fn open(probes: &mut Probes) -> Result<Self, StreamError> {
        let map = probes.ebpf_mut().take_map("EVENTS");
        let map = map.ok_or_else(|| StreamError::Ring("it is open already".to_owned()))?;
        let ring = RingBuf::try_from(map).map_err(|error| StreamError::Ring(error.to_string()))?;
        Ok(Self { ring, resolver: Resolver::default(), ready: VecDeque::new(), unanswered: Vec::new() })
    }

    /// The next event, if the ring holds one; answers requests for older layouts on the way.
    ///
    /// # Errors
    /// When a record is none of ours.
    pub fn next(&mut self, probes: &mut Probes) -> Result<Option<Event>, StreamError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(item) = self.ring.next() else { return Ok(None) };
            let record = decode(&item)?;
            // The record's place in the ring is free again before anything asks for more.
            drop(item);
            match self.resolver.resolve(&record) {
                Event::Nothing => {}
                ask @ (Event::AskSlots(_) | Event::AskRegions(_)) => {
                    if !self.ask(probes, &ask) {
                        self.unanswered.push(ask);
                    }
                }
                event => return Ok(Some(event)),
            }
        }
    }

    /// Asks the kernel for an older layout; false when it changed faster than it could be read.
    fn ask(&mut self, probes: &mut Probes, ask: &Event) -> bool {
        let events = match ask {
            Event::AskSlots(ask) => probes.ask_slots(*ask, &mut self.resolver),
            Event::AskRegions(ask) => probes.ask_regions(*ask, &mut self.resolver),
            _ => Some(Vec::new()),
        };
        events.map(|events| self.ready.extend(events)).is_some()
    }

    /// Asks again for older layouts that could not be read; how many are still open.
    pub fn ask_again(&mut self, probes: &mut Probes) -> usize {
        for ask in std::mem::take(&mut self.unanswered) {
            if !self.ask(probes, &ask) {
                self.unanswered.push(ask);
            }
        }
        self.unanswered.len()
    }

    /// The numbers given so far, to give more.
    pub fn resolver_mut(&mut self) -> &mut Resolver {
        &mut self.resolver
    }

    /// The numbers given so far.
    #[must_use]
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }
}
