//! An alarm as its object's database holds it: JSON text.

use super::ClockTime;
use crate::alarm_entry::{AlarmEntry, Isolation};
use serde::{Deserialize, Serialize};

/// An attempt that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BegunAttempt {
    /// The generation of the object's shard in which it began ([`ObjectDb::generation`](crate::ObjectDb::generation)).
    pub epoch: u32,
    /// How far it was isolated from suspects.
    #[serde(default, skip_serializing_if = "is_free")]
    pub isolation: Isolation,
}

/// An alarm of an object. Times are milliseconds since 1970 of the wall clock as it was when they were set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlarmRow {
    /// When it was set to fire.
    pub scheduled: i64,
    /// It fires after a duration, not at a time of the clock: setting the clock back does not delay it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// When it was set, if its time had already passed by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<i64>,
    /// Attempts begun so far.
    pub attempts: u32,
    /// Attempts that were cut off. They have not failed and do not count as retries.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_off: u32,
    /// Consecutive attempts that their process did not survive, of this alarm and of the alarms that led to it. They
    /// lengthen the wait and have no other effect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub broken: u32,
    /// How often the process has ended while an attempt of this alarm, or of an alarm that led to it, ran with no other
    /// suspect next to it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub crashes: u32,
    /// The attempt that has begun and whose end is not recorded. If its generation is over, its process did not survive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<BegunAttempt>,
    /// When the attempt that has begun or failed is retried, in steady time ([`ClockTime::steady`]). An attempt runs
    /// only after this is durable, so an attempt that crashes its process is not repeated immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<i64>,
    /// The alarm that was set while the attempt ran. It replaces this one when the attempt ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
    /// [`wait`](Self::wait) of the next alarm.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub next_wait: bool,
    /// [`set_back`](Self::set_back) of the next alarm.
    #[serde(default, skip_serializing_if = "is_none_back")]
    pub next_set_back: i64,
    /// All attempts have failed. It does not fire again unless an operator runs it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// How the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// It is retried until it succeeds, with at most this many milliseconds between attempts, whatever the object's
    /// class declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_backoff: Option<u32>,
    /// The sum of the wall clock's steps back when the alarm was set. Later steps end a wait earlier by the wall clock.
    #[serde(default, skip_serializing_if = "is_none_back")]
    pub set_back: i64,
}

impl AlarmRow {
    /// A new alarm without attempts.
    pub fn at(scheduled: i64) -> Self {
        Self {
            scheduled,
            ..Self::default()
        }
    }

    /// An alarm that is set at `now`: to a time of the clock, or to a wait that ends at that time.
    pub fn set(scheduled: i64, wait: bool, now: ClockTime) -> Self {
        Self {
            wait,
            set_back: now.set_back,
            ..Self::at(scheduled)
        }
        .asked(now)
    }

    /// This alarm, which counts from `now` on.
    fn asked(self, now: ClockTime) -> Self {
        let passed = self.scheduled_at(now.set_back) < now.unix_millis;
        Self {
            asked_at: passed.then_some(now.unix_millis),
            ..self
        }
    }

    /// The time for which it was set, by the wall clock whose steps back have this sum.
    pub fn scheduled_at(&self, set_back: i64) -> i64 {
        at(self.scheduled, self.wait, self.set_back, set_back)
    }

    /// The time of the alarm that was set while the attempt ran, likewise.
    pub fn next_at(&self, set_back: i64) -> Option<i64> {
        let next = self.next?;
        Some(at(next, self.next_wait, self.next_set_back, set_back))
    }

    /// The alarm that was set while the attempt ran.
    fn next_alarm(&self) -> Option<Self> {
        Some(Self {
            wait: self.next_wait,
            set_back: self.next_set_back,
            max_backoff: self.max_backoff,
            ..Self::at(self.next?)
        })
    }

    /// The alarm to attempt now, in this generation: the one that was set in an attempt that was cut off, or itself.
    #[must_use]
    pub fn to_attempt(mut self, generation: u32) -> Self {
        if let Some(begun) = self.begun.take() {
            let crashed = begun.epoch != generation && begun.isolation == Isolation::Alone;
            self.crashes = self.crashes.saturating_add(u32::from(crashed));
            self.broken = self.broken.saturating_add(1);
            self.cut_off = self.cut_off.saturating_add(1);
        }
        match self.next_alarm() {
            Some(next) => Self {
                broken: self.broken,
                crashes: self.crashes,
                ..next
            },
            None => self,
        }
    }

