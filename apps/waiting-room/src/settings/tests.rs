use std::path::Path;

use super::*;

const LEAST: &str = r#"
origin = "http://127.0.0.1:3000"
[[rooms]]
name = "shop"
total_active_users = 200
new_users_per_minute = 100
"#;

fn parse(text: &str) -> Result<Settings, SettingsError> {
    Settings::parse(Path::new("rooms.toml"), text)
}

fn with(lines: &str) -> String {
    format!("{LEAST}{lines}\n")
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn what_is_not_given_has_a_default() {
    let settings = parse(LEAST).unwrap();
    assert_eq!(
        (settings.minute, settings.refresh),
        (Duration::from_mins(1), Duration::from_secs(20))
    );
    let room = &settings.rooms[0];
    assert_eq!(
        (room.session, room.status.as_u16()),
        (Duration::from_mins(5), 200)
    );
    assert_eq!(
        (room.method, room.division),
        (Method::Fifo, Division::Counters)
    );
    assert!(room.json && !room.queue_all && room.event.is_none());
}

#[test]
fn the_example_of_the_repository_is_right() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/waiting-room.toml"));
    assert_eq!(Settings::load(path).unwrap().rooms[0].name, "shop");
}

#[test]
fn a_refusal_names_the_key_the_value_and_what_is_expected() {
    for (lines, said) in [
        (
            "session_duration = \"soon\"",
            "`rooms[0].session_duration` is \"soon\"; expected a duration from 1s to",
        ),
        (
            "status_code = 301",
            "`rooms[0].status_code` is Some(301); expected 200, 202 or 400 to 599",
        ),
        (
            "path = \"shop\"",
            "`rooms[0].path` is \"shop\"; expected a path that begins with a slash",
        ),
        (
            "host = \"shop.example:80\"",
            "`rooms[0].host` is \"shop.example:80\"; expected a host name without a port",
        ),
        (
            "curve_factor = -1.0",
            "`rooms[0].curve_factor` is -1.0; expected 0 to 10",
        ),
        (
            "template = \"none.html\"",
            "`rooms[0].template` is \"none.html\"; expected a file",
        ),
        (
            "[[rooms.bypass]]",
            "`rooms[0].bypass[0]` is \"empty\"; expected at least one of",
        ),
        (
            "[[rooms.bypass]]\naddress = \"here\"",
            "`rooms[0].bypass[0].address` is \"here\"; expected an address",
        ),
        (
            "[[rooms.bypass]]\nheader = \"x-key\"",
            "expected both `header` and `value`",
        ),
        (
            "[rooms.event]\nstarts = \"tomorrow\"\nends = \"later\"",
            "`rooms[0].event.starts` is \"tomorrow\"; expected a moment with its offset",
        ),
        (
            "[rooms.event]\nstarts = \"2026-12-01T18:00:00Z\"\nends = \"2026-12-01T17:00:00Z\"",
            "expected a moment after `starts`",
        ),
    ] {
        let refused = refusal(&with(lines));
        assert!(refused.contains(said), "{lines}: {refused}");
        assert!(refused.starts_with("rooms.toml: "), "{refused}");
    }
}

#[test]
fn a_key_that_does_not_exist_is_refused_with_its_line() {
    let refused = refusal(&with("sesion_duration = \"5m\""));
    assert!(
        refused.contains("sesion_duration") && refused.contains("line 7"),
        "{refused}"
    );
    assert!(refusal("").contains("origin"));
    assert!(refusal("origin = \"http://a\"").contains("`rooms` is 0; expected 1 to 100 tables"));
    assert!(refusal(&LEAST.replace("200", "0")).contains("1 to 10000000"));
    assert!(refusal(&LEAST.replace("shop", "The Shop")).contains("lower-case letters"));
    assert!(
        refusal(&format!(
            "{LEAST}{}",
            LEAST.replace("origin = \"http://127.0.0.1:3000\"", "")
        ))
        .contains("a name that no other room has")
    );
    for origin in [
        "127.0.0.1:3000",
        "ftp://a",
        "http://a/path",
        "http://user@a",
    ] {
        assert!(
            refusal(&LEAST.replace("http://127.0.0.1:3000", origin)).contains("`origin` is"),
            "{origin}"
        );
    }
}

