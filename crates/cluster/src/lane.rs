//! Appends groups of records to a session's log.

use crate::{Ended, Lsn, Outcome, Statement, statement::Answer};

/// The log of a session as its writer sees it. One group is under way at a time, and its bytes stay as they are until it is durable: a
/// group whose outcome is unknown is sent again with the same positions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Everything before is durable.
    durable: Lsn,
    /// Records have been given the positions before this one.
    assigned: Lsn,
    /// The group that begins at `durable`.
    group: Option<Group>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Group {
    end: Lsn,
    /// It may be committed: ask by a write before it is sent again.
    is_unknown: bool,
}

impl Lane {
    /// Everything before this position is durable.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// The position that the next record gets.
    pub fn assigned(&self) -> Lsn {
        self.assigned
    }

    /// Gives positions to a record of this many bytes, and returns the position after it.
    pub fn assign(&mut self, bytes: u64) -> Lsn {
        self.assigned = Lsn(self.assigned.0 + bytes);
        self.assigned
    }

    /// Records have been given the positions before this one elsewhere.
    pub(crate) fn assigned_up_to(&mut self, until: Lsn) {
        self.assigned = self.assigned.max(until);
    }

    /// The next statement: none if all is durable. Records that are assigned while a group is under way are in the next one.
    pub(crate) fn next(&mut self) -> Option<Statement> {
        if self.group.is_none() && self.assigned > self.durable {
            self.group = Some(Group {
                end: self.assigned,
                is_unknown: false,
            });
        }
        let group = self.group?;
        Some(if group.is_unknown {
            Statement::Settle
        } else {
            Statement::Append {
                begin: self.durable,
                end: group.end,
            }
        })
    }

    /// Takes the outcome of [`Statement::Append`].
    pub(crate) fn appended(&mut self, outcome: &Outcome) {
        let Some(group) = &mut self.group else { return };
        match outcome {
            Outcome::Done(_) => {
                self.durable = group.end;
                self.group = None;
            }
            // Refused does not mean absent: an earlier attempt may have arrived after all.
            Outcome::Refused | Outcome::Unknown => group.is_unknown = true,
        }
    }

    /// Takes the outcome of [`Statement::Settle`].
    ///
    /// # Errors
    /// The lane is fenced, or not where it should be.
    pub(crate) fn settled(&mut self, outcome: &Outcome) -> Result<(), Ended> {
        let (lsn, is_fenced) = match outcome {
            Outcome::Done(Answer::Lane { lsn, is_fenced }) => (*lsn, *is_fenced),
            Outcome::Unknown => return Ok(()),
            // Its row is gone: it was fenced, and all that it left is archived.
            Outcome::Refused | Outcome::Done(_) => return Err(Ended::Fenced),
        };
        if lsn < self.durable {
            return Err(Ended::LostCommits);
        }
        if let Some(group) = &mut self.group {
            if lsn == group.end {
                self.durable = group.end;
                self.group = None;
            } else if lsn == self.durable {
                group.is_unknown = false;
            } else {
                return Err(Ended::LostCommits);
            }
        }
        if is_fenced {
            return Err(Ended::Fenced);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: Outcome = Outcome::Done(Answer::Committed);

    fn lane(lsn: u64, is_fenced: bool) -> Outcome {
        let lsn = Lsn(lsn);
        Outcome::Done(Answer::Lane { lsn, is_fenced })
    }

    fn append(begin: u64, end: u64) -> Statement {
        let (begin, end) = (Lsn(begin), Lsn(end));
        Statement::Append { begin, end }
    }

    #[test]
    fn records_of_a_group_under_way_are_followed_by_the_next_group() {
        let mut own = Lane::default();
        assert_eq!(own.next(), None);
        own.assign(10);
        assert_eq!(own.next(), Some(append(0, 10)));
        own.assign(5);
        own.appended(&DONE);
        assert_eq!(own.durable(), Lsn(10));
        assert_eq!(own.next(), Some(append(10, 15)));
    }

    #[test]
    fn a_group_of_unknown_outcome_is_sent_again_unchanged() {
        let mut own = Lane::default();
        own.assign(10);
        own.next();
        own.appended(&Outcome::Unknown);
        own.assign(5);
        assert_eq!(own.next(), Some(Statement::Settle));
        own.settled(&Outcome::Unknown).unwrap();
        assert_eq!(own.next(), Some(Statement::Settle));
        own.settled(&lane(0, false)).unwrap();
        assert_eq!(own.next(), Some(append(0, 10)));
    }

    #[test]
    fn a_group_that_is_refused_because_it_had_arrived_is_durable() {
        let mut own = Lane::default();
        own.assign(10);
        own.next();
        own.appended(&Outcome::Refused);
        assert_eq!(
            (own.durable(), own.next()),
            (Lsn(0), Some(Statement::Settle))
        );
        own.settled(&lane(10, false)).unwrap();
        assert_eq!((own.durable(), own.next()), (Lsn(10), None));
    }

    #[test]
    fn a_group_that_arrived_before_the_fence_is_durable() {
        let mut own = Lane::default();
        own.assign(10);
        own.next();
        own.appended(&Outcome::Unknown);
        assert_eq!(own.settled(&lane(10, true)), Err(Ended::Fenced));
        assert_eq!(own.durable(), Lsn(10));
    }

    #[test]
    fn a_lane_that_went_back_has_lost_commits() {
        let mut own = Lane::default();
        own.assign(10);
        own.next();
        own.appended(&DONE);
        own.assign(5);
        own.next();
        own.appended(&Outcome::Unknown);
        assert_eq!(own.settled(&lane(0, false)), Err(Ended::LostCommits));
    }
}
