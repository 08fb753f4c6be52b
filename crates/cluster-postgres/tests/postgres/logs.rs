use abide_cluster::{Answer, Connection, Generation, Lsn, Outcome, Part, Run, Statement};
use abide_cluster_postgres::{Error, limits::HALF_BYTES};

use crate::support::{Own, Server, tenancy};

const DONE: Outcome = Outcome::Done(Answer::Committed);

fn part(own: &Own, since: u64, until: u64) -> Part {
    Part {
        generation: Generation(1),
        session: own.session,
        since: Lsn(since),
        until: Lsn(until),
    }
}

/// The bytes between the positions of a part. Here, a group has as many bytes as positions.
async fn bytes(server: &Server, part: &Part) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut next = None;
    let (since, until) = (part.since, part.until);
    let reading = server
        .database
        .read(part.session, since, until, |begin, end, group| {
            assert!(begin < until && end > since, "it is not asked for");
            assert_eq!(begin, next.unwrap_or(begin));
            assert_eq!(group.len() as u64, end.0 - begin.0);
            next = Some(end);
            let from = since.0.saturating_sub(begin.0) as usize;
            let to = (end.0.min(until.0) - begin.0) as usize;
            bytes.extend_from_slice(&group[from..to]);
        });
    reading.await?;
    Ok(bytes)
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_part_is_read_with_the_groups_that_it_is_in() {
    const LARGE: usize = 20 << 20;
    let server = Server::start().await;
    let own = server.begin(1).await;
    let all: Vec<u8> = (0..LARGE + 1_000).map(|at| (at / 7) as u8).collect();
    let mut begin = 0;
    for end in [10, 11, LARGE, all.len()] {
        assert_eq!(own.append(begin as u64, &all[begin..end]).await, DONE);
        begin = end;
    }
    let end = all.len();
    for (since, until) in [
        (0, end),
        (0, 10),
        (3, 7),
        (10, 11),
        (LARGE - 10, LARGE + 20),
        (LARGE, end),
        (end - 1, end),
        (end, end),
    ] {
        let found = bytes(&server, &part(&own, since as u64, until as u64)).await;
        assert!(found.unwrap() == all[since..until], "{since}..{until}");
    }
    let missing = bytes(&server, &part(&own, 5, end as u64 + 1)).await;
    assert!(
        matches!(missing, Err(Error::Missing { at, .. }) if at.0 == end as u64),
        "{missing:?}"
    );
}

/// Publishes all that the session has appended up to a position, and removes it.
async fn archive(own: &Own, number: u64, until: u64) {
    let run = Run {
        number,
        after: number - 1,
        parts: Vec::new(),
        since: Lsn(0),
        until: Lsn(until),
        tenancies: Vec::new(),
    };
    let publish = Statement::Publish { run, stored: None };
    assert_eq!(own.say(&publish).await, DONE);
    assert_eq!(own.say(&Statement::Trim).await, DONE);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_log_that_is_archived_takes_no_room() {
    let server = Server::start().await;
    let own = server.begin(1).await;
    let group = vec![7; HALF_BYTES as usize / 4];
    let size = format!(
        "select pg_total_relation_size('abide_cluster.log_{nonce:032x}_0') + pg_total_relation_size('abide_cluster.log_{nonce:032x}_1') < {most}",
        nonce = own.session.nonce,
        most = 3 * HALF_BYTES
    );
    let mut end = 0;
    for number in 1..=20 {
        assert_eq!(own.append(end, &group).await, DONE);
        end += group.len() as u64;
        archive(&own, number, end).await;
    }
    assert!(server.is(&size).await);
    // What is not archived stays.
    assert_eq!(own.append(end, &group).await, DONE);
    assert_eq!(own.say(&Statement::Trim).await, DONE);
    let rest = part(&own, end, end + group.len() as u64);
    assert_eq!(bytes(&server, &rest).await.unwrap(), group);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn the_log_of_a_dead_session_stays_until_its_heirs_have_archived_it() {
    let server = Server::start().await;
    let dead = server.begin(1).await;
    let heir = server.begin(2).await;
    assert!(matches!(
        dead.say(&Statement::Claim(vec![tenancy(3, 0)])).await,
        Outcome::Done(Answer::Granted(grants)) if grants.len() == 1
    ));
    assert_eq!(dead.append(0, b"12345678").await, DONE);
    let fence = Statement::Fence {
        session: dead.session,
        renewals: 0,
    };
    assert_eq!(heir.say(&fence).await, DONE);
    assert_eq!(dead.append(8, b"12345678").await, Outcome::Refused);
    let Outcome::Done(Answer::Granted(grants)) =
        heir.say(&Statement::Claim(vec![tenancy(3, 1)])).await
    else {
        panic!("no grant");
    };
    let inherited = part(&dead, 0, 8);
    assert_eq!(grants[0].parts, [inherited]);
    let is_there = format!(
        "select to_regclass('abide_cluster.log_{:032x}_0') is not null",
        dead.session.nonce
    );
    assert_eq!(heir.say(&Statement::Trim).await, DONE);
    assert!(server.is(&is_there).await);
    assert_eq!(bytes(&server, &inherited).await.unwrap(), b"12345678");

    let run = Run {
        number: 1,
        after: 0,
        parts: vec![(grants[0].tenancy.shard, inherited)],
        since: Lsn(0),
        until: Lsn(0),
        tenancies: Vec::new(),
    };
    let publish = Statement::Publish { run, stored: None };
    assert_eq!(heir.say(&publish).await, DONE);
    assert_eq!(heir.say(&Statement::Trim).await, DONE);
    assert!(!server.is(&is_there).await);
    assert_eq!(dead.say(&Statement::Settle).await, Outcome::Refused);
    let late = Statement::Append {
        begin: Lsn(8),
        end: Lsn(16),
    };
    let late = dead
        .lines
        .execute(Connection::Lane, &late, b"12345678")
        .await;
    assert_ne!(late, DONE);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_log_that_someone_reads_delays_the_end_of_no_other() {
    let server = Server::start().await;
    let mut own = server.begin(1).await;
    for attempt in 2..=20 {
        let nonce = u128::from(attempt) << 32;
        let begun = server.database.begin(1, attempt, nonce).await;
        own = Own::new(&server.database, begun.unwrap().unwrap());
    }
    let read = format!("begin; table abide_cluster.log_{:032x}_1", 3_u128 << 32);
    server.admin.batch_execute(&read).await.unwrap();
    for _ in 0..3 {
        assert_eq!(own.say(&Statement::Trim).await, DONE);
    }
    let left = "select array_agg(number order by number) = array[3, 20]::bigint[] from abide_cluster.session";
    assert!(server.is(left).await);
    server.admin.batch_execute("commit").await.unwrap();
    assert_eq!(own.say(&Statement::Trim).await, DONE);
    assert!(
        server
            .is("select count(*) = 1 from abide_cluster.session")
            .await
    );
}
