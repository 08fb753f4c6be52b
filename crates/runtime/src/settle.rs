//! Waits until the node is idle. For tests, with a clock that does not advance.
//!
//! Each worker is asked in turn for the activity of its thread ([`Census`](crate::census::Census)), after all that was ready there has run. The node rests
//! if two rounds in a row find nothing, and between them no object has had a turn and no alarm has left or entered the
//! index: then whatever was on its way, before or after a worker was asked, would have been seen.

use std::time::{Duration, Instant};

use abide_storage::{AlarmState, Isolation};
use tokio::sync::oneshot;

use crate::{
    Error, ErrorKind, Node, Result,
    envelope::Message,
    limits::{MAX_NAMED_BUSY, SETTLE_PATIENCE, SETTLE_TURNS},
    router::Phase,
};

/// Rounds that follow each other at once. After them something takes its time, such as another server, and is looked at
/// less often.
const QUICK_ROUNDS: u64 = 200;
const PACE: Duration = Duration::from_millis(1);

/// What only grows while a node works.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    turns: u64,
    alarm_moves: u64,
}

/// The activity of a node.
#[derive(Default)]
struct Round {
    progress: Progress,
    busy: Vec<String>,
    is_moving: bool,
    last: Vec<String>,
}

impl Round {
    /// The progress until now, if nothing is left to do.
    fn at_rest(&self) -> Option<Progress> {
        (self.busy.is_empty() && !self.is_moving).then_some(self.progress)
    }
}

impl Node {
    /// Returns when the node is idle: no event waits or runs, no alarm is due, nothing waits at an output
    /// gate, no request to another server is on its way, and every running handler or task waits for the clock.
    ///
    /// For tests, on a clock that stands still ([`TestClock`](crate::clock::TestClock)): move the clock, settle, look. A
    /// handler, or background work, that waits for the clock or for an object that does is at rest. One that waits for anything
    /// else (a server, a channel, its own thread) is waited for.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] with the objects that do not rest and what keeps them busy: after
    /// [`SETTLE_TURNS`] turns, if objects keep each other or themselves busy at a standing clock, and after
    /// [`SETTLE_PATIENCE`] of the machine's time, if something outside does not end. [`ErrorKind::Input`] on a clock that
    /// is running.
    #[allow(
        clippy::disallowed_methods,
        reason = "it also waits for other servers, whose time is the machine's"
    )]
    pub async fn settle(&self) -> Result<()> {
        let clock = self.env().clock();
        if !clock.stands_still() {
            return Err(Error::with_kind(
                ErrorKind::Input,
                "settling needs a clock that stands still: give the host a `TestClock` with `.clock(…)`",
            ));
        }
        let deadline = Instant::now() + SETTLE_PATIENCE;
        let mut first_turns = None;
        let mut before = None;
        let mut rounds = 0;
        self.must_run()?;
        loop {
            let round = self.look().await?;
            let turns = round.progress.turns;
            let since = turns - *first_turns.get_or_insert(turns);
            let at_rest = round.at_rest();
            if at_rest.is_some() && at_rest == before {
                return Ok(());
            }
            before = at_rest;
            let expired = Instant::now() >= deadline;
            if since > SETTLE_TURNS || expired {
                return Err(restless(round, since, expired));
            }
            rounds += 1;
            pause(rounds).await;
        }
    }

    /// For the shutdown, on a clock that stands still: returns when all that runs waits for the clock, so that nothing
    /// more ends until the clock is moved; at the latest after this much of the machine's time. Never returns on a
    /// clock that runs.
    pub(crate) async fn stands_still(&self, patience: Duration) {
        tokio::select! {
            () = self.rests() => {}
            () = self.machine_time(patience) => {}
        }
    }

    /// Returns after this much of the machine's time, on a clock that stands still; never on one that runs, or if the
    /// caller does the work of the store's threads, and with it keeps the time.
    #[allow(
        clippy::disallowed_methods,
        reason = "a clock that stands still has no time to wait for"
    )]
    pub(crate) async fn machine_time(&self, time: Duration) {
        if !self.may_use_machine_time() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(time).await;
    }

    fn may_use_machine_time(&self) -> bool {
        self.env().clock().stands_still() && self.store().has_threads()
    }

    async fn rests(&self) {
        if !self.may_use_machine_time() {
            std::future::pending::<()>().await;
        }
        let mut before = None;
        for rounds in 0_u64.. {
            let Ok(round) = self.look().await else {
                return;
            };
            let at_rest = round.at_rest();
            if at_rest.is_some() && at_rest == before {
                return;
            }
            before = at_rest;
            pause(rounds).await;
        }
    }

    /// Asks every worker for its activity.
    async fn look(&self) -> Result<Round> {
        let router = self.router();
        if router.phase() == Phase::Stopped {
            return Err(Error::stopping());
        }
        let mut round = Round::default();
        for worker in &router.workers {
            let (tell, told) = oneshot::channel();
            worker.send(Message::Census(tell))?;
            let census = told.await.map_err(|_| Error::stopping())?;
            round.progress.turns += census.turns;
            round.busy.extend(census.busy);
            round.is_moving |= census.is_moving;
            round.last.extend(census.last);
        }
        round.is_moving |= router.egress.is_busy();
        if router.phase() == Phase::Running && self.an_alarm_is_due() {
            round.is_moving = true;
            round.busy.extend(self.due_alarms());
        }
        round.progress.alarm_moves = router.store.alarms().moves();
        Ok(round)
    }

    /// True if an alarm is due and has not gone off.
    fn an_alarm_is_due(&self) -> bool {
        let router = self.router();
        let index = router.store.alarms();
        let now = router.clock.unix_millis().cast_signed();
        let parts = self.env().bindings().len() * router.workers.len();
        let due = (0..parts).filter_map(|part| index.next_due(part));
        let suspects = [Isolation::Few, Isolation::Alone];
        let suspects = suspects
            .into_iter()
            .filter_map(|isolation| index.next_suspect(isolation));
        due.chain(suspects).any(|due| due <= now)
    }

    /// The objects with such alarms. Another thread may have taken the alarms in the meantime.
    fn due_alarms(&self) -> Vec<String> {
        let now = self.router().clock.unix_millis().cast_signed();
        self.alarms(AlarmState::Pending, None, MAX_NAMED_BUSY)
            .into_iter()
            .filter(|alarm| alarm.due.unix_millis() <= now)
            .map(|alarm| format!("{}/{}: its alarm is due", alarm.class, alarm.id))
            .collect()
    }
}

