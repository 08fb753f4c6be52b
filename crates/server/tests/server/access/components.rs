//! What operators ask of components: who may, of what, and what the audit log says of it.

use abide::server::access::{NewToken, Role};

use crate::access::{Counter, World, post, with_token};

/// Who has asked the components of a counter for what.
async fn asked(host: &abide::server::RunningHost, name: &str) -> Vec<String> {
    let counter = host.env().object::<Counter>().get_by_name(name);
    counter.asked().await.unwrap()
}

#[tokio::test]
async fn a_change_by_a_component_needs_the_role_that_operates() {
    let world = World::new();
    let reader = world.token(Role::Read, |_| {});
    let operator = world.token(Role::Operate, |_| {});
    let host = world.host().await;
    let admin = host.admin_addr().unwrap();
    let counter = host.env().object::<Counter>().get_by_name("a");
    counter.add().await.unwrap();
    let hall = "/objects/Counter/a/components/hall";
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"] {
        for path in [hall.to_owned(), format!("{hall}/door")] {
            let (status, told) = with_token(admin, &format!("{method} {path}"), &reader).await;
            let refused = status == 403 && told.contains("role_too_low");
            assert!(refused, "{method} {path}: {told}");
        }
    }
    assert!(asked(&host, "a").await.is_empty());
    for (route, token) in [("GET", &reader), ("HEAD", &reader), ("PURGE", &operator)] {
        let (status, told) = with_token(admin, &format!("{route} {hall}/door"), token).await;
        assert_eq!(status, 200, "{route}: {told}");
    }
    assert_eq!(
        asked(&host, "a").await,
        ["hall GET /door", "hall HEAD /door", "hall PURGE /door"]
    );
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_change_by_a_component_is_in_the_audit_log() {
    let world = World::new();
    let token = world.token(Role::Operate, |_| {});
    let host = world.host().await;
    let admin = host.admin_addr().unwrap();
    let counter = host.env().object::<Counter>().get_by_name("a");
    counter.add().await.unwrap();
    let id = host.env().object::<Counter>().get_by_name("a").id();
    for object in ["a", "%61", &id.to_string()] {
        for path in ["hall", "hall/door/%0Anext", "nothing/here"] {
            let path = format!("/objects/Counter/{object}/components/{path}");
            post(admin, &path, &token, "{}").await;
        }
    }
    with_token(admin, "GET /objects/Counter/a/components/hall", &token).await;
    with_token(admin, "GET /objects/Counter/a/components", &token).await;
    let mut rows = world.store.audit(None, 10).unwrap();
    rows.reverse();
    let rows = rows.iter().map(|row| {
        assert_eq!(row.operation.action, "operate_component");
        let object = row.operation.object.as_deref().unwrap().to_owned();
        let detail = row.operation.detail.as_deref().unwrap().to_owned();
        (object, detail, row.outcome.as_deref().unwrap().to_owned())
    });
    let mut expected = Vec::new();
    for object in ["a".to_owned(), "a".to_owned(), id.to_string()] {
        for (detail, outcome) in [
            ("POST hall/", "200"),
            ("POST hall/door/\nnext", "200"),
            ("POST nothing/here", "404"),
        ] {
            expected.push((
                format!("Counter/{object}"),
                detail.to_owned(),
                outcome.to_owned(),
            ));
        }
    }
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_operation_is_that_of_the_object_and_component_that_are_named() {
    let world = World::new();
    let only = |token: &mut NewToken| token.object_prefix = Some("Counter/a".to_owned());
    let token = world.token(Role::Operate, only);
    let host = world.host().await;
    let admin = host.admin_addr().unwrap();
    for name in ["a", "other"] {
        let counter = host.env().object::<Counter>().get_by_name(name);
        counter.add().await.unwrap();
    }
    let ask = async |path: &str| post(admin, path, &token, "{}").await;
    let told = ask("/objects/Counter/a/components/hall/door").await;
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    for path in [
        "/objects/Counter/other/components/hall/door",
        "/objects/Counter/%6Fther/components/hall/door",
    ] {
        let told = ask(path).await;
        assert!(told.starts_with("HTTP/1.1 403"), "{path}: {told}");
    }
    // What follows the component is its own business, and nothing of it is a path of the listener.
    for path in [
        "/../../../other/components/hall/door",
        "/%2e%2e/door",
        "//door",
    ] {
        let path = format!("/objects/Counter/a/components/hall{path}");
        ask(&path).await;
    }
    assert_eq!(
        asked(&host, "a").await,
        [
            "hall POST /door",
            "hall POST /../../../other/components/hall/door",
            "hall POST /%2e%2e/door",
            "hall POST //door"
        ]
    );
    assert!(asked(&host, "other").await.is_empty());
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_object_that_is_not_there_is_not_made() {
    let world = World::new();
    let token = world.token(Role::Admin, |_| {});
    let host = world.host().await;
    let admin = host.admin_addr().unwrap();
    let path = "/objects/Counter/unknown/components/hall/door";
    for (told, code) in [
        (post(admin, path, &token, "{}").await, "no_such_object"),
        (
            with_token(admin, &format!("GET {path}"), &token).await.1,
            "no_such_object",
        ),
        (
            with_token(admin, "GET /objects/Counter/unknown/components", &token)
                .await
                .1,
            "no_such_object",
        ),
        (
            with_token(admin, "GET /objects/Nothing/a/components", &token)
                .await
                .1,
            "no_such_class",
        ),
    ] {
        assert!(
            told.starts_with("HTTP/1.1 404") && told.contains(code),
            "{told}"
        );
    }
    host.shutdown().await.unwrap();
}
