//! Limits hold, order holds, and each setting does what it says.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support;
use crate::support::{Site, Visitor, pause, rush, second, status, until_status};
use abide_harness::{run, until};

const FIFTY: &str = "total_active_users = 50\nnew_users_per_minute = 1000";
/// Minutes and sessions of a second.
const QUICK: &str = "minute = \"1s\"\nrefresh = \"1s\"";

#[test]
fn of_300_visitors_at_once_50_enter_and_250_wait() {
    run(async {
        let site = Site::new("", FIFTY).await;
        let server = site.start();
        let client = server.client();
        let (inside, waiting) = rush(&client, 300).await;
        assert_eq!((inside.len(), waiting.len()), (50, 250));
        assert_eq!(
            site.origin.requests(),
            50,
            "no waiting visitor reaches the application"
        );
        until_status(&client, "active", 50).await;
        until_status(&client, "queued", 250).await;
        for mut visitor in inside {
            assert!(visitor.enters(&client).await, "a visitor inside stays");
        }
        for mut visitor in waiting {
            assert!(!visitor.enters(&client).await, "a waiting visitor waits on");
        }
    });
}

#[test]
fn no_more_new_users_enter_in_a_minute_than_may() {
    run(async {
        // A minute that is long enough for all of them.
        let site = Site::new("", "total_active_users = 1000\nnew_users_per_minute = 20").await;
        let server = site.start();
        let client = server.client();
        while second() % 60 > 40 {
            pause().await;
        }
        let (inside, waiting) = rush(&client, 100).await;
        assert_eq!((inside.len(), waiting.len()), (20, 80));
    });
}

#[test]
fn even_and_curve_with_one_worker_admit_no_more_than_the_slots() {
    for division in [
        "division = \"even\"",
        "division = \"curve\"\ncurve_factor = 1.0",
    ] {
        run(async {
            let site = Site::new("", &format!("{FIFTY}\n{division}"))
                .await
                .arg("--workers=1");
            let server = site.start();
            let (inside, waiting) = rush(&server.client(), 200).await;
            assert_eq!((inside.len(), waiting.len()), (50, 150), "{division}");
        });
    }
}

#[test]
fn the_older_bucket_enters_first_however_often_the_younger_asks() {
    run(async {
        let room = "total_active_users = 4\nnew_users_per_minute = 1000\nsession_duration = \"1s\"";
        let site = Site::new(QUICK, room).await;
        let server = site.start();
        let client = server.client();
        let (inside, mut older) = rush(&client, 10).await;
        assert_eq!(inside.len(), 4);
        let came = second();
        while second() <= came {
            pause().await;
        }
        let (passed, mut younger) = rush(&client, 6).await;
        assert!(passed.is_empty(), "no new visitor passes those who wait");
        // Each admitted visitor goes away, and gives the slot to the next. Slots that the older bucket does not need are the younger's, so
        // if one of the younger enters, all of the older that are left may.
        while !(older.is_empty() && younger.is_empty()) {
            let passed = look(&client, &mut younger).await;
            look(&client, &mut older).await;
            assert!(
                passed == 0 || older.is_empty(),
                "{passed} passed {} of the older bucket",
                older.len()
            );
            assert!(status(&client).await["active"].as_u64().unwrap() <= 4);
            pause().await;
        }
        assert_eq!(site.origin.requests(), 4 + 6 + 6);
    });
}

/// All look at the queue; those who enter are removed from the list. How many.
async fn look(client: &abide_harness::Client, waiting: &mut Vec<Visitor>) -> usize {
    let mut still = Vec::new();
    let before = waiting.len();
    for mut visitor in waiting.drain(..) {
        if !visitor.enters(client).await {
            still.push(visitor);
        }
    }
    *waiting = still;
    before - waiting.len()
}

#[test]
fn an_invalid_a_forged_and_an_expired_ticket_go_to_the_end_of_the_queue() {
    run(async {
        let room = "total_active_users = 1\nnew_users_per_minute = 1000\nsession_duration = \"1s\"";
        let site = Site::new("refresh = \"60s\"", room).await;
        let server = site.start();
        let client = server.client();
        let mut first = Visitor::new();
        assert!(first.enters(&client).await);
        let (_, waiting) = rush(&client, 3).await;
        assert_eq!(waiting.len(), 3);
        let inside = first.cookie.clone().unwrap();
        let mut forged = inside.clone();
        forged.replace_range(
            inside.len() - 1..,
            if inside.ends_with('A') { "B" } else { "A" },
        );
        for cookie in [
            forged,
            "waiting-room-shop=".into(),
            "waiting-room-shop=%00%FF".into(),
            format!("waiting-room-shop={}", "A".repeat(5_000)),
        ] {
            let mut stranger = Visitor::new();
            stranger.cookie = Some(cookie.clone());
            let answer = stranger.ask(&client, "/").await;
            assert_eq!(answer.body["status"], "queued", "{cookie}: {answer:?}");
            assert_ne!(stranger.cookie, Some(cookie));
        }
        // The session ends, and the slot is for those who wait.
        until_status(&client, "active", 0).await;
        let mut returning = first;
        assert!(
            !returning.enters(&client).await,
            "an expired ticket is no ticket"
        );
        assert!(status(&client).await["queued"].as_u64().unwrap() >= 8);
    });
}

