//! Time passes, from one thing that happens to the next.

use std::time::Duration;

use abide::{
    ErrorKind,
    clock::Clock,
    schedule::{Phase, Timer},
    storage::AlarmState,
};
use billing::{BillingError, states::Draft};

use super::{LOOK, PATIENCE, SUBSCRIPTION, World};
use crate::ledger::{calendar::DAY, compare};

impl World {
    /// Makes a request that changes nothing, so that what is overdue is made good at this very moment.
    pub(super) async fn is_asked(&self) -> Result<(), String> {
        let mut rest = Rest::default();
        for _ in 0..PATIENCE {
            let asked = self.subscription().give_up("none".to_owned()).await;
            // A restored subscription waits for its invoices.
            let waits = matches!(&asked, Err(BillingError::Object(error)) if error.kind() == ErrorKind::Unavailable);
            if !waits {
                return Ok(());
            }
            if let Some(left) = rest.waits_for_an_attempt(self).await? {
                self.advance(left);
            }
            tokio::time::sleep(LOOK).await;
        }
        Err("it asks its invoices forever".to_owned())
    }

    pub(super) fn advance(&self, by: i64) {
        self.clock
            .advance(Duration::from_millis(by.max(0).try_into().unwrap()));
    }

    /// How long it takes to the next alarm.
    pub(super) fn alarm(&self) -> Option<i64> {
        let alarms = self.node.alarms(AlarmState::Pending, None, 1);
        let first = alarms.first()?;
        Some(first.due.unix_millis() - self.now())
    }

    /// How long nothing happens.
    pub(super) fn next(&self) -> i64 {
        let report = self.bank.next().map(|at| {
            let left = at.saturating_sub(self.clock.now());
            i64::try_from(left.as_millis()).unwrap()
        });
        self.alarm()
            .into_iter()
            .chain(report)
            .min()
            .unwrap_or(DAY)
            .clamp(1, 40 * DAY)
    }

    /// Lets time pass, from one thing to the next, with all that follows from it.
    pub(super) async fn passes(&mut self, time: i64) -> Result<(), String> {
        let end = self.clock.now() + Duration::from_millis(time.max(0).try_into().unwrap());
        self.rests().await?;
        while let Some(left) = end
            .checked_sub(self.clock.now())
            .filter(|left| !left.is_zero())
        {
            self.advance(self.next().min(left.as_millis().try_into().unwrap()));
            self.rests().await?;
            compare::state(self).await?;
        }
        Ok(())
    }

    /// Lets everything happen that can without the clock moving.
    pub(super) async fn rests(&mut self) -> Result<(), String> {
        let mut rest = Rest::default();
        for _ in 0..PATIENCE {
            let timers = self.timers().await?;
            let left = rest.waits_for_an_attempt(self).await?;
            if self.asks().await? {
                // Its invoices are asked in that attempt.
                left.inspect(|left| self.advance(*left));
                tokio::time::sleep(LOOK).await;
                continue;
            }
            if timers.iter().any(|timer| self.goes_off(timer)) {
                if left.is_none() {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                // The caller does not wait for that attempt.
                self.is_asked().await?;
            }
            let now = self.now();
            self.model.looked_at(now);
            for intent in self.bank.begun() {
                let number = Draft::number_of(SUBSCRIPTION, &intent.invoice);
                let number = number.ok_or_else(|| format!("{} is no invoice", intent.invoice))?;
                self.model
                    .begun(number, intent.attempt, intent.amount.amount())?;
            }
            let Some((report, intent)) = self.bank.report() else {
                return Ok(());
            };
            let number = Draft::number_of(SUBSCRIPTION, &intent.invoice).unwrap();
            if self.model.is_too_late(number, intent.attempt) {
                self.bank.forgets(&report);
                continue;
            }
            self.bank.tell(self.node.env(), &report, &intent).await?;
            let amount = intent.amount.amount();
            self.model
                .hears(number, intent.attempt, amount, report.fate, now);
        }
        Err("something happens forever".to_owned())
    }

    /// Whether the subscription waits for what its invoices say.
    pub(super) async fn asks(&self) -> Result<bool, String> {
        Ok(!self.live().await?.asks.is_empty())
    }

    /// Whether a timer goes off, or is about to.
    pub(super) fn goes_off(&self, timer: &Timer) -> bool {
        let now = self.now();
        match &timer.run {
            Some(run) if run.phase == Phase::Retrying => run.fire_at.is_some_and(|at| at <= now),
            Some(run) => run.phase == Phase::Running,
            None => timer.due_at.is_some_and(|at| at <= now),
        }
    }
}

/// Looks at a world until nothing happens in it.
#[derive(Default)]
struct Rest {
    changes: Option<u64>,
}

impl Rest {
    /// How long it takes to the next attempt of an alarm, if nothing happens before: the node is idle, and has written nothing
    /// since the last look, although it was asked in between. A death in the middle of an attempt leaves an alarm that waits
    /// for the next one.
    async fn waits_for_an_attempt(&mut self, world: &World) -> Result<Option<i64>, String> {
        let settled = world.node.settle().await;
        settled.map_err(|error| error.to_string())?;
        let changes = Some(world.disk.changes());
        let is_still = changes == self.changes;
        self.changes = changes;
        Ok(world.alarm().filter(|left| is_still && *left > 0))
    }
}
