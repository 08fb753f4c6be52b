//! Attempts in flight, and how many more may be.
//!
//! Contract: an outbox has at most as many attempts in flight as its limit allows, and an origin as many as a
//! destination. What is more depends on the origin's standing:
//!
//! - An origin that has responded to its last attempt may use all that is free. Each response doubles how many attempts
//!   it may have in flight. Its destination's row records that it has responded, so it keeps its standing when the object
//!   starts again.
//! - Origins whose last response was lost have a quarter of the outbox's concurrency, all together.
//! - Origins that were not heard of yet have half of it. A quarter may begin at once; while those have no response,
//!   further attempts begin at the rate at which they time out. So there is always one that may begin soon: at the
//!   newest destination, because it has all others before it.
//!
//! So silent receivers, however many, delay neither those that respond nor a new one. A destination without room is
//! parked and looked at again when something finishes.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use futures_util::future::{AbortHandle, AbortRegistration};

use super::{Rate, bucket::Bucket, claim::Claim, limits, outcome::Outcome, poll_turns::PollTurns};
use abide_component::numbers::micros;

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
    /// What this activation knows of origins: how many attempts one that has responded may have in flight, and 0 if
    /// its last response was lost.
    windows: HashMap<String, u32>,
    /// Attempts at origins whose last response was lost.
    silent_sends: u32,
    /// Attempts at origins that were not heard of.
    first_sends: u32,
    /// When the bucket of first attempts is full, and what one takes of it, in microseconds.
    firsts_full_at: i64,
    first_interval: i64,
    /// Destinations whose origin had no room, longest waiting first.
    at_origin: HashMap<String, VecDeque<String>>,
    /// Destinations whose last response was lost, for which there was no room.
    silent: VecDeque<String>,
    /// Destinations that were not heard of, for which there was no room, the newest last.
    unheard: Vec<String>,
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
    /// The limit of all origins whose last response was lost.
    Silent,
    /// The limit of all origins that were not heard of.
    First,
}

/// What is known of an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has responded to its last attempt.
    #[default]
    Responds,
    /// Its last response was lost.
    Silent,
    /// It was not heard of.
    New,
}

/// The limits of an outbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of an origin.
    pub(super) each: u32,
    /// Of the outbox.
    pub(super) all: u32,
    /// How long an attempt may take.
    pub(super) timeout: Duration,
}

impl Bounds {
    /// At a tick, as many leave at once as the tick allows.
    fn are_of_ticks(self) -> bool {
        self.each == limits::MAX_CONCURRENCY
    }

    fn quarter(self) -> u32 {
        (self.all / 4).max(1)
    }

    /// How fast first attempts may begin, while earlier ones have no response.
    fn of_firsts(self) -> Rate {
        Rate {
            interval: self.timeout / self.quarter(),
            burst: self.quarter(),
        }
    }
}

impl Flights {
    pub(super) fn are_none(&self) -> bool {
        self.sends.total() + self.polls.total() == 0
    }

    /// Waits are counted from the new time.
    pub(super) fn clock_went_back(&mut self) {
        self.poll_turns = PollTurns::default();
        self.firsts_full_at = 0;
    }

    /// What is known of an origin. `heard` is what the row of one of its destinations says.
    pub(super) fn standing(&self, origin: &str, heard: Option<bool>) -> Standing {
        match (self.windows.get(origin), heard) {
            (Some(0), _) | (None, Some(false)) => Standing::Silent,
            (Some(_), _) | (None, Some(true)) => Standing::Responds,
            (None, None) => Standing::New,
        }
    }

    /// How many attempts may begin at a destination. `own` is its own limit.
    pub(super) fn room(
        &self,
        destination: &str,
        origin: &str,
        standing: Standing,
        own: u32,
        bounds: Bounds,
        now: i64,
    ) -> Result<u32, Full> {
        let room = own.saturating_sub(self.to_destination.to(destination));
        if room == 0 {
            return Err(Full::Destination);
        }
        let window = match (standing, self.windows.get(origin)) {
            _ if bounds.are_of_ticks() => bounds.each,
            (Standing::Responds, Some(window)) => *window,
            (Standing::Responds, None) => 2 * limits::FIRST_ATTEMPTS,
            (Standing::Silent | Standing::New, _) => limits::FIRST_ATTEMPTS,
        };
        let at_origin = window
            .min(bounds.each)
            .saturating_sub(self.sends.to(origin));
        if at_origin == 0 {
            return Err(Full::Origin);
        }
        let room = room.min(at_origin);
        if bounds.are_of_ticks() {
            return Ok(room);
        }
        let (together, full) = match standing {
            Standing::Responds => return Ok(room),
            Standing::Silent => {
                let together = bounds.quarter().saturating_sub(self.silent_sends);
                (together, Full::Silent)
            }
            Standing::New => {
                let half = (bounds.all / 2).max(1).saturating_sub(self.first_sends);
                (half.min(self.firsts(bounds, now).tokens(now)), Full::First)
            }
        };
        match room.min(together) {
            0 => Err(full),
            room => Ok(room),
        }
    }

