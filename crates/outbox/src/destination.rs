//! Destinations: their state, and when each may be sent to again.
//!
//! Contract: a destination's `due_at` is the time at which a send pass looks at it: not later than its first sendable
//! message. It is `None` if there is no such message, or if the maximum of attempts is in flight: then the end of an
//! attempt sets it again. So a pass looks only at destinations that have something to send and may send it.
//! `destinations` documents where destinations are stored.

use std::time::Duration;

use abide::{Result, params};
use serde::{Deserialize, Serialize};

use super::{
    Breaker, Failure, FailureKind, Rate,
    bucket::{self, Bucket},
    limits,
    sql::Sql,
    throttle::{self, Refusals, Throttle},
};
use abide_component::numbers::{micros, millis, rows};
use abide_component::texts::cut;

/// A destination's public state. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Destination {
    /// Its name: for HTTP the origin.
    pub destination: String,
    /// Nothing is sent to it before this time: it has asked for that, or its circuit breaker has opened.
    pub paused_until: Option<i64>,
    /// Consecutive failures.
    pub failures: i64,
    /// How many times in a row its circuit breaker has opened; 0 while it is closed.
    pub opened: i64,
    /// The last error.
    pub last_error: Option<String>,
}

/// A destination's row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Row {
    pub(super) destination: String,
    pub(super) due_at: Option<i64>,
    /// When its bucket is full, in microseconds.
    pub(super) full_at: i64,
    paused_until: Option<i64>,
    open_until: Option<i64>,
    failures: i64,
    opened: i64,
    last_error: Option<String>,
    /// When it had its last turn, counted in turns: of several due destinations, the longest-waiting is next.
    pub(super) turn: i64,
    /// How many attempts it has had; its lines take turns by this number.
    pub(super) served: i64,
    /// How many times in a row it has throttled. One message at a time then probes it.
    throttled: i64,
    refused: i64,
    refused_since: i64,
    spacing: Option<i64>,
    ramp_since: i64,
    ramp_unit: i64,
    pub(super) origin: Option<String>,
    /// Whether it responded to the last attempt; `None` if none has ended.
    pub(super) heard: Option<bool>,
    /// When a pass last found its bucket full; not stored.
    #[serde(skip)]
    was_full_at: i64,
}

/// The columns of a [`Row`].
macro_rules! row {
    () => {
        "destination, due_at, full_at, paused_until, open_until, failures, opened, last_error, turn, served, throttled, \
         refused, refused_since, spacing, ramp_since, ramp_unit, origin, heard"
    };
}

pub(super) use row;

impl Row {
    /// A new destination.
    pub(super) fn new(destination: &str) -> Self {
        Self {
            destination: destination.to_owned(),
            ..Self::default()
        }
    }

    /// True if the table may keep `stored` without losing anything: see `destinations`.
    pub(super) fn is_covered_by(&self, stored: &Self) -> bool {
        let is_looked_at = self
            .due_at
            .is_none_or(|at| stored.due_at.is_some_and(|due| due <= at));
        is_looked_at
            && self.full_at <= stored.full_at
            && self.trouble() == stored.trouble()
            && self.last_error == stored.last_error
            && self.origin == stored.origin
            && self.heard == stored.heard
    }

    /// Its errors, and its throttling state.
    fn trouble(&self) -> [Option<i64>; 10] {
        [
            self.paused_until,
            self.open_until,
            Some(self.failures),
            Some(self.opened),
            Some(self.throttled),
            Some(self.refused),
            Some(self.refused_since),
            self.spacing,
            Some(self.ramp_since),
            Some(self.ramp_unit),
        ]
    }

    /// True if its rate is below the configured one.
    pub(super) fn is_held_back(&self) -> bool {
        self.spacing.is_some()
    }

