//! Attempts in flight, and how many more may be.
//!
//! Contract: an outbox has at most as many attempts in flight as its limit allows, and an origin as many as a
//! destination. An origin that has not responded yet, or not the last time, has [`limits::FIRST_ATTEMPTS`]; each
//! response doubles that. All such origins together get half of the outbox's concurrency: silent receivers, however
//! many, do not delay those that respond. A destination without room is parked and looked at again when something
//! finishes.

use std::collections::{HashMap, VecDeque};

use futures_util::future::{AbortHandle, AbortRegistration};

use super::{claim::Claim, limits, outcome::Outcome, poll_turns::PollTurns};
use crate::broken::{Variant, broken};

/// Attempts or polls in flight, by origin or by destination.
#[derive(Debug, Default)]
pub(super) struct InFlight(HashMap<String, u32>);

impl InFlight {
    pub(super) fn to(&self, name: &str) -> u32 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    pub(super) fn total(&self) -> u32 {
        self.0.values().sum()
    }

    pub(super) fn begin(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_default() += 1;
    }

    fn end(&mut self, name: &str) {
        if let Some(count) = self.0.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(name);
            }
        }
    }
}

/// What is in flight.
#[derive(Debug, Default)]
pub(super) struct Flights {
    /// Attempts by origin.
    pub(super) sends: InFlight,
    /// Attempts by destination.
    pub(super) to_destination: InFlight,
    /// Polls by origin.
    pub(super) polls: InFlight,
    pub(super) poll_turns: PollTurns,
    /// How many attempts an origin that has responded may have in flight.
    windows: HashMap<String, u32>,
    /// Destinations whose origin had no room, longest waiting first.
    at_origin: HashMap<String, VecDeque<String>>,
    /// Destinations that have not responded, for which there was no room.
    silent: VecDeque<String>,
    /// How to interrupt the attempt or poll of a message.
    interrupts: HashMap<i64, Interrupt>,
}

/// Interrupts an attempt or a poll, whether or not it has started.
#[derive(Debug)]
struct Interrupt {
    handle: AbortHandle,
    /// Taken when it starts.
    registration: Option<AbortRegistration>,
}

/// The limit that prevents an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// The destination's own limit.
    Destination,
    /// Its origin's limit.
    Origin,
    /// The limit of all origins that have not responded.
    Silent,
}

impl Flights {
    /// How many attempts may begin. `own` is the limit of the destination, `each` of an origin, `all` of the outbox.
    pub(super) fn room(
        &self,
        destination: &str,
        origin: &str,
        own: u32,
        each: u32,
        all: u32,
    ) -> Result<u32, Full> {
        let room = own.saturating_sub(self.to_destination.to(destination));
        if room == 0 {
            return Err(Full::Destination);
        }
        let window = self.windows.get(origin).copied();
        let first = match each {
            // At a tick, as many leave at once as the tick allows.
            limits::MAX_CONCURRENCY => each,
            _ => limits::FIRST_ATTEMPTS,
        };
        let window = window.unwrap_or(first).min(each);
        let at_origin = window.saturating_sub(self.sends.to(origin));
        if at_origin == 0 {
            return Err(Full::Origin);
        }
        let mut room = room.min(at_origin);
        if !self.windows.contains_key(origin) && !broken(Variant::SilentTakeAll) {
            let silent: u32 = self
                .sends
                .0
                .iter()
                .filter(|(origin, _)| !self.windows.contains_key(*origin))
                .map(|(_, count)| count)
                .sum();
            room = room.min((all / 2).max(1).saturating_sub(silent));
            if room == 0 {
                return Err(Full::Silent);
            }
        }
        Ok(room)
    }

    /// Parks a destination until there may be room for it.
    pub(super) fn park(&mut self, destination: &str, origin: &str, full: Full) {
        let waiting = match full {
            Full::Destination => return,
            Full::Origin => self.at_origin.entry(origin.to_owned()).or_default(),
            Full::Silent => &mut self.silent,
        };
        if !waiting.iter().any(|parked| parked == destination) {
            waiting.push_back(destination.to_owned());
        }
    }

    pub(super) fn begin(&mut self, claim: &Claim) {
        let (handle, registration) = AbortHandle::new_pair();
        let interrupt = Interrupt {
            handle,
            registration: Some(registration),
        };
        self.interrupts.insert(claim.id, interrupt);
        if claim.operation.is_some() {
            self.polls.begin(claim.origin());
        } else {
            self.sends.begin(claim.origin());
            self.to_destination.begin(&claim.destination);
        }
    }

    /// What an attempt or a poll that starts must listen to.
    pub(super) fn start(&mut self, message: i64) -> Option<AbortRegistration> {
        self.interrupts.get_mut(&message)?.registration.take()
    }

    /// Interrupts the attempt or poll of a message: it is dropped, and lands as interrupted.
    pub(super) fn interrupt(&mut self, message: i64) {
        if let Some(interrupt) = self.interrupts.remove(&message) {
            interrupt.handle.abort();
        }
    }

    /// Reserved attempts are not made.
    pub(super) fn retract(&mut self, sends: &[Claim], polls: &[Claim]) {
        for claim in sends {
            self.interrupts.remove(&claim.id);
            self.sends.end(claim.origin());
            self.to_destination.end(&claim.destination);
        }
        for claim in polls {
            self.interrupts.remove(&claim.id);
            self.polls.end(claim.origin());
        }
    }

    /// One has finished. Returns the parked destinations for which there may be room now.
    pub(super) fn end(&mut self, claim: &Claim, outcome: &Outcome) -> Vec<String> {
        // The message of an interrupted one may already have another attempt.
        if !outcome.was_interrupted() {
            self.interrupts.remove(&claim.id);
        }
        let origin = claim.origin();
        if claim.operation.is_some() {
            self.polls.end(origin);
            if self.polls.to(origin) == 0 {
                self.poll_turns.forget(origin);
            }
            return Vec::new();
        }
        self.sends.end(origin);
        self.to_destination.end(&claim.destination);
        self.next_parked(origin)
    }

    /// An origin has unused room. Returns parked destinations that may use it.
    pub(super) fn next_parked(&mut self, origin: &str) -> Vec<String> {
        // More than one: the origin may have more room than before.
        let waiting = self.at_origin.get_mut(origin);
        let mut freed: Vec<String> = waiting.map_or_else(Vec::new, |waiting| {
            waiting.drain(..waiting.len().min(2)).collect()
        });
        if self.at_origin.get(origin).is_some_and(VecDeque::is_empty) {
            self.at_origin.remove(origin);
        }
        freed.extend(self.silent.pop_front());
        freed
    }

    /// An origin has responded, or one of its responses was lost.
    pub(super) fn heard(&mut self, origin: &str, answered: bool) {
        if !answered {
            self.windows.remove(origin);
            return;
        }
        if let Some(window) = self.windows.get_mut(origin) {
            *window = window.saturating_mul(2).min(limits::MAX_CONCURRENCY);
            return;
        }
        if self.windows.len() >= limits::MAX_KNOWN_ORIGINS {
            self.windows.clear();
        }
        self.windows
            .insert(origin.to_owned(), 2 * limits::FIRST_ATTEMPTS);
    }
}
