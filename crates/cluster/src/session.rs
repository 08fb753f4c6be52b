//! All decisions of one start of a process.

mod archive;
mod seen;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    Connection, Lane, Lease, Lsn, Outcome, Reads, Run, SessionId, State, Statement, Stored,
    Tenancy, Tenures,
    limits::{POLL_EVERY, TRIM_EVERY},
    statement::Answer,
};
use archive::Archive;
use seen::{Known, Seen};

/// Why a session has ended. Its process writes and answers nothing more, and starts again as a new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// Another session has fenced it.
    Fenced,
    /// The database is behind what it had confirmed: it was restored, or failed over without synchronous replication.
    LostCommits,
    /// It has left: see [`Session::leave`].
    Left,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fenced => "another node has fenced this one, which was silent for too long",
            Self::LostCommits => {
                "the database has lost commits that it had confirmed: check its synchronous replication"
            }
            Self::Left => "it has left the cluster",
        })
    }
}

/// One start of one process, from its row in the database on. It is told the time, and what was said to it.
///
/// A driver repeats, for each [`Connection`] that has no statement under way: [`Session::next`], execute the statement,
/// [`Session::answered`]. It appends records with [`Session::append`], and releases a reply when [`Session::durable`] has reached the
/// position of the last record that the reply may show, and [`Session::may_release`] permits it. Every error of a statement is
/// [`Outcome::Unknown`], and refused is only what was executed and changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    me: SessionId,
    lane: Lane,
    lease: Lease,
    tenures: Tenures,
    seen: Seen,
    archive: Archive,
    under_way: BTreeMap<Connection, Sent>,
    /// When the last poll was answered.
    polled: Option<Duration>,
    /// The last statement of the control connection has an unknown outcome: what follows is said after the next poll.
    is_uncertain: bool,
    trimmed: Duration,
    leaving: Leaving,
    ended: Option<Ended>,
}

/// How far a session has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Leaving {
    #[default]
    No,
    /// It answers and gives nothing any more.
    Stopped,
    /// All of its records are before this position.
    At(Lsn),
    /// It has said so, perhaps without being heard. If it is fenced now, it has left.
    Said(Lsn),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    statement: Statement,
    at: Duration,
    known: Known,
}

impl Session {
    /// A session whose row and empty lane are committed. The same transaction has fenced all earlier sessions of this data
    /// directory, without waiting for their leases: who holds the directory's lock knows that their processes have ended. Each attempt
    /// to begin one has a number, which was durable in the directory before it was sent, and requires that there is no session of the
    /// directory with a greater one: an attempt that arrives late fences no session.
    pub fn begin(me: SessionId, now: Duration) -> Self {
        Self {
            me,
            lane: Lane::default(),
            lease: Lease::default(),
            tenures: Tenures::default(),
            seen: Seen::default(),
            archive: Archive::default(),
            under_way: BTreeMap::new(),
            polled: None,
            is_uncertain: false,
            trimmed: now,
            leaving: Leaving::No,
            ended: None,
        }
    }

    /// Its name.
    pub fn id(&self) -> SessionId {
        self.me
    }

    /// Why it has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Whether a reply may leave, if it shows nothing that is not durable: see [`Lease::may_release`]. A session that leaves or has ended
    /// answers nothing more.
    pub fn may_release(&self, computed: Duration, reads: Reads, now: Duration) -> bool {
        self.is_active() && self.lease.may_release(computed, reads, now)
    }

    /// No other session can have fenced this one before this time. None if it leaves or has ended.
    pub fn leased_until(&self) -> Option<Duration> {
        self.lease.until().filter(|_| self.is_active())
    }

    /// Whether it neither leaves nor has ended.
    pub fn is_active(&self) -> bool {
        self.leaving == Leaving::No && self.ended.is_none()
    }

    /// The shards that it owns.
    pub fn tenures(&self) -> &Tenures {
        &self.tenures
    }

    /// Records before this position are durable.
    pub fn durable(&self) -> Lsn {
        self.lane.durable()
    }

    /// Gives a record of a shard its position, and returns the position after it. None if the session does not serve the shard in
    /// this generation, leaves, or has ended: the record must not be written.
    pub fn append(&mut self, tenancy: Tenancy, bytes: u64) -> Option<Lsn> {
        assert!(
            bytes > 0,
            "the position after a record is greater than the one before"
        );
        self.admits(tenancy).then(|| self.lane.assign(bytes))
    }

    /// Whether a record of this shard and generation may be given a position now.
    pub fn admits(&self, tenancy: Tenancy) -> bool {
        self.is_active() && self.tenures.admits(tenancy)
    }

