//! The audit log: a change is in it before it is made, even if its client leaves.

use std::{net::SocketAddr, time::Duration};

use abide::{
    ClassOptions, Host,
    server::{
        AuditedCall, ListenAddress,
        access::{AccessPolicy, Role},
    },
};
use abide_harness::until;
use tokio::io::AsyncReadExt;

use crate::{
    access::{Counter, World, post, routes, with_token},
    support::{connect, reset},
};

#[tokio::test]
async fn an_operator_s_change_is_in_the_audit_log_or_does_not_happen() {
    let world = World::new();
    let token = world.token(Role::Admin, |_| {});
    let id = token.split('_').nth(1).unwrap();
    let host = world.host().await;
    let admin = host.admin_addr().unwrap();
    let counter = host.env().object::<Counter>().get_by_name("a");
    counter.add().await.unwrap();
    let post = async |what: &str, body: &str| {
        let path = format!("/objects/Counter/a/{what}");
        super::post(admin, &path, &token, body).await
    };
    let fork = r#"{"time":9999999999999,"name":"copy"}"#;
    let told = post("fork", fork).await;
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    let told = post("restore", r#"{"time":1}"#).await;
    assert!(told.starts_with("HTTP/1.1 400"), "{told}");
    let long = format!(r#"{{"time":1,"x":"{}"}}"#, "x".repeat(5_000));
    let told = post("restore", &long).await;
    assert!(told.starts_with("HTTP/1.1 413"), "{told}");
    let rows = world.store.audit(None, 10).unwrap();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let operation = &row.operation;
            assert_eq!(operation.who, format!("token {id}"));
            assert_eq!(operation.client, "127.0.0.1");
            assert_eq!(operation.object.as_deref(), Some("Counter/a"));
            (
                &*operation.action,
                operation.detail.as_deref(),
                row.outcome.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("restore", Some(r#"{"time":1}"#), Some("400")),
            ("fork", Some(fork), Some("200"))
        ]
    );

    let broken = rusqlite::Connection::open(world.dir.path().join("access.db")).unwrap();
    broken.execute_batch("DROP TABLE audit").unwrap();
    let told = post("fork", r#"{"time":9999999999999,"name":"second"}"#).await;
    assert!(
        told.starts_with("HTTP/1.1 503") && told.contains("audit_failed"),
        "{told}"
    );
    let second = host.env().object::<Counter>().get_by_name("second");
    assert_eq!(second.add().await.unwrap(), 1, "it was made");
    let copy = host.env().object::<Counter>().get_by_name("copy");
    assert_eq!(copy.add().await.unwrap(), 2);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_row_has_a_bound() {
    let world = World::new();
    let token = world.token(Role::Admin, |_| {});
    let host = world.host().await;
    let admin = host.admin_addr().unwrap();
    let long = "x".repeat(5_000);
    for path in [
        format!("/objects/Counter/{long}/restore"),
        format!("/objects/Counter/a/components/outbox/{long}"),
        format!("/objects/Counter/a/components/{long}"),
    ] {
        let told = post(admin, &path, &token, "{}").await;
        assert!(
            told.starts_with("HTTP/1.1 414") && told.contains("path_too_long"),
            "{told}"
        );
    }
    assert!(world.store.audit(None, 10).unwrap().is_empty());
    host.shutdown().await.unwrap();
}

/// A change that does not end.
fn waiting(admin: SocketAddr, token: &str) -> String {
    format!(
        "POST /objects/Counter/a/components/hall/wait HTTP/1.1\r\nhost: {admin}\r\nauthorization: Bearer {token}\r\n\
         content-length: 0\r\n\r\n"
    )
}

#[tokio::test]
async fn a_change_whose_client_goes_has_an_outcome() {
    let world = World::new();
    let token = world.token(Role::Operate, |_| {});
    let host = world.host().await;
    let admin = host.admin_addr().unwrap();
    let counter = host.env().object::<Counter>().get_by_name("a");
    counter.add().await.unwrap();
    let stream = connect(admin, &waiting(admin, &token)).await;
    let outcome = || {
        world
            .store
            .audit(None, 1)
            .unwrap()
            .pop()
            .map(|row| row.outcome)
    };
    until("the operation to begin", async || outcome()).await;
    assert_eq!(outcome(), Some(None), "it still runs");
    reset(stream);
    let outcome = until("an outcome", async || outcome().flatten()).await;
    assert_eq!(outcome, "gone");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_change_whose_client_goes_while_it_is_recorded_has_an_outcome() {
    let world = World::new();
    let token = world.token(Role::Operate, |_| {});
    let host = world.host().await;
    let admin = host.admin_addr().unwrap();
    let counter = host.env().object::<Counter>().get_by_name("a");
    counter.add().await.unwrap();
    let mut file = rusqlite::Connection::open(world.dir.path().join("access.db")).unwrap();
    let behavior = rusqlite::TransactionBehavior::Immediate;
    let writer = file.transaction_with_behavior(behavior).unwrap();
    let stream = connect(admin, &waiting(admin, &token)).await;
    // Its row waits for the other writer, and then its client is gone.
    tokio::time::sleep(Duration::from_millis(300)).await;
    reset(stream);
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(writer);
    let outcome = until("an outcome", async || {
        let rows = world.store.audit(None, 1).unwrap();
        rows.into_iter().next().and_then(|row| row.outcome)
    });
    assert_eq!(outcome.await, "gone");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_change_does_not_wait_for_another_change_s_audit_row() {
    let world = World::new();
    let token = world.token(Role::Admin, |_| {});
    let host = world.host().await;
    let (addr, route, _) = routes(&host)[0];
    let admin = host.admin_addr().unwrap();
    let counter = host.env().object::<Counter>().get_by_name("a");
    counter.add().await.unwrap();
    let mut file = rusqlite::Connection::open(world.dir.path().join("access.db")).unwrap();
    let behavior = rusqlite::TransactionBehavior::Immediate;
    let writer = file.transaction_with_behavior(behavior).unwrap();
    let change = {
        let token = token.clone();
        tokio::spawn(async move {
            let fork = r#"{"time":9999999999999,"name":"copy"}"#;
            post(admin, "/objects/Counter/a/fork", &token, fork).await
        })
    };
    // Long enough that tokens are looked at again.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(with_token(addr, route, &token).await.0, 200);
    }
    assert!(!change.is_finished());
    drop(writer);
    let told = change.await.unwrap();
    // 503 if the readers had waited until the change was given up.
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_change_whose_body_stalls_is_given_up_and_not_made() {
    let world = World::new();
    let token = world.token(Role::Admin, |_| {});
    let host = world.impatient_host().await;
    let admin = host.admin_addr().unwrap();
    let counter = host.env().object::<Counter>().get_by_name("a");
    counter.add().await.unwrap();
    for what in ["restore", "components/hall/door"] {
        let request = format!(
            "POST /objects/Counter/a/{what} HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: 10\r\n\r\n{{"
        );
        let mut stream = connect(admin, &request).await;
        let mut head = [0; 12];
        let read = stream.read_exact(&mut head);
        abide_harness::in_time("an answer", read).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 408", "{what}");
    }
    assert!(counter.asked().await.unwrap().is_empty());
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_audited_call_is_in_the_log_whatever_the_binding_of_its_class() {
    let world = World::new();
    let token = world.token(Role::Operate, |_| {});
    let host = Host::builder(world.dir.path())
        .object_with::<Counter>(ClassOptions::default().binding("SAFE".to_owned()))
        .json_rpc()
        .audit_calls::<Counter>(&[AuditedCall::NameOnly("add")])
        .configure(|config| {
            config.server.listen = ListenAddress::any_port();
            config.server.access = AccessPolicy::Token;
        })
        .start()
        .await
        .unwrap();
    for method in ["add", "asked"] {
        let path = format!("/rpc/SAFE/a/{method}");
        let told = post(host.addr(), &path, &token, "[]").await;
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    }
    let rows = world.store.audit(None, 10).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].operation.action, "add");
    assert_eq!(rows[0].operation.object.as_deref(), Some("Counter/a"));
    host.shutdown().await.unwrap();
}