#[test]
fn a_room_is_for_its_host_and_everything_below_its_path() {
    let settings = parse(&with("host = \"Shop.example\"\npath = \"/tickets\"")).unwrap();
    let room = &settings.rooms[0];
    let is_for = |host: Option<&str>, path: &str| {
        let host: Option<RequestHost> = host.map(|host| host.parse().unwrap());
        room.is_for(host.as_ref(), path, settings.path_case)
    };
    assert!(is_for(Some("shop.example"), "/tickets"));
    assert!(is_for(Some("SHOP.example:8080"), "/tickets/42"));
    assert!(is_for(Some("shop.example."), "/tickets"));
    assert!(is_for(Some("shop.example"), "/TICKETS"));
    assert!(!is_for(Some("shop.example"), "/ticketsale"));
    assert!(!is_for(Some("www.example"), "/tickets"));
    assert!(!is_for(None, "/tickets"));
    assert!(!is_for(Some("shop.example"), "/x;/tickets/%2e%2e/y"));
    let distinguishing = parse(&format!(
        "paths_distinguish_case = true{}",
        with("path = \"/tickets\"")
    ));
    let distinguishing = distinguishing.unwrap();
    let (room, case) = (&distinguishing.rooms[0], distinguishing.path_case);
    assert!(room.is_for(None, "/tickets", case) && !room.is_for(None, "/TICKETS", case));
}

#[test]
fn a_bypass_rule_lets_what_fits_everything_that_it_says() {
    let lines = "[[rooms.bypass]]\npath = \"/health\"\naddress = \"10.0.0.0/8\"\n[[rooms.bypass]]\nmethod = \"OPTIONS\"\n\
                 [[rooms.bypass]]\nheader = \"x-key\"\nvalue = \"secret\"";
    let settings = parse(&with(lines)).unwrap();
    let lets = |method: HttpMethod, path: &str, key: Option<&'static str>, client: [u8; 4]| {
        let key = key.map(|key| {
            (
                HeaderName::from_static("x-key"),
                http::HeaderValue::from_static(key),
            )
        });
        let headers = http::HeaderMap::from_iter(key);
        settings.rooms[0]
            .bypass
            .iter()
            .any(|rule| rule.lets(&method, path, &headers, client.into()))
    };
    assert!(lets(HttpMethod::GET, "/health/live", None, [10, 1, 2, 3]));
    assert!(!lets(HttpMethod::GET, "/health", None, [11, 1, 2, 3]));
    assert!(!lets(HttpMethod::GET, "/", None, [10, 1, 2, 3]));
    for path in [
        "/health/../tickets",
        "/health/%2e%2e/tickets",
        "/health/..%2ftickets",
        "/x/../health",
    ] {
        assert!(!lets(HttpMethod::GET, path, None, [10, 1, 2, 3]), "{path}");
    }
    assert!(lets(HttpMethod::OPTIONS, "/", None, [1, 1, 1, 1]));
    assert!(lets(HttpMethod::GET, "/", Some("secret"), [1, 1, 1, 1]));
    assert!(!lets(HttpMethod::GET, "/", Some("guess"), [1, 1, 1, 1]));
}

#[test]
fn an_event_holds_visitors_until_its_start_and_then_ends() {
    let lines = "queueing_method = \"reject\"\n[rooms.event]\nstarts = \"1970-01-01T01:00:00Z\"\nends = \"1970-01-01T02:00:00Z\"\n\
                 pre_queue = \"10m\"\nshuffle = true\ntotal_active_users = 50\nqueueing_method = \"random\"";
    let settings = parse(&with(lines)).unwrap();
    let room = &settings.rooms[0];
    let at = |minute: u64| room.rules(minute * 60_000, 60_000);
    assert!(!at(49).holds_all && at(49).method == Method::Reject);
    assert!(
        at(50).holds_all && at(50).method == Method::Fifo,
        "none is rejected before it starts"
    );
    assert!(!at(60).holds_all && at(60).method == Method::Random);
    assert_eq!(
        (
            at(60).limits.total_active_users,
            at(60).limits.new_users_per_minute
        ),
        (50, 100)
    );
    assert_eq!(at(120).limits.total_active_users, 200);
    assert_eq!(at(59).draw, None);
    assert_eq!(at(60).draw.map(|draw| draw.at), Some(60 * 60_000));
}

#[test]
fn queue_all_holds_visitors_with_every_method() {
    let settings = parse(&with(
        "queue_all = true\nqueueing_method = \"pass-through\"",
    ))
    .unwrap();
    let rules = settings.rooms[0].rules(0, 60_000);
    assert!(rules.holds_all && rules.method == Method::Fifo);
}
