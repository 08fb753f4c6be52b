use super::*;
use crate::{
    Generation, Grant, Owner, Peer, Shard, View,
    samples::{ME, NEW, OTHER},
};

const SHARD: Shard = Shard(3);
const NOW: Duration = Duration::from_secs(100);

fn tenancy(generation: u32) -> Tenancy {
    Tenancy {
        shard: SHARD,
        generation: Generation(generation),
    }
}

fn granted(generation: u32) -> Outcome {
    Outcome::Done(Answer::Granted(vec![Grant {
        tenancy: tenancy(generation),
        since: Lsn(0),
        floor: 0,
        parts: Vec::new(),
    }]))
}

fn view(owner: SessionId, generation: u32, own: Peer) -> View {
    let generation = Generation(generation);
    let session = Some(owner);
    let owner = Owner {
        session,
        generation,
        since: Lsn(0),
    };
    View {
        peers: [ME, OTHER].map(|session| (session, own)).into(),
        shards: [(SHARD, owner)].into(),
        ..View::default()
    }
}

/// The row of a session whose lane is at 10.
const AT_10: Peer = Peer {
    lsn: Lsn(10),
    ..NEW
};

/// Sends the next statement of a connection, and returns it.
fn answer(session: &mut Session, connection: Connection, outcome: Outcome) -> Statement {
    let statement = session.next(connection, NOW).unwrap();
    session.answered(connection, outcome, NOW);
    statement
}

fn poll(session: &mut Session, view: View) {
    session.polled = None;
    let outcome = Outcome::Done(Answer::View(view));
    assert_eq!(
        answer(session, Connection::Control, outcome),
        Statement::Poll
    );
}

/// A session that serves one shard, in generation 1, and has appended one record.
fn serving() -> Session {
    let mut session = Session::begin(ME, NOW);
    let orphan = view(
        OTHER,
        0,
        Peer {
            is_fenced: true,
            ..NEW
        },
    );
    let mut peers = orphan.peers.clone();
    peers.insert(ME, NEW);
    poll(&mut session, View { peers, ..orphan });
    let claim = answer(&mut session, Connection::Control, granted(1));
    assert_eq!(claim, Statement::Claim(vec![tenancy(0)]));
    assert!(session.append(tenancy(1), 10).is_none(), "it is being read");
    assert!(session.adopted(tenancy(1)));
    assert_eq!(session.append(tenancy(1), 10), Some(Lsn(10)));
    let done = Outcome::Done(Answer::Committed);
    answer(&mut session, Connection::Lane, done);
    assert_eq!(session.durable(), Lsn(10));
    session
}

#[test]
fn a_database_behind_what_it_confirmed_ends_the_session() {
    for (generation, own, ended) in [
        (1, AT_10, None),
        (
            1,
            Peer {
                lsn: Lsn(9),
                ..AT_10
            },
            Some(Ended::LostCommits),
        ),
        (0, AT_10, Some(Ended::LostCommits)),
    ] {
        let mut session = serving();
        poll(&mut session, view(ME, generation, own));
        assert_eq!(session.ended(), ended, "{own:?}, {generation}");
    }
}

#[test]
fn a_shard_that_is_anothers_ends_the_session() {
    let mut session = serving();
    poll(&mut session, view(OTHER, 2, AT_10));
    assert_eq!(session.ended(), Some(Ended::Fenced));
    assert_eq!(session.append(tenancy(1), 10), None);
    assert!(
        Connection::ALL
            .iter()
            .all(|of| session.next(*of, NOW).is_none())
    );
}

