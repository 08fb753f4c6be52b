//! Checks a program's routes with every kind of token. Each program's test includes this file, because the harness
//! itself does not depend on what it tests.

use std::{os::unix::fs::DirBuilderExt, path::Path, time::Duration};

use abide::server::access::{AccessStore, NewToken, Role};
use abide_harness::{Program, WalkTokens, refused, walk};

/// Checks that the program does not start where other machines can reach it without a token, and then checks its
/// routes. `open` lists those that need no token of the program.
pub(crate) async fn walk_with_every_token(program: impl FnOnce(&Path) -> Program, open: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&data)
        .unwrap();
    let access = AccessStore::open(&data).unwrap();
    let program = program(&data);
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
    walk(program, &log, &tokens, open).await;
}