/// Lets others go first; after many rounds for longer.
#[allow(
    clippy::disallowed_methods,
    reason = "it also waits for other servers, whose time is the machine's"
)]
async fn pause(rounds: u64) {
    if rounds > QUICK_ROUNDS {
        tokio::time::sleep(PACE).await;
    } else {
        tokio::task::yield_now().await;
    }
}

/// Names the objects that are busy and those that had the last turns, which may be between two turns.
fn restless(mut round: Round, turns: u64, expired: bool) -> Error {
    let more = round.busy.len().saturating_sub(MAX_NAMED_BUSY);
    round.busy.truncate(MAX_NAMED_BUSY);
    if more > 0 {
        round.busy.push(format!("and {more} more"));
    }
    let last = round.last.into_iter();
    round
        .busy
        .extend(last.map(|object| format!("{object}: had a thread's last turn")));
    let busy = match round.busy.join("; ") {
        none if none.is_empty() => "something is on its way from object to object".to_owned(),
        busy => busy,
    };
    let bound = if expired {
        format!("within {} s", SETTLE_PATIENCE.as_secs())
    } else {
        format!("within {SETTLE_TURNS} turns")
    };
    Error::with_kind(
        ErrorKind::Timeout,
        format!(
            "the objects do not rest {bound} ({turns} turns, and the clock stands still): {busy}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_between_two_turns_is_named_beside_those_that_are_busy() {
        for busy in [vec![], vec!["Sleeper/02e4: its alarm is due".to_owned()]] {
            let round = Round {
                busy: busy.clone(),
                is_moving: true,
                last: vec!["Sleeper/ada".to_owned()],
                ..Round::default()
            };
            let error = restless(round, 20_001, false);
            let said = error.message();
            assert!(said.contains("Sleeper/ada"), "{said}");
            assert!(busy.iter().all(|busy| said.contains(busy)), "{said}");
        }
    }

    #[test]
    fn a_node_rests_only_if_no_alarm_has_moved_between_two_rounds() {
        let mut round = Round::default();
        let before = round.at_rest();
        assert!(before.is_some() && round.at_rest() == before);
        round.progress.alarm_moves += 1;
        assert!(round.at_rest() != before);
        round.is_moving = true;
        assert_eq!(round.at_rest().map(drop), None);
    }
}
