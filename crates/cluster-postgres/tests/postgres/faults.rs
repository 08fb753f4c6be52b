//! Statements whose answers are lost, late or not what they seem.

use std::{path::PathBuf, time::Duration};

use abide_cluster::{Answer, Lsn, Outcome, Statement};
use abide_cluster_postgres::{Database, limits::LOCK_TIMEOUT};
use tokio::{
    io::copy,
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};

use crate::support::{Own, Server, admin, tenancy};

const DONE: Outcome = Outcome::Done(Answer::Committed);
const GROUP: &[u8] = b"12345678";

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
    let dropped = timeout(Duration::from_millis(200), own.append(8, GROUP)).await;
    assert!(dropped.is_err());
    server.admin.batch_execute("commit").await.unwrap();
    let mut arrived = own.say(&Statement::Settle).await;
    while arrived != settled(16, false) {
        assert_eq!(arrived, settled(8, false));
        sleep(Duration::from_millis(5)).await;
        arrived = own.say(&Statement::Settle).await;
    }
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
async fn a_commit_whose_answer_is_cut_off_is_settled_by_a_write() {
    let server = Server::start().await;
    let dir = tempfile::TempDir::with_prefix("abide-cut-").unwrap();
    let (cut, is_cut) = tokio::sync::watch::channel(false);
    proxy(&server, dir.path(), is_cut).await;
    let begun = server.begin(1).await;
    let address = format!("host={} user=test dbname=postgres", dir.path().display());
    let own = Own::new(&Database::new(&address).unwrap(), begun.session);
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
    // It waits for the statement that is still being executed.
    assert_eq!(begun.say(&Statement::Settle).await, settled(16, false));
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
    assert_eq!(own.append(8, GROUP).await, Outcome::Unknown);
    assert_eq!(own.say(&Statement::Settle).await, Outcome::Unknown);
    server.postgres.start_again();
    assert_eq!(own.say(&Statement::Settle).await, settled(8, false));
    assert_eq!(own.append(8, GROUP).await, DONE);
}