    /// The alarm after its process shut down cleanly during an attempt: the attempt is repeated as soon as the next
    /// process starts, or the alarm that it set replaces it. A suspect stays one.
    #[must_use]
    pub fn interrupted(mut self, now: ClockTime) -> Self {
        match (&mut self.begun, self.next) {
            (Some(begun), _) if begun.isolation != Isolation::Free => {
                begun.isolation = Isolation::Few;
                self
            }
            (_, Some(_)) => self.after(now).unwrap_or(self),
            _ => Self {
                begun: None,
                // The clock may have been set back since the alarm was set.
                retry_at: (self.scheduled_at(now.set_back) > now.unix_millis)
                    .then_some(now.steady()),
                cut_off: self.cut_off.saturating_add(1),
                ..self
            },
        }
    }

    /// The alarm that was set while the attempt ran, which replaces this one at `now`.
    pub fn after(&self, now: ClockTime) -> Option<Self> {
        self.next_alarm().map(|next| next.asked(now))
    }

    /// The alarm reset to fire immediately as if for the first time, if it was given up or waits for a retry. An
    /// attempt that runs in this generation is not rerun.
    pub fn rerun(self, now: ClockTime, generation: u32) -> Option<Self> {
        let runs = self.begun.is_some() && !self.was_cut_off(generation);
        let waits = self.attempts > 0 && !runs;
        let scheduled = self.next.unwrap_or(self.scheduled).min(now.unix_millis);
        (self.failed || waits).then(|| Self {
            max_backoff: self.max_backoff,
            ..Self::set(scheduled, false, now)
        })
    }

    /// Failed attempts, including the one that is running, if any.
    pub fn counted_attempts(&self) -> u32 {
        self.attempts.saturating_sub(self.cut_off)
    }

    /// Returns whether an attempt began in an earlier generation.
    pub fn was_cut_off(&self, generation: u32) -> bool {
        self.begun.is_some_and(|begun| begun.epoch != generation)
    }

    /// The index entry of this alarm, if it is the object's only one.
    pub fn entry(&self) -> AlarmEntry {
        let steady = |at: i64, set_back: i64| at.saturating_add(set_back);
        let next = self
            .next
            .map(|next| (next, steady(next, self.next_set_back)));
        let (due, wait) = match (next, self.retry_at) {
            _ if self.failed => (self.scheduled, false),
            // An attempt that never ended does not bring forward the alarm that it has set: it may have crashed its
            // process.
            (Some((_, next)), Some(retry_at)) if next <= retry_at => (retry_at, true),
            (Some((_, next)), _) if self.next_wait => (next, true),
            (Some((next, _)), _) => (next, false),
            (None, Some(retry_at)) => (retry_at, true),
            (None, None) if self.wait => (steady(self.scheduled, self.set_back), true),
            (None, None) => (self.scheduled, false),
        };
        AlarmEntry {
            attempts: u16::try_from(self.attempts).unwrap_or(u16::MAX),
            failed: self.failed,
            failing: !self.failed && (self.error.is_some() || self.broken > 0),
            begun: self
                .begun
                .filter(|_| !self.failed)
                .map(|begun| begun.isolation),
            wait,
            ..AlarmEntry::at(due)
        }
    }
}