    pub(super) fn save(&self, sql: &Sql) -> Result<()> {
        sql.exec(
            "INSERT INTO outbox_destinations (destination, due_at, full_at, paused_until, failures, opened, last_error,
                 open_until, turn, served, throttled, spacing, ramp_since, ramp_unit, origin, refused, refused_since, heard)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
             ON CONFLICT (destination) DO UPDATE SET due_at = ?2, full_at = ?3, paused_until = ?4, failures = ?5,
                 opened = ?6, last_error = ?7, open_until = ?8, turn = ?9, served = ?10, throttled = ?11, spacing = ?12,
                 ramp_since = ?13, ramp_unit = ?14, refused = ?16, refused_since = ?17, heard = ?18",
            params![
                &self.destination,
                self.due_at,
                self.full_at,
                self.paused_until,
                self.failures,
                self.opened,
                &self.last_error,
                self.open_until,
                self.turn,
                self.served,
                self.throttled,
                self.spacing,
                self.ramp_since,
                self.ramp_unit,
                &self.origin,
                self.refused,
                self.refused_since,
                self.heard,
            ],
        )?;
        Ok(())
    }

    /// Until when nothing may be sent to it, if paused. Expired pauses are removed.
    pub(super) fn rests_until(&mut self, now: i64) -> Option<i64> {
        self.paused_until = self.paused_until.filter(|until| *until > now);
        self.open_until = self.open_until.filter(|until| *until > now);
        self.paused_until.max(self.open_until)
    }

    /// Its group for the limit of concurrent attempts: itself, unless it is one of several of an origin.
    pub(super) fn origin(&self) -> &str {
        self.origin.as_deref().unwrap_or(&self.destination)
    }

    /// True while its circuit is not closed, or it has throttled and not responded since: one message at a time probes
    /// it.
    pub(super) fn is_probed(&self) -> bool {
        self.opened > 0 || self.throttled > 0
    }

    /// Its token bucket: with the configured rate, or the lower adaptive one.
    pub(super) fn bucket(&mut self, configured: Option<Rate>, now: i64) -> Bucket {
        let taught = self.throttle().and_then(|held| held.rate(configured, now));
        if taught.is_none() {
            self.spacing = None;
        }
        if bucket::is_full(self.full_at, now) {
            self.was_full_at = now;
        }
        Bucket::new(taught.or(configured), self.full_at, now)
    }

    /// Returns a token to its bucket, unless that was full since the token was taken.
    pub(super) fn refund(&mut self, configured: Option<Rate>, taken_at: i64) {
        if let Some(rate) = configured
            && self.was_full_at <= taken_at
        {
            self.full_at = self.full_at.saturating_sub(micros(rate.interval));
        }
    }

    fn throttle(&self) -> Option<Throttle> {
        self.spacing.map(|spacing| Throttle {
            spacing,
            since: self.ramp_since,
            unit: self.ramp_unit,
        })
    }

    pub(super) fn set_bucket(&mut self, bucket: Bucket) {
        self.full_at = bucket.full_at();
    }

    /// It has responded: its errors are cleared. A pause that it asked for stays.
    pub(super) fn answered(&mut self, now: i64) {
        self.heard = Some(true);
        self.recovered();
        if self.throttled > 0 {
            self.throttled = 0;
            self.ramp_since = now;
        }
    }

    /// It is up: its circuit closes.
    fn recovered(&mut self) {
        self.failures = 0;
        self.opened = 0;
        self.open_until = None;
        self.last_error = None;
    }

    /// Records a failed attempt. True if this opens its closed circuit.
    pub(super) fn failed(
        &mut self,
        failure: &Failure,
        breaker: &Breaker,
        configured: Option<Rate>,
        now: i64,
    ) -> bool {
        let asked = failure
            .after()
            .map(|after| millis(after.min(limits::MAX_RETRY_AFTER)));
        match failure.kind() {
            FailureKind::NotSent | FailureKind::CutOff => {}
            FailureKind::Permanent => self.answered(now),
            FailureKind::Throttled => self.throttle_by(failure.after(), configured, now),
            _ => {
                self.heard = Some(failure.kind() == FailureKind::Refused);
                self.last_error = Some(cut(failure.message().to_owned(), limits::MAX_ERROR_BYTES));
                self.failures = self.failures.saturating_add(1);
                if let Some(asked) = asked {
                    self.pause(now.saturating_add(asked));
                }
                let threshold = i64::from(breaker.failures);
                // Attempts that were in flight when the circuit opened say nothing new.
                let news = self.open_until.is_none_or(|until| until <= now);
                if threshold > 0 && self.failures >= threshold && news {
                    let doublings = u32::try_from(self.opened).unwrap_or(0).min(30);
                    let pause = breaker
                        .pause
                        .saturating_mul(1 << doublings)
                        .min(breaker.max_pause);
                    self.opened = self.opened.saturating_add(1);
                    self.open_until = Some(now.saturating_add(millis(pause)));
                    return self.opened == 1;
                }
            }
        }
        false
    }

    /// It throttles. Responses to attempts that were in flight when its pause began say nothing new about its capacity,
    /// and a throttled probe means that the pause was too short.
    fn throttle_by(&mut self, asked: Option<Duration>, configured: Option<Rate>, now: i64) {
        self.heard = Some(true);
        self.recovered();
        let mut refusals = Refusals {
            since: self.refused_since,
            refused: self.refused,
        };
        refusals.count(self.served);
        (self.refused_since, self.refused) = (refusals.since, refusals.refused);
        if self.paused_until.is_some_and(|until| until > now) {
            let asked = asked.unwrap_or_default().min(limits::MAX_RETRY_AFTER);
            self.pause(now.saturating_add(millis(asked)));
            return;
        }
        let pause = throttle::pause(asked, self.throttled);
        let before = self.throttle();
        let slower =
            refusals.are_many(self.served) || before.is_some_and(|held| held.is_settled(now));
        if self.throttled == 0 && slower {
            let learned = Throttle::hit(before, configured, pause, now);
            self.spacing = Some(learned.spacing);
            self.ramp_since = learned.since;
            self.ramp_unit = learned.unit;
        }
        self.throttled = self.throttled.saturating_add(1);
        self.pause(now.saturating_add(pause));
    }

    fn pause(&mut self, until: i64) {
        self.paused_until = self.paused_until.max(Some(until));
    }
}