    fn firsts(&self, bounds: Bounds, now: i64) -> Bucket {
        Bucket::new(Some(bounds.of_firsts()), self.firsts_full_at, now)
    }

    /// When another first attempt may begin, if destinations wait for that.
    pub(super) fn next_first(&self, bounds: Bounds, now: i64) -> Option<i64> {
        let firsts = self.firsts(bounds, now);
        let waits = !self.unheard.is_empty() && self.first_sends < (bounds.all / 2).max(1);
        waits.then(|| match firsts.tokens(now) {
            0 => firsts.next_token(),
            _ => now,
        })
    }

    /// The newest of the destinations that wait for their first attempt, as many as may begin.
    pub(super) fn next_unheard(&mut self, bounds: Bounds, now: i64) -> Vec<String> {
        let half = (bounds.all / 2).max(1).saturating_sub(self.first_sends);
        let many = half.min(self.firsts(bounds, now).tokens(now)) as usize;
        let from = self.unheard.len().saturating_sub(many);
        self.unheard.split_off(from)
    }

    /// Parks a destination until there may be room for it.
    pub(super) fn park(&mut self, destination: &str, origin: &str, full: Full) {
        let waiting = match full {
            Full::Destination => return,
            Full::First => {
                if !self.unheard.iter().any(|parked| parked == destination) {
                    self.unheard.push(destination.to_owned());
                }
                return;
            }
            Full::Origin => self.at_origin.entry(origin.to_owned()).or_default(),
            Full::Silent => &mut self.silent,
        };
        if !waiting.iter().any(|parked| parked == destination) {
            waiting.push_back(destination.to_owned());
        }
    }

    /// Claimed attempts begin at an origin with this standing.
    pub(super) fn begin_all(
        &mut self,
        claims: &mut [Claim],
        standing: Standing,
        bounds: Bounds,
        now: i64,
    ) {
        for claim in claims.iter_mut() {
            claim.standing = standing;
            claim.taken_at = now;
            self.begin(claim);
        }
        if standing == Standing::New {
            let firsts = self.firsts(bounds, now).take(claims.len() as u32);
            self.firsts_full_at = firsts.full_at();
            self.first_interval = micros(bounds.of_firsts().interval);
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
            match claim.standing {
                Standing::Responds => {}
                Standing::Silent => self.silent_sends += 1,
                Standing::New => self.first_sends += 1,
            }
        }
    }

    fn end_send(&mut self, claim: &Claim) {
        self.sends.end(claim.origin());
        self.to_destination.end(&claim.destination);
        match claim.standing {
            Standing::Responds => {}
            Standing::Silent => self.silent_sends -= 1,
            Standing::New => {
                self.first_sends -= 1;
                // Its room is free: another may begin instead.
                self.firsts_full_at = self.firsts_full_at.saturating_sub(self.first_interval);
            }
        }
    }

    /// What an attempt or a poll that starts must listen to.
    pub(super) fn start(&mut self, message: i64) -> Option<AbortRegistration> {
        let interrupt = self.interrupts.get_mut(&message)?;
        let registration = interrupt.registration.take();
        if interrupt.handle.is_aborted() {
            self.interrupts.remove(&message);
        }
        registration
    }

    /// Interrupts the attempt or poll of a message: it is dropped, and lands as interrupted.
    pub(super) fn interrupt(&mut self, message: i64) {
        let Some(interrupt) = self.interrupts.get(&message) else {
            return;
        };
        interrupt.handle.abort();
        // One that has not started finds it aborted.
        if interrupt.registration.is_none() {
            self.interrupts.remove(&message);
        }
    }

    /// Reserved attempts are not made.
    pub(super) fn retract(&mut self, sends: &[Claim], polls: &[Claim]) {
        for claim in sends {
            self.interrupts.remove(&claim.id);
            self.end_send(claim);
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
        self.end_send(claim);
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
        if self.windows.len() >= limits::MAX_KNOWN_ORIGINS && !self.windows.contains_key(origin) {
            self.windows.clear();
        }
        if !answered {
            self.windows.insert(origin.to_owned(), 0);
            return;
        }
        let window = self.windows.entry(origin.to_owned()).or_default();
        *window = match *window {
            0 => 2 * limits::FIRST_ATTEMPTS,
            window => window.saturating_mul(2).min(limits::MAX_CONCURRENCY),
        };
    }
}
