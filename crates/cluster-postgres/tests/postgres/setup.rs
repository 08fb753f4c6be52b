use std::fs;

use abide_cluster::{Answer, Outcome, Statement};
use abide_cluster_postgres::{Accept, Database, Error};
use abide_harness::Postgres;
use futures_util::future::join_all;

use crate::support::{Own, Server, admin};

#[test]
fn an_address_without_a_host_is_refused() {
    for (address, part) in [
        ("dbname=abide", "host"),
        ("host", "not valid"),
        ("host=a sslmode=verify-ca", "verify-full"),
    ] {
        let error = Database::new(address, Accept::Local)
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{address}: {error}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn tables_are_created_once_although_several_try() {
    let postgres = Postgres::start();
    let database = Database::new(&postgres.address(), Accept::Local).unwrap();
    let error = database.begin(1, 1, 1).await.unwrap_err().to_string();
    assert!(error.contains("abide cluster init"), "{error}");
    for created in join_all((0..4).map(|_| database.init())).await {
        created.unwrap();
    }
    assert!(database.begin(1, 1, 1).await.unwrap().is_some());
    database.init().await.unwrap();
    assert!(database.begin(1, 1, 2).await.unwrap().is_none());
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn tables_of_a_newer_release_are_refused() {
    let server = Server::start().await;
    let newer = "update abide_cluster.version set version = 3";
    server.admin.batch_execute(newer).await.unwrap();
    for error in [
        server.database.init().await.unwrap_err(),
        server.database.check().await.unwrap_err(),
        server.database.begin(1, 1, 1).await.unwrap_err(),
    ] {
        assert!(
            matches!(error, Error::Newer { found: 3, known: 2 }),
            "{error}"
        );
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn tables_of_version_1_are_upgraded_and_their_sessions_end() {
    let server = Server::start().await;
    let own = server.begin(1).await;
    server.list(&own, 1, "place").await;
    let as_before = "alter table abide_cluster.run drop first, drop last, drop constraint run_place_key, alter number set not null; drop table abide_cluster.replaced_run; \
                     alter table abide_cluster.session drop told; alter table abide_cluster.version drop merger, drop catalogue, drop catalogued; \
                     update abide_cluster.version set version = 1";
    server.admin.batch_execute(as_before).await.unwrap();
    let error = server.database.begin(2, 1, 2).await.unwrap_err();
    assert!(matches!(error, Error::Older { found: 1 }), "{error}");
    server.database.init().await.unwrap();
    server.database.init().await.unwrap();
    let renewed = own.say(&Statement::Renew(1)).await;
    assert_eq!(renewed, Outcome::Refused);
    let again = server.database.begin(1, 2, 3).await.unwrap().unwrap();
    let runs = server.database.runs(again, 0).await.unwrap().unwrap();
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].first, runs[0].last), (runs[0].seq, runs[0].seq));
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_server_that_can_lose_commits_is_refused() {
    let server = Server::start().await;
    server.database.check().await.unwrap();
    let strict = Database::new(&server.postgres.address(), Accept::Replicated).unwrap();
    for error in [
        strict.check().await.unwrap_err(),
        strict.begin(1, 1, 1).await.unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(error.contains("synchronous_standby_names"), "{error}");
    }
    for setting in ["full_page_writes", "fsync"] {
        let alter = format!("alter system set {setting} = off");
        server.admin.batch_execute(&alter).await.unwrap();
        server
            .admin
            .batch_execute("select pg_reload_conf()")
            .await
            .unwrap();
        server
            .until(&format!("select current_setting('{setting}') = 'off'"))
            .await;
        let error = server.database.check().await.unwrap_err().to_string();
        assert!(error.contains(&format!("Set {setting} = on")), "{error}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn connections_are_encrypted_to_a_server_that_proves_who_it_is() {
    let postgres = Postgres::start_with_tls();
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("foreign.pem");
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
    fs::write(&foreign, certificate.unwrap().cert.pem()).unwrap();
    let own = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../verify/harness/shared/tls/certificate.pem"
    );
    let database = |host: &str, authority: &str| {
        let place = format!("host={host} hostaddr=");
        let address = postgres.address_with_tls().replace("host=", &place);
        let address = format!("{address} sslmode=verify-full sslrootcert='{authority}'");
        Database::new(&address, Accept::Local).unwrap()
    };
    for (host, authority, part) in [
        (
            "localhost",
            foreign.to_str().unwrap(),
            "invalid peer certificate",
        ),
        ("elsewhere", own, "not valid for name"),
    ] {
        let refused = database(host, authority).init().await.unwrap_err();
        assert!(refused.to_string().contains(part), "{refused}");
    }
    let database = database("localhost", own);
    database.init().await.unwrap();
    let session = database.begin(1, 1, 1).await.unwrap().unwrap();
    let own = Own::new(&database, session);
    for said in [
        own.append(0, b"12345678").await,
        own.say(&Statement::Renew(1)).await,
        own.say(&Statement::Trim).await,
    ] {
        assert_eq!(said, Outcome::Done(Answer::Committed));
    }
    let encrypted = "select count(*) from pg_stat_ssl join pg_stat_activity using (pid) where ssl and application_name like 'abide %'";
    let row = admin(&postgres).await.query_one(encrypted, &[]).await;
    assert_eq!(row.unwrap().get::<_, i64>(0), 3);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn defaults_of_a_role_change_no_statement() {
    let server = Server::start().await;
    server
        .admin
        .batch_execute(
            "alter role test set default_transaction_isolation = 'serializable'; alter role test set default_transaction_read_only = on; \
             alter role test set synchronous_commit = off; alter role test set client_min_messages = error",
        )
        .await
        .unwrap();
    let own = server.begin(1).await;
    assert_eq!(
        own.append(0, b"12345678").await,
        Outcome::Done(Answer::Committed)
    );
    assert_eq!(
        own.say(&Statement::Renew(1)).await,
        Outcome::Done(Answer::Committed)
    );
    // They apply to others.
    let other = admin(&server.postgres).await;
    assert!(other.batch_execute("create table t ()").await.is_err());
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn an_attempt_to_begin_that_arrives_late_is_refused_for_good() {
    let server = Server::start().await;
    let heir = server.begin(2).await;
    let begun = server.database.begin(1, 5, 15).await.unwrap().unwrap();
    let fence = Statement::Fence {
        session: begun,
        renewals: 0,
    };
    assert_eq!(heir.say(&fence).await, Outcome::Done(Answer::Committed));
    assert_eq!(
        heir.say(&Statement::Trim).await,
        Outcome::Done(Answer::Committed)
    );
    let forgotten = "select count(*) = 1 from abide_cluster.session";
    assert!(server.is(forgotten).await);
    for late in [4, 5] {
        assert_eq!(server.database.begin(1, late, 16).await.unwrap(), None);
    }
    assert!(server.database.begin(1, 6, 17).await.unwrap().is_some());
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn namespaces_have_the_same_numbers_for_all_who_ask() {
    let server = Server::start().await;
    let mut asking = tokio::task::JoinSet::new();
    for key in 0..12 {
        let database = server.database.clone();
        asking.spawn(async move {
            let key = format!("Class {}", key / 2);
            let all = database.namespaces_with(&key).await.unwrap();
            assert!(all.contains(&key), "{key}: {all:?}");
            all
        });
    }
    let lists = asking.join_all().await;
    let last = server.database.namespaces_with("Class 0").await.unwrap();
    assert_eq!(last.len(), 6);
    for list in lists {
        assert!(last.starts_with(&list), "{list:?}, and then {last:?}");
    }
    let numbers = "select array_agg(number order by number) = array[1, 2, 3, 4, 5, 6] from abide_cluster.namespace";
    assert!(server.is(numbers).await);
}