#[test]
fn a_room_that_rejects_keeps_no_places() {
    run(async {
        let site = Site::new(
            "",
            &format!("{FIFTY}\nqueueing_method = \"reject\"\nstatus_code = 503"),
        )
        .await;
        let server = site.start();
        let client = server.client();
        let (inside, turned_away) = rush(&client, 60).await;
        assert_eq!((inside.len(), turned_away.len()), (50, 10));
        assert!(turned_away.iter().all(|visitor| visitor.cookie.is_none()));
        let answer = Visitor::new().ask(&client, "/").await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["status"]),
            (503, &"full".into())
        );
        assert!(answer.headers.contains_key("retry-after"));
        assert_eq!(status(&client).await["queued"], 0);
    });
}

#[test]
fn a_pass_through_room_admits_and_counts_all() {
    run(async {
        let site = Site::new("", &format!("{FIFTY}\nqueueing_method = \"pass-through\"")).await;
        let server = site.start();
        let client = server.client();
        assert_eq!(rush(&client, 60).await.0.len(), 60);
        until_status(&client, "active", 60).await;
    });
}

#[test]
fn a_room_that_draws_lets_in_as_many_as_there_are_slots() {
    run(async {
        let room = "total_active_users = 5\nnew_users_per_minute = 1000\nsession_duration = \"1s\"\nqueueing_method = \"random\"";
        let site = Site::new(QUICK, room).await;
        let server = site.start();
        let client = server.client();
        let (_, mut waiting) = rush(&client, 20).await;
        assert_eq!(waiting.len(), 15);
        while !waiting.is_empty() {
            look(&client, &mut waiting).await;
            assert!(status(&client).await["active"].as_u64().unwrap() <= 5);
            pause().await;
        }
    });
}

#[test]
fn queue_all_holds_new_visitors_and_not_those_inside_or_with_a_bypass() {
    run(async {
        let rules = "[[rooms.bypass]]\npath = \"/health\"\n[[rooms.bypass]]\nheader = \"x-key\"\nvalue = \"secret\"";
        let site = Site::new("", &format!("{FIFTY}\n{rules}")).await;
        let server = site.start();
        let mut inside = Visitor::new();
        assert!(inside.enters(&server.client()).await);
        assert!(server.stop().success());

        site.write("", &format!("{FIFTY}\nqueue_all = true\n{rules}"));
        let server = site.start();
        let client = server.client();
        assert!(inside.enters(&client).await);
        let answer = Visitor::new().ask(&client, "/").await;
        assert_eq!(answer.body["status"], "held");
        let passing = Visitor::new().ask(&client, "/health").await;
        assert_eq!(passing.body, support::WELCOME);
        assert!(!passing.headers.contains_key("set-cookie"));
        assert!(Visitor::new().with("x-key", "secret").enters(&client).await);
        assert!(!Visitor::new().with("x-key", "guess").enters(&client).await);
    });
}

#[test]
fn settings_are_reloaded_while_visitors_are_inside_and_wait() {
    run(async {
        let limits =
            |total: u64| format!("total_active_users = {total}\nnew_users_per_minute = 1000");
        let site = Site::new("refresh = \"60s\"", &limits(1)).await;
        let server = site.start();
        let client = server.client();
        let (mut inside, mut waits) = (Visitor::new(), Visitor::new());
        assert!(inside.enters(&client).await && !waits.enters(&client).await);
        let reload = async || client.post("/.waiting-room/reload", &"".into()).await;

        site.write(
            "refresh = \"60s\"",
            &format!("{}\nqueue_all = true", limits(9)),
        );
        assert_eq!(reload().await.status.as_u16(), 200);
        assert_eq!(
            Visitor::new().ask(&client, "/").await.body["status"],
            "held"
        );
        assert!(inside.enters(&client).await && !waits.enters(&client).await);

        site.write("refresh = \"soon\"", &limits(9));
        let refused = reload().await;
        assert_eq!(
            (refused.status.as_u16(), refused.code()),
            (400, "settings_refused")
        );
        let said = refused.body["error"]["message"].to_string();
        assert!(said.contains("`refresh` is"), "{said}");
        server.hang_up();
        assert_eq!(
            Visitor::new().ask(&client, "/").await.body["status"],
            "held"
        );
        site.write("minute = \"2s\"", &limits(9));
        assert!(
            reload()
                .await
                .body
                .to_string()
                .contains("restart the server")
        );

        site.write("refresh = \"60s\"", &limits(2));
        server.hang_up();
        until("the room to be open again", async || {
            waits.enters(&client).await.then_some(())
        })
        .await;
        assert!(inside.enters(&client).await && !Visitor::new().enters(&client).await);
    });
}