    /// A store that keeps the log has given positions to records up to this one: the next group ends there. For a session whose
    /// records are not given their positions by [`Session::append`].
    pub fn logged(&mut self, until: Lsn) {
        self.lane.assigned_up_to(until);
    }

    /// What earlier owners have left of a shard was read. Returns false if this is no longer asked for.
    pub fn adopted(&mut self, tenancy: Tenancy) -> bool {
        self.tenures
            .change(tenancy, State::Adopting, State::Serving)
    }

    /// Closes a shard and begins to give it away, once the run that is under way is listed. Returns false if the session does not own
    /// it, or gives it away already. If the other session does not take it, the shard comes back in a new generation and is adopted
    /// again.
    pub fn close(&mut self, tenancy: Tenancy, to: SessionId) -> bool {
        self.close_at(tenancy, to, self.lane.assigned())
    }

    /// The same for a shard that a store has closed: all of its records are before this position.
    pub fn close_at(&mut self, tenancy: Tenancy, to: SessionId, until: Lsn) -> bool {
        let closed = State::Closed { until, to };
        [State::Serving, State::Adopting]
            .into_iter()
            .any(|from| self.tenures.change(tenancy, from, closed))
    }

    /// Begins to leave: from now on it answers no reads and gives no record a position. Once its lane is durable up to the last record, it
    /// says that others may claim its shards, and ends as [`Ended::Left`]. From then on it does not renew its lease: if it
    /// was not heard, others fence it after the silence.
    pub fn leave(&mut self) {
        self.stop();
        self.leave_at(self.lane.assigned());
    }