/// Ends the pause of a destination, as if it had responded. True if it is known.
pub(super) fn resume(sql: &Sql, destination: &str, now: i64) -> Result<bool> {
    let known = sql.exec(
        "UPDATE outbox_destinations SET paused_until = NULL, open_until = NULL, failures = 0, opened = 0, due_at = ?2,
             throttled = 0, refused = 0, refused_since = served, spacing = NULL
         WHERE destination = ?1 RETURNING destination",
        (destination, now),
    )?;
    Ok(!known.is_empty())
}

/// Destinations whose circuit is open, at most as many as a list may have.
pub(super) fn open(sql: &Sql) -> Result<Vec<String>> {
    sql.exec(
        "SELECT destination FROM outbox_destinations INDEXED BY outbox_destination_open
         WHERE destination > '' AND opened > 0 LIMIT ?1",
        (rows(limits::MAX_PAGE),),
    )?
    .all()
}

const COLUMNS: &str = "destination, failures, opened, last_error,
     max(coalesce(paused_until, open_until), coalesce(open_until, paused_until)) AS paused_until";

/// Failing destinations.
pub(super) fn with_trouble(sql: &Sql, limit: usize) -> Result<Vec<Destination>> {
    sql.exec(
        &format!(
            "SELECT {COLUMNS} FROM outbox_destinations INDEXED BY outbox_destination_trouble
             WHERE destination > '' AND (failures > 0 OR paused_until IS NOT NULL) ORDER BY destination LIMIT ?1"
        ),
        (rows(limit),),
    )?
    .all()
}

/// Destinations, failing ones first.
pub(super) fn list(sql: &Sql, limit: usize) -> Result<Vec<Destination>> {
    let mut found = with_trouble(sql, limit)?;
    let others: Vec<Destination> = sql
        .exec(
            &format!(
                "SELECT {COLUMNS} FROM outbox_destinations
                 WHERE destination > '' AND failures = 0 AND paused_until IS NULL ORDER BY destination LIMIT ?1"
            ),
            (rows(limit - found.len()),),
        )?
        .all()?;
    found.extend(others);
    Ok(found)
}