#[test]
fn a_hand_over_without_an_answer_is_repeated_and_then_taken_back() {
    let mut session = serving();
    let hand_over = |to| Statement::HandOver {
        tenancy: tenancy(1),
        to,
        until: Lsn(10),
    };
    poll(&mut session, view(ME, 1, AT_10));
    assert!(session.close(tenancy(1), OTHER));
    assert_eq!(session.append(tenancy(1), 10), None);
    for outcome in [Outcome::Unknown, Outcome::Refused] {
        let sent = answer(&mut session, Connection::Control, outcome.clone());
        assert_eq!(sent, hand_over(OTHER));
        if outcome == Outcome::Unknown {
            assert_eq!(session.next(Connection::Control, NOW), None);
            poll(&mut session, view(ME, 1, AT_10));
        }
    }
    let sent = answer(&mut session, Connection::Control, Outcome::Refused);
    assert_eq!(sent, hand_over(ME));
    // Who owns it is asked by a write.
    let held = |grants| {
        Outcome::Done(Answer::Held {
            archived: Lsn(0),
            listed: 0,
            grants,
        })
    };
    let mut gone = session.clone();
    let sent = answer(&mut gone, Connection::Control, held(Vec::new()));
    assert_eq!(sent, Statement::Hold);
    assert_eq!((gone.tenures().get(SHARD), gone.ended()), (None, None));

    let own = Grant {
        tenancy: tenancy(2),
        since: Lsn(10),
        floor: 0,
        parts: Vec::new(),
    };
    answer(&mut session, Connection::Control, held(vec![own]));
    let tenure = session.tenures().get(SHARD).unwrap();
    assert_eq!(
        (tenure.generation, tenure.state),
        (Generation(2), State::Adopting)
    );
}

/// A session that has given its shard away, in generation 2.
fn given_away() -> Session {
    let mut session = serving();
    poll(&mut session, view(ME, 1, AT_10));
    assert!(session.close(tenancy(1), OTHER));
    answer(&mut session, Connection::Control, granted(2));
    assert_eq!(session.tenures().get(SHARD), None);
    session
}

#[test]
fn a_shard_that_was_given_away_is_not_at_an_earlier_generation() {
    for (owner, generation, ended) in [
        (ME, 1, Some(Ended::LostCommits)),
        (OTHER, 1, Some(Ended::LostCommits)),
        (OTHER, 2, None),
        (ME, 3, None),
    ] {
        let mut session = given_away();
        poll(&mut session, view(owner, generation, AT_10));
        assert_eq!(session.ended(), ended, "{owner:?}, {generation}");
    }
}

#[test]
fn a_tenure_that_comes_back_from_another_position_is_a_lost_one() {
    let mut session = serving();
    let mut seen = view(ME, 1, AT_10);
    seen.shards.get_mut(&SHARD).unwrap().since = Lsn(10);
    poll(&mut session, seen);
    assert_eq!(session.ended(), Some(Ended::LostCommits));
}

#[test]
fn slow_polls_leave_time_for_other_statements() {
    let mut session = Session::begin(ME, NOW);
    let mut now = NOW;
    let mut said = Vec::new();
    for _ in 0..6 {
        let statement = session.next(Connection::Control, now).unwrap();
        now += Duration::from_secs(3);
        let orphan = Peer {
            is_fenced: true,
            ..NEW
        };
        let mut seen = view(OTHER, 0, orphan);
        seen.peers.insert(ME, NEW);
        let outcome = match statement {
            Statement::Poll => Outcome::Done(Answer::View(seen)),
            _ => Outcome::Refused,
        };
        session.answered(Connection::Control, outcome, now);
        said.push(statement);
    }
    assert!(
        said.contains(&Statement::Claim(vec![tenancy(0)])),
        "{said:?}"
    );
}

#[test]
fn the_number_of_a_renewal_does_not_return() {
    let mut session = Session::begin(ME, NOW);
    for (second, outcome) in [
        (0, Outcome::Done(Answer::Committed)),
        (1, Outcome::Unknown),
        (2, Outcome::Done(Answer::Committed)),
    ] {
        let now = NOW + Duration::from_secs(second);
        let statement = session.next(Connection::Lease, now);
        assert_eq!(statement, Some(Statement::Renew(second + 1)));
        session.answered(Connection::Lease, outcome, now);
    }
}

#[test]
fn a_session_that_has_ended_answers_nothing() {
    let mut session = serving();
    let renewal = session.next(Connection::Lease, NOW);
    assert_eq!(renewal, Some(Statement::Renew(1)));
    session.answered(Connection::Lease, Outcome::Done(Answer::Committed), NOW);
    assert!(session.may_release(NOW, Reads::Leased, NOW));
    poll(&mut session, view(OTHER, 2, NEW));
    assert!(!session.may_release(NOW, Reads::Leased, NOW));
}