#[test]
fn a_draw_at_the_start_of_an_event_is_not_won_by_asking_often() {
    run(async {
        let starts = second() + 8;
        let at =
            |second: u64| jiff::Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
        let event = format!(
            "[rooms.event]\nstarts = \"{}\"\nends = \"{}\"\npre_queue = \"1h\"\nshuffle = true",
            at(starts),
            at(starts + 3_600)
        );
        let room =
            "total_active_users = 50\nnew_users_per_minute = 1000\nsession_duration = \"1h\"";
        let top = "minute = \"2s\"\nrefresh = \"5s\"";
        let site = Site::new(top, &format!("{room}\n{event}")).await;
        let server = site.start();
        let client = server.client();
        let (_, mut crowd) = rush(&client, 95).await;
        let (_, mut bots) = rush(&client, 5).await;
        while second() < starts {
            pause().await;
        }
        // The bots ask ten times as often, and first.
        let mut entered = 0;
        while entered < 50 {
            let mut of_bots = 0;
            for _ in 0..10 {
                of_bots += look(&client, &mut bots).await;
            }
            entered += of_bots + look(&client, &mut crowd).await;
        }
        assert_eq!(entered, 50);
        // By their share two or three of them; all five in one of 36 draws.
        assert_eq!(crowd.len() + bots.len(), 50);
        until_status(&client, "active", 50).await;
        for waits in bots.iter_mut().chain(&mut crowd) {
            let told = waits.ask(&client, "/").await;
            let ahead = told.body["people_ahead"].as_u64().unwrap();
            assert!(ahead < 50, "{ahead}");
        }
    });
}

#[test]
fn visitors_wait_before_an_event_and_enter_from_its_start() {
    run(async {
        let at =
            |second: u64| jiff::Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
        let begins = second() + 10;
        let event = format!(
            "[rooms.event]\nstarts = \"{}\"\nends = \"{}\"\npre_queue = \"1h\"\nshuffle = true\ntotal_active_users = 3",
            at(begins),
            at(begins + 3_600)
        );
        let site = Site::new(
            QUICK,
            &format!("{FIFTY}\nsession_duration = \"1m\"\n{event}"),
        )
        .await;
        let server = site.start();
        let client = server.client();
        let (early, mut waiting) = rush(&client, 10).await;
        assert!(early.is_empty(), "no visitor enters before it begins");
        let mut inside = 0;
        while inside < 3 {
            let passed = look(&client, &mut waiting).await;
            assert!(
                passed == 0 || second() >= begins,
                "no visitor is admitted before it begins"
            );
            inside += passed;
            pause().await;
        }
        assert_eq!(waiting.len(), 7);
        until_status(&client, "active", 3).await;
    });
}

#[test]
fn browsers_get_a_refreshing_page_and_other_clients_json() {
    run(async {
        let site = Site::new(
            "",
            "total_active_users = 1\nnew_users_per_minute = 1\nstatus_code = 429",
        )
        .await;
        let server = site.start();
        let client = server.client();
        assert!(Visitor::new().enters(&client).await);
        let json = Visitor::new().ask(&client, "/").await;
        assert_eq!(json.status.as_u16(), 429);
        assert_eq!(
            (
                &json.body["status"],
                &json.body["people_ahead"],
                &json.body["refresh_seconds"]
            ),
            (&"queued".into(), &0.into(), &20.into())
        );
        assert!(!json.headers.contains_key("refresh"));
        let page = client
            .send(
                http::Request::get(client.url("/"))
                    .header("accept", "text/html")
                    .body(http_body_util::Full::default())
                    .unwrap(),
            )
            .await
            .unwrap();
        let text = page.body.as_str().unwrap();
        assert!(text.contains("You are in the queue") && text.contains("People ahead of you"));
        assert_eq!(page.headers["refresh"], "20");
        assert_eq!(page.headers["cache-control"], "no-store");
        assert_eq!(page.status.as_u16(), 429);
        let cookie = page.headers["set-cookie"].to_str().unwrap();
        assert!(
            cookie.contains("HttpOnly; SameSite=Lax") && cookie.contains("Path=/;"),
            "{cookie}"
        );
    });
}

#[test]
fn a_page_of_one_s_own_is_filled_in() {
    run(async {
        let site = Site::new("", "total_active_users = 1\nnew_users_per_minute = 1\njson_response = false\ntemplate = \"own.html\"").await;
        std::fs::write(
            site.dir.path().join("own.html"),
            "<p>{{ room }}: {{ people_ahead }} before you</p>",
        )
        .unwrap();
        let server = site.start();
        let client = server.client();
        assert!(Visitor::new().enters(&client).await);
        assert_eq!(
            Visitor::new().ask(&client, "/").await.body,
            "<p>shop: 0 before you</p>"
        );
    });
}