/// A time that was set when the clock's steps back had the sum `then`, by the clock whose steps back have the sum `now`.
fn at(time: i64, wait: bool, then: i64, now: i64) -> i64 {
    if wait {
        time.saturating_add(then).saturating_sub(now).max(1)
    } else {
        time
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_none_back(millis: &i64) -> bool {
    *millis == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_free(isolation: &Isolation) -> bool {
    *isolation == Isolation::Free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_due_when_it_was_set_for_or_at_its_retry() {
        let alarm = AlarmRow::at(50);
        assert_eq!(alarm.entry().due, 50);
        let begun = AlarmRow {
            attempts: 1,
            retry_at: Some(70),
            ..alarm
        };
        assert_eq!(begun.entry().due, 70);
    }

    #[test]
    fn an_attempt_that_never_ended_does_not_hasten_the_alarm_that_it_set() {
        let begun = |next| AlarmRow {
            attempts: 1,
            retry_at: Some(70),
            next: Some(next),
            ..AlarmRow::at(50)
        };
        assert_eq!(begun(10).entry().due, 70);
        assert_eq!(begun(90).entry().due, 90);
    }

    /// An alarm of 50 in an attempt that has begun in epoch 1.
    fn begun(isolation: Isolation) -> AlarmRow {
        AlarmRow {
            attempts: 4,
            retry_at: Some(70),
            begun: Some(BegunAttempt {
                epoch: 1,
                isolation,
            }),
            ..AlarmRow::at(50)
        }
    }

    #[test]
    fn an_attempt_that_ended_its_process_lengthens_the_wait_only() {
        let row = begun(Isolation::Free);
        assert_eq!(row.counted_attempts(), 4);
        let next = row.to_attempt(2);
        assert_eq!((next.attempts, next.counted_attempts()), (4, 3));
        assert_eq!((next.broken, next.crashes, next.begun), (1, 0, None));
        assert_eq!(next.clone().to_attempt(2), next);
        assert!(next.entry().failing);
    }

    #[test]
    fn a_process_end_is_blamed_on_an_attempt_only_without_other_suspects() {
        let crashes = |isolation, epoch| begun(isolation).to_attempt(epoch).crashes;
        assert_eq!(crashes(Isolation::Few, 2), 0);
        assert_eq!(crashes(Isolation::Alone, 2), 1);
        assert_eq!(crashes(Isolation::Alone, 1), 0, "its process lives");
    }

    #[test]
    fn an_alarm_set_by_an_interrupted_attempt_counts_its_own_attempts() {
        let row = AlarmRow {
            next: Some(60),
            broken: 2,
            crashes: 5,
            ..begun(Isolation::Alone)
        };
        let alarm = row.to_attempt(2);
        assert_eq!((alarm.scheduled, alarm.attempts, alarm.cut_off), (60, 0, 0));
        assert_eq!((alarm.broken, alarm.crashes), (3, 6));
        assert_eq!(AlarmRow::at(50).to_attempt(2), AlarmRow::at(50));
    }

    #[test]
    fn an_attempt_interrupted_by_a_clean_stop_is_repeated_uncounted() {
        let now = ClockTime {
            unix_millis: 60,
            set_back: 0,
        };
        let row = begun(Isolation::Free).interrupted(now);
        assert_eq!((row.entry().due, row.entry().begun), (50, None));
        assert_eq!(row.counted_attempts(), 3);
        assert_eq!(row.to_attempt(2).broken, 0);
        let set = AlarmRow {
            next: Some(90),
            ..begun(Isolation::Free)
        };
        assert_eq!(set.interrupted(now), AlarmRow::at(90));
        let suspect = begun(Isolation::Alone).interrupted(now);
        assert_eq!(suspect.entry().begun, Some(Isolation::Few));
        assert_eq!(suspect.to_attempt(2).crashes, 0);
    }

    #[test]
    fn an_alarm_for_a_time_that_has_passed_knows_when_it_was_asked_for() {
        let at = |unix_millis| ClockTime {
            unix_millis,
            set_back: 0,
        };
        assert_eq!(AlarmRow::set(50, false, at(50)), AlarmRow::at(50));
        let late = AlarmRow::set(50, false, at(80));
        assert_eq!((late.entry().due, late.asked_at), (50, Some(80)));
    }

    #[test]
    fn steps_back_end_a_wait_earlier_only_if_they_follow_it() {
        let now = ClockTime {
            unix_millis: 100,
            set_back: 30,
        };
        let wait = AlarmRow::set(150, true, now);
        assert_eq!(wait.entry().due_at(30), 150);
        assert_eq!((wait.entry().due_at(70), wait.scheduled_at(70)), (110, 110));
        let time = AlarmRow::set(150, false, now);
        assert_eq!((time.entry().due_at(70), time.scheduled_at(70)), (150, 150));
        let set_while_running = AlarmRow {
            attempts: 1,
            retry_at: Some(120),
            next: Some(140),
            next_wait: true,
            next_set_back: 30,
            ..AlarmRow::at(50)
        };
        assert_eq!(set_while_running.entry().due_at(50), 120);
        assert_eq!(set_while_running.next_at(50), Some(120));
    }

    #[test]
    fn the_stored_form_of_an_alarm_is_short_and_stable() {
        let plain = serde_json::to_string(&AlarmRow::at(50)).unwrap();
        assert_eq!(plain, r#"{"scheduled":50,"attempts":0}"#);
        let failed = AlarmRow {
            attempts: 7,
            failed: true,
            error: Some("no".to_owned()),
            ..AlarmRow::at(50)
        };
        let text = serde_json::to_string(&failed).unwrap();
        assert_eq!(
            text,
            r#"{"scheduled":50,"attempts":7,"failed":true,"error":"no"}"#
        );
        assert_eq!(serde_json::from_str::<AlarmRow>(&text).unwrap(), failed);
        let suspect = AlarmRow {
            cut_off: 1,
            broken: 2,
            crashes: 3,
            ..begun(Isolation::Alone)
        };
        let text = serde_json::to_string(&suspect).unwrap();
        assert_eq!(
            text,
            r#"{"scheduled":50,"attempts":4,"cut_off":1,"broken":2,"crashes":3,"begun":{"epoch":1,"isolation":"alone"},"retry_at":70}"#
        );
        assert_eq!(serde_json::from_str::<AlarmRow>(&text).unwrap(), suspect);
    }
}
