//! Who may call what, where others can reach the program.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{os::unix::fs::DirBuilderExt, time::Duration};

use abide::server::access::{AccessStore, NewToken, Role};
use abide_harness::{Program, WalkTokens, refused, walk};

/// What needs no token of the program's.
const OPEN: &[&str] = &["GET /healthz", "GET /readyz", "GET /metrics"];

#[tokio::test(flavor = "multi_thread")]
async fn no_route_lets_anybody_in_without_a_valid_token_that_is_good_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&data)
        .unwrap();
    let access = AccessStore::open(&data).unwrap();
    let program = Program::new(env!("CARGO_BIN_EXE_email-outbox"), &data)
        .arg("--smtp")
        .arg("smtp://127.0.0.1:9");
    let (status, said) = refused(program.clone().listen("0.0.0.0:0").command());
    assert!(
        !status.success() && said.contains("abide token create"),
        "{said}"
    );
    let token = |change: &dyn Fn(&mut NewToken)| {
        let mut new = NewToken::new(Role::Admin);
        change(&mut new);
        access.create_token(new).unwrap().text
    };
    let revoked = token(&|_| {});
    let id = revoked.split('_').nth(1).unwrap();
    assert!(access.revoke_token(id).unwrap());
    let other = AccessStore::open_in_memory().unwrap();
    let tokens = WalkTokens {
        reader: token(&|new| new.role = Role::Read),
        admin: token(&|_| {}),
        elsewhere: token(&|new| new.object_prefix = Some("Elsewhere/".to_owned())),
        invalid: vec![
            other.create_token(NewToken::new(Role::Admin)).unwrap().text,
            token(&|new| new.lifetime = Some(Duration::ZERO)),
            revoked,
            "abide_".to_owned(),
        ],
    };
    let log = dir.path().join("log");
    walk(program, &log, &tokens, OPEN).await;
}