    /// The first half of [`Session::leave`], for a store that keeps the log and has to be closed: [`Session::leave_at`] is the other.
    pub fn stop(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Stopped;
        }
    }

    /// Has a session that was stopped leave: all records are before this position.
    pub fn leave_at(&mut self, until: Lsn) {
        if self.leaving == Leaving::Stopped {
            self.leaving = Leaving::At(until);
        }
    }

    /// Whether all that is to be durable before it leaves is.
    fn may_leave(&self) -> bool {
        match self.leaving {
            Leaving::At(until) | Leaving::Said(until) => until <= self.lane.durable(),
            Leaving::No | Leaving::Stopped => false,
        }
    }

    /// A run that has what is durable here up to a position and in no run, and all inherited parts. To be built, put into the store, and
    /// reported as [`Session::uploaded`]. None if there is nothing, if the position is not durable, if another run is not listed yet, while
    /// it is uncertain what the session owns, or if it leaves. What a shard has inherited is in no run before it was adopted: the log that is being read stays.
    ///
    /// The records after the position must be readable without those before it.
    pub fn plan_run(&mut self, until: Lsn) -> Option<Run> {
        let durable = self.lane.durable();
        let is_certain = !self.seen.is_hold_due() && self.tenures.leaving(durable).is_none();
        if !is_certain || until > durable || !self.is_active() {
            return None;
        }
        self.archive.plan(&self.tenures, until)
    }

    /// The planned run of this number is in the store, or has no records.
    pub fn uploaded(&mut self, number: u64, stored: Option<Stored>) {
        self.archive.uploaded(number, stored);
    }

    /// Gives up the planned run of this number, unless it was reported as [`Session::uploaded`]: a shard that is given away does not wait
    /// for it any more, and another run can be planned.
    pub fn abandon_run(&mut self, number: u64) {
        self.archive.abandon(number);
    }

    /// Own records before this position are in runs that are listed.
    pub fn archived(&self) -> Lsn {
        self.archive.archived()
    }

    /// The next statement of a connection. None if it has one under way, if there is nothing to say, or if the session has ended.
    pub fn next(&mut self, connection: Connection, now: Duration) -> Option<Statement> {
        if self.ended.is_some() || self.under_way.contains_key(&connection) {
            return None;
        }
        let statement = match connection {
            Connection::Lane => self.lane.next(),
            Connection::Lease => self.renewal(now),
            Connection::Control => self.control(now),
        }?;
        let sent = Sent {
            statement: statement.clone(),
            at: now,
            known: Known {
                durable: self.lane.durable(),
                listed: self.archive.last_listed(),
            },
        };
        self.under_way.insert(connection, sent);
        Some(statement)
    }

    fn renewal(&mut self, now: Duration) -> Option<Statement> {
        let is_due = self.lease.is_due(now) && !self.may_leave();
        is_due.then(|| Statement::Renew(self.lease.sent(now)))
    }

    fn control(&mut self, now: Duration) -> Option<Statement> {
        if self.polled.is_none_or(|polled| now >= polled + POLL_EVERY) {
            return Some(Statement::Poll);
        }
        if self.is_uncertain {
            return None;
        }
        if let (Leaving::At(until) | Leaving::Said(until), true) = (self.leaving, self.may_leave())
        {
            self.leaving = Leaving::Said(until);
            return Some(Statement::Leave);
        }
        if self.leaving != Leaving::No {
            return None;
        }
        if let Some(statement) = self.seen.statement() {
            return Some(statement);
        }
        if let Some((run, stored)) = self.archive.uploaded_run() {
            let (run, stored) = (run.clone(), stored.cloned());
            return Some(Statement::Publish { run, stored });
        }
        let leaving = self.tenures.leaving(self.lane.durable());
        if let Some((tenancy, to, until)) = leaving.filter(|_| !self.archive.is_under_way()) {
            return Some(Statement::HandOver { tenancy, to, until });
        }
        if now >= self.trimmed + TRIM_EVERY {
            self.trimmed = now;
            return Some(Statement::Trim);
        }
        None
    }

    /// Takes the outcome of the statement that is under way on a connection. `now` is read from the clock after the answer was received.
    /// [`Outcome::Unknown`] also means that the connection was replaced.
    pub fn answered(&mut self, connection: Connection, outcome: Outcome, now: Duration) {
        let Some(sent) = self.under_way.remove(&connection) else {
            return;
        };
        let is_done = matches!(outcome, Outcome::Done(_));
        if is_done && sent.statement.is_proof() {
            self.lease.proven(sent.at);
        }
        if connection == Connection::Control {
            self.is_uncertain = outcome == Outcome::Unknown;
        }
        if let Err(ended) = self.take(&sent, outcome, now) {
            let has_left = ended == Ended::Fenced && matches!(self.leaving, Leaving::Said(_));
            let ended = if has_left { Ended::Left } else { ended };
            self.ended = self.ended.or(Some(ended));
        }
    }

    fn take(&mut self, sent: &Sent, outcome: Outcome, now: Duration) -> Result<(), Ended> {
        match sent.statement {
            Statement::Append { .. } => self.lane.appended(&outcome),
            Statement::Settle => self.lane.settled(&outcome)?,
            Statement::Renew(_) => match outcome {
                Outcome::Done(_) => self.lease.renewed(sent.at),
                Outcome::Refused => return Err(Ended::Fenced),
                Outcome::Unknown => {}
            },
            Statement::Poll => {
                self.polled = Some(now);
                let Outcome::Done(Answer::View(view)) = outcome else {
                    self.seen.begin_anew();
                    return Ok(());
                };
                self.seen
                    .take(self.me, sent.known, &self.tenures, &view, now)?;
            }
            Statement::Fence { .. } => {
                if let Outcome::Done(_) = outcome {
                    // Its shards can be claimed, once they are seen.
                    self.polled = None;
                }
            }
            Statement::Leave => match outcome {
                Outcome::Done(_) | Outcome::Refused => return Err(Ended::Fenced),
                Outcome::Unknown => {}
            },
            Statement::Claim(_) => {
                if let Outcome::Done(Answer::Granted(grants)) = outcome {
                    self.tenures.take(grants)?;
                }
            }
            Statement::Hold => {
                if let Outcome::Done(Answer::Held {
                    archived,
                    listed,
                    grants,
                }) = outcome
                {
                    self.seen.held();
                    self.archive.is_at(archived, listed)?;
                    self.tenures.take_all(grants)?;
                }
            }
            Statement::HandOver { tenancy, to, until } => {
                self.handed(tenancy, to, until, outcome)?;
            }
            Statement::Publish { .. } => match outcome {
                Outcome::Done(_) => {
                    for (shard, part) in self.archive.listed() {
                        self.tenures.archived(shard, &part);
                    }
                }
                Outcome::Refused => {
                    self.archive.give_up();
                    self.seen.hold();
                }
                Outcome::Unknown => {}
            },
            Statement::Trim => {}
        }
        Ok(())
    }

    /// A hand-over of unknown outcome is repeated until it is done or refused. A refusal does not say whether an earlier attempt was
    /// done, so the shard is taken back, with a new generation: then no earlier attempt can succeed any more. If that is refused
    /// too, a write says who owns the shard.
    fn handed(
        &mut self,
        tenancy: Tenancy,
        to: SessionId,
        until: Lsn,
        outcome: Outcome,
    ) -> Result<(), Ended> {
        match outcome {
            Outcome::Done(Answer::Granted(grants)) if to == self.me => {
                return self.tenures.take(grants);
            }
            Outcome::Done(_) => self.tenures.give(tenancy.shard),
            Outcome::Refused if to == self.me => self.seen.hold(),
            Outcome::Refused => {
                let (from, back) = (
                    State::Closed { until, to },
                    State::Closed { until, to: self.me },
                );
                self.tenures.change(tenancy, from, back);
            }
            Outcome::Unknown => {}
        }
        Ok(())
    }
}
