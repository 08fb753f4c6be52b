//! Invalid and excessive requests connect no client and change nothing.

use abide::limits::party as limits;
use abide::{ErrorKind, http::StatusCode, party::RoomOptions};
use abide_harness::run;

use crate::party::support::World;

#[test]
fn a_full_room_refuses_connections_until_one_leaves() {
    run(async {
        let world = World::with(RoomOptions::default().max_connections(2));
        let ada = world.connect("?_pk=ada").await;
        let _grace = world.connect("?_pk=grace").await;
        let refused = world.try_connect("?_pk=mary").await;
        assert_eq!(refused.err(), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(world.there(None).await, ["ada", "grace"]);
        drop(ada);
        while world.there(None).await.len() == 2 {}
        let _mary = world.connect("?_pk=mary").await;
        assert_eq!(world.there(None).await, ["grace", "mary"]);
    });
}

#[test]
fn ids_addresses_and_tags_have_bounds() {
    run(async {
        let world = World::new();
        let id = |bytes: usize| format!("?_pk={}", "x".repeat(bytes));
        let address = |bytes: usize| {
            let begin = "/parties/main/lobby?_pk=ada&x=";
            format!("?_pk=ada&x={}", "x".repeat(bytes - begin.len()))
        };
        for (address, status) in [
            ("?_pk=".to_owned(), StatusCode::BAD_REQUEST),
            ("?_pk=a%00b".to_owned(), StatusCode::BAD_REQUEST),
            (id(limits::MAX_ID_BYTES + 1), StatusCode::BAD_REQUEST),
            (address(limits::MAX_URI_BYTES + 1), StatusCode::URI_TOO_LONG),
            // These are the program's to prevent.
            ("/t".repeat(limits::MAX_TAGS + 1), StatusCode::BAD_REQUEST),
            ("/_pk:ada".to_owned(), StatusCode::BAD_REQUEST),
        ] {
            let refused = world.try_connect(&address).await;
            assert_eq!(refused.err(), Some(status), "{address}");
        }
        assert!(world.there(None).await.is_empty());
        let mut all = Vec::new();
        for address in [id(limits::MAX_ID_BYTES), address(limits::MAX_URI_BYTES)] {
            all.push(world.connect(&address).await);
        }
        let tags = "/t".repeat(limits::MAX_TAGS);
        all.push(world.connect(&tags).await);
        assert_eq!(world.there(None).await.len(), all.len());
    });
}

#[test]
fn a_state_that_is_too_long_is_refused_and_the_one_before_stays() {
    run(async {
        let world = World::new();
        let mut ada = world.connect("?_pk=ada").await;
        ada.say("hello").await;
        let keep = async |bytes| world.lobby().keep("ada".to_owned(), bytes).await;
        // With its quotation marks.
        let error = keep(limits::MAX_STATE_BYTES - 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert_eq!(world.find("ada").await.unwrap().said, Some(1));
        keep(limits::MAX_STATE_BYTES - 2).await.unwrap();
    });
}

#[test]
fn invalid_options_are_refused() {
    run(async {
        for connections in [0, limits::MAX_CONNECTIONS + 1] {
            let world = World::with(RoomOptions::default().max_connections(connections));
            let error = world.lobby().there(None).await.unwrap_err();
            assert!(error.message().contains("connections"), "{error}");
        }
    });
}
