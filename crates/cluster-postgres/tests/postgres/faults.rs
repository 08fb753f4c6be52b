//! Statements whose answers are lost, late or not what they seem.

use std::{path::PathBuf, time::Duration};

use abide_cluster::{Answer, Lsn, Outcome, Run, Statement, Stored};
use abide_cluster_postgres::{Accept, Database, limits::LOCK_TIMEOUT};
use tokio::{
    io::copy,
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

use crate::support::{Own, Server, admin, tenancy};

const DONE: Outcome = Outcome::Done(Answer::Committed);
const GROUP: &[u8] = b"12345678";
const MOMENT: Duration = Duration::from_millis(200);

/// Opens connections before locks are held, for which statements wait for a limited time.
async fn open(all: [&Own; 2]) {
    for own in all {
        own.say(&Statement::Poll).await;
        own.say(&Statement::Settle).await;
    }
}

/// Waits until the second group has arrived, which may happen after a settlement that was sent later.
async fn until_arrived(own: &Own) {
    for _ in 0..2_000 {
        let found = own.say(&Statement::Settle).await;
        if found == settled(16, false) {
            return;
        }
        assert_eq!(found, settled(8, false));
        sleep(Duration::from_millis(5)).await;
    }
    panic!("it never arrived");
}

fn settled(lsn: u64, is_fenced: bool) -> Outcome {
    Outcome::Done(Answer::Lane {
        lsn: Lsn(lsn),
        is_fenced,
    })
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_wait_for_the_standby_that_is_cancelled_is_no_commit() {
    let server = Server::start().await;
    let own = server.begin(1).await;
    // A default that would hide the warning.
    let hide = "alter role test set client_min_messages = error";
    server.admin.batch_execute(hide).await.unwrap();
    let mut lsn = 0;
    for end in ["pg_cancel_backend", "pg_terminate_backend"] {
        for statement in ["append", "renew", "claim"] {
            server.lose_standby().await;
            let claim = Statement::Claim(vec![tenancy(0, 0)]);
            let asking = async {
                match statement {
                    "append" => own.append(lsn, GROUP).await,
                    "renew" => own.say(&Statement::Renew(1)).await,
                    _ => own.say(&claim).await,
                }
            };
            let cancelling = async {
                server.until_waiting("", "SyncRep").await;
                let cancel =
                    format!("select {end}(pid) from pg_stat_activity where wait_event = 'SyncRep'");
                server.admin.batch_execute(&cancel).await.unwrap();
            };
            let (outcome, ()) = tokio::join!(asking, cancelling);
            assert_eq!(outcome, Outcome::Unknown, "{statement}, {end}");
            // What would show it is not replicated either.
            let settling = timeout(MOMENT, own.say(&Statement::Settle)).await;
            assert!(settling.is_err(), "{settling:?}");
            server.regain_standby().await;
            // It is committed on this server all the same.
            if statement == "append" {
                lsn += GROUP.len() as u64;
            }
            assert_eq!(own.say(&Statement::Settle).await, settled(lsn, false));
        }
    }
    assert_eq!(own.append(lsn, GROUP).await, DONE);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_fence_ends_a_commit_that_waits_for_too_long() {
    let server = Server::start().await;
    let (silent, other) = (server.begin(1).await, server.begin(2).await);
    // The connections are there.
    assert_eq!(silent.append(0, GROUP).await, DONE);
    assert_eq!(other.say(&Statement::Renew(1)).await, DONE);
    server.lose_standby().await;
    let fence = Statement::Fence {
        session: silent.session,
        renewals: 0,
    };
    let fencing = async {
        server.until_waiting("insert into", "SyncRep").await;
        other.say(&fence).await
    };
    let (appended, fenced) = tokio::join!(silent.append(8, GROUP), fencing);
    assert_eq!((appended, fenced), (Outcome::Unknown, Outcome::Unknown));
    server.regain_standby().await;
    assert_eq!(other.say(&fence).await, DONE);
    assert_eq!(silent.append(16, GROUP).await, Outcome::Refused);
    assert_eq!(silent.say(&Statement::Settle).await, settled(16, true));
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_fence_and_an_append_that_wait_for_each_other_have_one_order() {
    let server = Server::start().await;
    let (silent, other) = (server.begin(1).await, server.begin(2).await);
    let fence = Statement::Fence {
        session: silent.session,
        renewals: 0,
    };
    open([&silent, &other]).await;
    // Both wait for the lane. The fence is first in the queue.
    let lock = "begin; select from abide_cluster.lane for update";
    server.admin.batch_execute(lock).await.unwrap();
    let observer = admin(&server.postgres).await;
    let appending = async {
        while observer
            .query("select from pg_stat_activity where wait_event_type = 'Lock' and query like '%fence(%'", &[])
            .await
            .unwrap()
            .is_empty()
        {}
        silent.append(0, GROUP).await
    };
    let release = async {
        while observer
            .query("select from pg_stat_activity where wait_event_type = 'Lock' and query like '%insert into%'", &[])
            .await
            .unwrap()
            .is_empty()
        {}
        server.admin.batch_execute("commit").await.unwrap();
    };
    let (fenced, appended, ()) = tokio::join!(other.say(&fence), appending, release);
    assert_eq!((fenced, appended), (DONE, Outcome::Refused));
    assert_eq!(silent.say(&Statement::Settle).await, settled(0, true));
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn of_two_claims_at_the_same_time_one_is_granted() {
    let server = Server::start().await;
    let (one, other) = (server.begin(1).await, server.begin(2).await);
    open([&one, &other]).await;
    let lock = "begin; select from abide_cluster.shard for update";
    server.admin.batch_execute(lock).await.unwrap();
    let observer = admin(&server.postgres).await;
    let release = async {
        let waiting =
            "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%claim(%'";
        while observer.query(waiting, &[]).await.unwrap().len() < 2 {}
        server.admin.batch_execute("commit").await.unwrap();
    };
    let claim = Statement::Claim(vec![tenancy(0, 0)]);
    let (first, second, ()) = tokio::join!(one.say(&claim), other.say(&claim), release);
    let granted = |outcome: &Outcome| match outcome {
        Outcome::Done(Answer::Granted(grants)) => grants.len(),
        _ => panic!("{outcome:?}"),
    };
    assert_eq!(
        granted(&first) + granted(&second),
        1,
        "{first:?}, {second:?}"
    );
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn no_run_is_seen_before_one_that_is_listed_before_it() {
    let server = Server::start().await;
    let (one, other) = (server.begin(1).await, server.begin(2).await);
    open([&one, &other]).await;
    let reader = server.begin(3).await;
    // The first has its place in the list, and waits for its lane.
    let lock = format!(
        "begin; select from abide_cluster.lane where session = {} for update",
        one.session.number
    );
    server.admin.batch_execute(&lock).await.unwrap();
    let observer = admin(&server.postgres).await;
    let publishing =
        "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%publish(%'";
    let until = async |waiting| {
        let begun = std::time::Instant::now();
        while observer.query(publishing, &[]).await.unwrap().len() < waiting {
            assert!(begun.elapsed() < LOCK_TIMEOUT, "{waiting} do not wait");
        }
    };
    let run = Run {
        number: 1,
        after: 0,
        parts: Vec::new(),
        since: Lsn(0),
        until: Lsn(0),
        tenancies: Vec::new(),
    };
    let run = |place: &str| Statement::Publish {
        run: run.clone(),
        stored: Some(Stored {
            about: "a run".to_owned(),
            place: place.to_owned(),
        }),
    };
    let (first_run, second_run) = (run("first"), run("second"));
    let second = async {
        until(1).await;
        other.say(&second_run).await
    };
    let release = async {
        until(2).await;
        assert_eq!(server.runs(&reader, 0).await, []);
        server.admin.batch_execute("commit").await.unwrap();
    };
    let (first, second, ()) = tokio::join!(one.say(&first_run), second, release);
    assert_eq!((first, second), (DONE, DONE));
    let runs = server.runs(&reader, 0).await;
    let places: Vec<&str> = runs.iter().map(|run| &*run.place).collect();
    assert_eq!(places, ["first", "second"]);
    assert_eq!(server.runs(&reader, runs[0].seq).await, runs[1..]);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_renewal_waits_for_no_other_statement() {
    let server = Server::start().await;
    let own = server.begin(1).await;
    let lock = "begin; select from abide_cluster.session for update; select from abide_cluster.lane for update; \
                select from abide_cluster.shard for update";
    server.admin.batch_execute(lock).await.unwrap();
    assert_eq!(own.say(&Statement::Renew(1)).await, DONE);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_server_that_gives_up_its_standbys_confirms_nothing() {
    let server = Server::start().await;
    let begun = server.begin(1).await;
    let address = server.postgres.address();
    let strict = Database::new(&address, Accept::Replicated).unwrap();
    let own = Own::new(&strict, begun.session);
    assert_eq!(own.append(0, GROUP).await, Outcome::Unknown);
    // The connection is opened while there is a name.
    server.lose_standby().await;
    let given_up = async {
        server.until_waiting("insert into", "SyncRep").await;
        server.regain_standby().await;
    };
    let (_, ()) = tokio::join!(own.append(0, GROUP), given_up);
    assert_eq!(begun.say(&Statement::Settle).await, settled(8, false));
    for statement in [Statement::Settle, Statement::Renew(1), Statement::Hold] {
        assert_eq!(own.say(&statement).await, Outcome::Unknown, "{statement:?}");
    }
    assert_eq!(own.append(8, GROUP).await, Outcome::Unknown);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_lock_that_is_held_delays_a_statement_and_then_ends_it() {
    let server = Server::start().await;
    let own = server.begin(1).await;
    let lock = "begin; select from abide_cluster.lane for update";
    server.admin.batch_execute(lock).await.unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(own.append(0, GROUP).await, Outcome::Unknown);
    assert!(begun.elapsed() >= LOCK_TIMEOUT);
    server.admin.batch_execute("rollback").await.unwrap();
    assert_eq!(own.say(&Statement::Settle).await, settled(0, false));
    assert_eq!(own.append(0, GROUP).await, DONE);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_statement_that_is_dropped_or_late_is_executed_once() {
    let server = Server::start().await;
    let own = server.begin(1).await;
    assert_eq!(own.append(0, GROUP).await, DONE);
    let lock = "begin; select from abide_cluster.lane for update";
    server.admin.batch_execute(lock).await.unwrap();
    // The server has it, and executes it when it can.
    let dropped = timeout(MOMENT, own.append(8, GROUP)).await;
    assert!(dropped.is_err());
    server.admin.batch_execute("commit").await.unwrap();
    until_arrived(&own).await;
    assert_eq!(own.append(8, GROUP).await, Outcome::Refused);
    assert_eq!(own.append(16, GROUP).await, DONE);
    assert_eq!(own.say(&Statement::Settle).await, settled(24, false));
}

/// Forwards connections to a server. What the server answers is cut off for good once `cut` is true.
async fn proxy(server: &Server, dir: &std::path::Path, cut: tokio::sync::watch::Receiver<bool>) {
    let address = server.postgres.address();
    let host = address.split(['=', ' ']).nth(1).unwrap();
    let real = PathBuf::from(host).join(".s.PGSQL.5432");
    let listener = UnixListener::bind(dir.join(".s.PGSQL.5432")).unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (real, mut cut) = (real.clone(), cut.clone());
            tokio::spawn(async move {
                let upstream = UnixStream::connect(real).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = upstream.into_split();
                let asks = async {
                    copy(&mut from_client, &mut to_server).await.ok();
                };
                let answers = async {
                    tokio::select! {
                        _ = copy(&mut from_server, &mut to_client) => {}
                        _ = cut.wait_for(|cut| *cut) => {}
                    }
                    drop(to_client);
                };
                tokio::join!(asks, answers);
            });
        }
    });
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_commit_whose_answer_is_cut_off_is_settled() {
    let server = Server::start().await;
    let dir = tempfile::TempDir::with_prefix("abide-cut-").unwrap();
    let (cut, is_cut) = tokio::sync::watch::channel(false);
    proxy(&server, dir.path(), is_cut).await;
    let begun = server.begin(1).await;
    let address = format!("host={} user=test dbname=postgres", dir.path().display());
    let own = Own::new(
        &Database::new(&address, Accept::Local).unwrap(),
        begun.session,
    );
    assert_eq!(own.append(0, GROUP).await, DONE);
    let lock = "begin; select from abide_cluster.lane for update";
    server.admin.batch_execute(lock).await.unwrap();
    let cutting = async {
        let observer = admin(&server.postgres).await;
        while observer
            .query("select from pg_stat_activity where wait_event_type = 'Lock' and query like '%insert into%'", &[])
            .await
            .unwrap()
            .is_empty()
        {}
        cut.send(true).unwrap();
        server.admin.batch_execute("commit").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(own.append(8, GROUP), cutting);
    assert_eq!(outcome, Outcome::Unknown);
    until_arrived(&begun).await;
    cut.send(false).unwrap();
    assert_eq!(own.append(16, GROUP).await, DONE);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_server_that_is_killed_and_comes_back_has_what_it_confirmed() {
    let mut server = Server::start().await;
    let own = server.begin(1).await;
    assert_eq!(own.append(0, GROUP).await, DONE);
    server.postgres.kill();
    // The process that serves the connection can outlive the one that was killed, and commit.
    let mut end = 8;
    loop {
        match own.append(end, GROUP).await {
            Outcome::Unknown => break,
            outcome => assert_eq!(outcome, DONE),
        }
        end += 8;
    }
    assert_eq!(own.say(&Statement::Settle).await, Outcome::Unknown);
    server.postgres.start_again();
    let found = own.say(&Statement::Settle).await;
    let all = [settled(end, false), settled(end + 8, false)];
    assert!(all.contains(&found), "{found:?}, {end}");
    let end = if found == all[0] { end } else { end + 8 };
    assert_eq!(own.append(end, GROUP).await, DONE);
}
