//! Who may see what operators see, where others can reach the program.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{Site, Visitor};
use abide::server::access::{AccessStore, NewToken, Role};
use abide_harness::{Program, run};
use http_body_util::Full;

#[test]
fn operators_pages_need_a_token_where_it_is_said_and_visitors_never_do() {
    run(async {
        let site = Site::new("", "total_active_users = 1\nnew_users_per_minute = 1").await;
        let first = site.start();
        assert!(first.stop().success());
        let access = AccessStore::open(&site.data()).unwrap();
        let token = access.create_token(NewToken::new(Role::Read)).unwrap().text;
        let program: Program = site.program().env("ABIDE__SERVER__ACCESS", "token");
        let server = program.start();
        let client = server.client();
        for path in [
            "/.waiting-room",
            "/.waiting-room/live",
            "/.waiting-room/status",
        ] {
            assert_eq!(client.get(path).await.status.as_u16(), 401, "{path}");
            let request = http::Request::get(client.url(path))
                .header("authorization", format!("Bearer {token}"));
            let answer = client
                .send(request.body(Full::default()).unwrap())
                .await
                .unwrap();
            assert_eq!(answer.status.as_u16(), 200, "{path}");
        }
        let beside = client.get("/.waiting-room/other").await;
        assert_eq!((beside.status.as_u16(), beside.code()), (404, "not_found"));
        assert!(Visitor::new().enters(&client).await);
    });
}