#[test]
fn a_session_leaves_once_its_records_are_durable() {
    // It is refused if an earlier attempt was executed.
    for outcome in [Outcome::Done(Answer::Committed), Outcome::Refused] {
        let mut session = serving();
        poll(&mut session, view(ME, 1, AT_10));
        answer(
            &mut session,
            Connection::Lease,
            Outcome::Done(Answer::Committed),
        );
        assert_eq!(session.append(tenancy(1), 10), Some(Lsn(20)));
        session.leave();
        assert!(!session.may_release(NOW, Reads::Leased, NOW) && session.leased_until().is_none());
        assert!(!session.admits(tenancy(1)) && session.append(tenancy(1), 10).is_none());
        assert_eq!(session.next(Connection::Control, NOW), None);
        answer(
            &mut session,
            Connection::Lane,
            Outcome::Done(Answer::Committed),
        );
        let lost = answer(&mut session, Connection::Control, Outcome::Unknown);
        assert_eq!(lost, Statement::Leave);
        // Not before the next poll.
        assert_eq!(session.next(Connection::Control, NOW), None);
        let at_20 = Peer {
            lsn: Lsn(20),
            ..AT_10
        };
        poll(&mut session, view(ME, 1, at_20));
        assert_eq!(
            answer(&mut session, Connection::Control, outcome),
            Statement::Leave
        );
        assert_eq!(session.ended(), Some(Ended::Left));
    }
}

#[test]
fn a_session_that_was_not_heard_leaving_is_silent_and_has_left() {
    let mut session = serving();
    poll(&mut session, view(ME, 1, AT_10));
    session.leave();
    let lost = answer(&mut session, Connection::Control, Outcome::Unknown);
    assert_eq!(lost, Statement::Leave);
    assert_eq!(session.next(Connection::Lease, NOW), None);
    let fenced = Peer {
        is_fenced: true,
        ..AT_10
    };
    poll(&mut session, view(ME, 1, fenced));
    assert_eq!(session.ended(), Some(Ended::Left));
}

#[test]
fn a_lease_counts_from_the_sending_of_its_renewal() {
    let mut session = Session::begin(ME, NOW);
    session.next(Connection::Lease, NOW);
    let after = |seconds| NOW + Duration::from_secs(seconds);
    session.answered(
        Connection::Lease,
        Outcome::Done(Answer::Committed),
        after(3),
    );
    assert!(session.may_release(after(3), Reads::Leased, after(4)));
    assert!(!session.may_release(after(3), Reads::Leased, after(5)));
}

#[test]
fn a_run_that_may_be_listed_is_not_given_up() {
    let mut session = serving();
    let first = session.plan_run(Lsn(10)).unwrap();
    session.abandon_run(first.number);
    let run = session.plan_run(Lsn(10)).unwrap();
    assert!(run.number > first.number && run.until == Lsn(10));
    session.uploaded(first.number, None);
    assert_eq!(session.next(Connection::Control, NOW), None);
    session.uploaded(run.number, None);
    let said = answer(&mut session, Connection::Control, Outcome::Unknown);
    assert!(matches!(said, Statement::Publish { .. }));
    session.abandon_run(run.number);
    assert_eq!(session.plan_run(Lsn(10)), None);
}

#[test]
fn a_run_ends_where_it_is_asked_to_and_never_after_what_is_durable() {
    let mut session = serving();
    let done = || Outcome::Done(Answer::Committed);
    session.append(tenancy(1), 10).unwrap();
    answer(&mut session, Connection::Lane, done());
    assert_eq!(session.plan_run(Lsn(21)), None);
    let run = session.plan_run(Lsn(10)).unwrap();
    assert_eq!((run.since, run.until), (Lsn(0), Lsn(10)));
    session.uploaded(run.number, None);
    answer(&mut session, Connection::Control, done());
    assert_eq!(session.archived(), Lsn(10));
    assert_eq!(session.plan_run(Lsn(10)), None);
    let run = session.plan_run(Lsn(20)).unwrap();
    assert_eq!((run.since, run.until), (Lsn(10), Lsn(20)));
}
