//! What the admin listener tells and changes.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support;
use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use crate::support::{Answer, ask, change, change_to, code};
use abide::{
    AlarmRetry,
    clock::TestClock,
    prelude::*,
    server::RunningHost,
    storage::{Disk as _, OpenMode, SimDisk},
};
use abide_server::{Host, access::AccessPolicy};
use http::{Method, StatusCode};
use serde_json::{Value, json};

/// Its alarm fails until it is told otherwise.
#[durable_object]
struct Clockwork {
    ctx: Ctx,
}

impl DurableObject for Clockwork {
    fn new(ctx: Ctx, _: Env) -> Result<Self> {
        Ok(Self { ctx })
    }

    async fn alarm(&self, _: AlarmInfo) -> Result<()> {
        if self.ctx.storage().get("mended")?.unwrap_or(false) {
            return Ok(());
        }
        Err("a spring is broken".into())
    }
}

#[allow(unreachable_pub, reason = "methods that others may call are `pub`")]
#[rpc]
impl Clockwork {
    pub async fn set(&self, at: i64) -> Result<()> {
        self.ctx.storage().set_alarm(at)
    }

    pub async fn is_mended(&self) -> Result<bool> {
        Ok(self.ctx.storage().get("mended")?.unwrap_or(false))
    }

    pub async fn mend(&self) -> Result<()> {
        self.ctx.storage().put("mended", &true)
    }
}

async fn host() -> RunningHost {
    let options = ClassOptions::default()
        .alarm_retry(AlarmRetry::default().base(Duration::ZERO).max_retries(1));
    let host = Host::open_in_memory()
        .object_with::<Clockwork>(options)
        .configure(|config| config.admin.access = AccessPolicy::Open);
    host.start().await.unwrap()
}

async fn listed(host: &RunningHost, query: &str) -> Value {
    let answer = ask(
        host.admin_addr().unwrap(),
        Method::GET,
        &format!("/alarms{query}"),
    )
    .await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

/// A time that no test sees.
const LATER: i64 = 4_000_000_000_000;

#[tokio::test]
async fn pending_alarms_are_listed_by_time_page_by_page() {
    let host = host().await;
    for number in [3, 1, 2] {
        let clockwork = host.env().object::<Clockwork>();
        let clockwork = clockwork.get_by_name(&format!("c{number}"));
        clockwork.set(LATER + number).await.unwrap();
    }
    let first = listed(&host, "?limit=2").await;
    let due = |page: &Value| -> Vec<i64> {
        let alarms = page["alarms"].as_array().unwrap();
        alarms
            .iter()
            .map(|alarm| alarm["due"].as_i64().unwrap() - LATER)
            .collect()
    };
    assert_eq!(due(&first), [1, 2]);
    assert_eq!(first["alarms"][0]["class"], "Clockwork");
    assert_eq!(first["alarms"][0]["attempts"], 0);
    let next = first["next"].as_str().unwrap();
    let second = listed(&host, &format!("?limit=2&after={next}")).await;
    assert_eq!(due(&second), [3]);
    assert_eq!(second["next"], Value::Null);
    let admin = host.admin_addr().unwrap();
    for query in ["?limit=0", "?limit=1001", "?after=x", "?state=lost", "?x=1"] {
        let answer = ask(admin, Method::GET, &format!("/alarms{query}")).await;
        assert_eq!(code(&answer), "invalid_query", "{query}");
    }
    host.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_several_nodes_of_a_process_shows_its_own_gauges() {
    let (one, two) = (host().await, host().await);
    let far = 4_000_000_000_000;
    for (host, alarms) in [(&one, 1), (&two, 2)] {
        for name in 0..alarms {
            let clockwork = host.env().object::<Clockwork>();
            let clockwork = clockwork.get_by_name(&name.to_string());
            clockwork.set(far).await.unwrap();
        }
    }
    let look = async |host: &RunningHost, alarms: u32| {
        let wanted = format!("\nabide_alarms_pending {alarms}\n");
        for _ in 0..200 {
            let metrics = ask(host.admin_addr().unwrap(), Method::GET, "/metrics").await;
            assert!(metrics.body.contains(&wanted), "{alarms}: {}", metrics.body);
        }
    };
    tokio::join!(look(&one, 1), look(&two, 2));
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_alarm_that_was_given_up_is_listed_and_run_again_on_demand() {
    let host = host().await;
    let admin = host.admin_addr().unwrap();
    let clockwork = host.env().object::<Clockwork>().get_by_name("a/b");
    clockwork.set(1).await.unwrap();
    let failed = loop {
        let failed = listed(&host, "?state=failed").await;
        if failed["alarms"] != json!([]) {
            break failed;
        }
        tokio::task::yield_now().await;
    };
    let id = clockwork.id().to_string();
    let error = &failed["alarms"][0]["error"];
    assert!(error.is_string(), "{failed}");
    let expected = json!([{
        "class": "Clockwork", "id": id, "due": 1, "attempts": 2, "crashes": 0, "error": error,
    }]);
    assert_eq!(failed["alarms"], expected);
    assert_eq!(listed(&host, "?state=failing").await["alarms"], json!([]));
    let metrics = ask(admin, Method::GET, "/metrics").await.body;
    assert!(metrics.contains("\nabide_alarms_failed 1\n"), "{metrics}");
    let failing = "\nabide_alarms_failing{class=\"Clockwork\"} 0\n";
    assert!(metrics.contains(failing), "{metrics}");

    clockwork.mend().await.unwrap();
    let rerun = change(admin, "/alarms/Clockwork/a%2Fb/rerun").await;
    assert_eq!(rerun.status, StatusCode::NO_CONTENT, "{rerun:?}");
    while listed(&host, "").await["alarms"] != json!([]) {
        tokio::task::yield_now().await;
    }
    assert_eq!(listed(&host, "?state=failed").await["alarms"], json!([]));
    let again = change(admin, &format!("/alarms/Clockwork/{id}/rerun")).await;
    assert_eq!(code(&again), "no_failed_alarm");
    let no_class = change(admin, "/alarms/Nothing/a/rerun").await;
    assert_eq!(code(&no_class), "no_such_class");
    let foreign = "00".repeat(32);
    let no_id = change(admin, &format!("/alarms/Clockwork/{foreign}/rerun")).await;
    assert_eq!(code(&no_id), "invalid_id");
    host.shutdown().await.unwrap();
}

#[tokio::test]
async fn objects_are_restored_and_forked_by_bookmark_and_by_time() {
    let host = host().await;
    let admin = host.admin_addr().unwrap();
    let clockwork = host.env().object::<Clockwork>().get_by_name("a/b");
    clockwork.set(LATER).await.unwrap();
    let path = |what: &str| format!("/objects/Clockwork/a%2Fb/{what}");
    let told = async |answer: support::Answer| -> Value {
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    };
    let now = told(ask(admin, Method::GET, &path("bookmark")).await).await;
    clockwork.mend().await.unwrap();
    assert!(clockwork.is_mended().await.unwrap());

    let restored = told(change_to(admin, &path("restore"), &now).await).await;
    assert!(!clockwork.is_mended().await.unwrap());
    let undo = json!({ "bookmark": restored["undo"] });
    told(change_to(admin, &path("restore"), &undo).await).await;
    assert!(clockwork.is_mended().await.unwrap());

    let fork = json!({ "bookmark": now["bookmark"], "name": "copy" });
    let forked = told(change_to(admin, &path("fork"), &fork).await).await;
    let copy = host.env().object::<Clockwork>().get_by_name("copy");
    assert_eq!(forked["id"], copy.id().to_string());
    assert!(!copy.is_mended().await.unwrap());
    let again = change_to(admin, &path("fork"), &fork).await;
    assert_eq!(code(&again), "bad_request");

    let early = change_to(admin, &path("restore"), &json!({ "time": 1 })).await;
    assert_eq!(code(&early), "bad_request");
    assert!(early.body.contains("first commit was at"), "{early:?}");
    let mistyped = json!({ "bookmark": "00000003-0000000000001a40-00000011-5e0c-00000000" });
    let refused = change_to(admin, &path("restore"), &mistyped).await;
    assert_eq!(code(&refused), "invalid_body");
    let bare = ask(admin, Method::POST, &path("restore")).await;
    assert_eq!(code(&bare), "malformed_json");
    host.shutdown().await.unwrap();
}

/// A host's clock also dates the commits that its objects can be restored to.
#[tokio::test]
async fn objects_are_restored_to_times_of_the_hosts_clock() {
    let clock = TestClock::new();
    let host = Host::open_in_memory()
        .object::<Clockwork>()
        .configure(|config| config.admin.access = AccessPolicy::Open)
        .clock(Arc::new(clock.clone()))
        .start()
        .await
        .unwrap();
    let clockwork = host.env().object::<Clockwork>().get_by_name("a");
    clockwork.set(LATER).await.unwrap();
    clock.advance(Duration::from_hours(1));
    clockwork.mend().await.unwrap();

    let restore = async |time: u64| {
        let path = "/objects/Clockwork/a/restore";
        change_to(host.admin_addr().unwrap(), path, &json!({ "time": time })).await
    };
    let early = restore(TestClock::START_UNIX_MILLIS - 1).await;
    assert_eq!(code(&early), "bad_request");
    let restored = restore(TestClock::START_UNIX_MILLIS + 3_599_999).await;
    assert_eq!(restored.status, StatusCode::OK, "{restored:?}");
    assert!(!clockwork.is_mended().await.unwrap());

    // A program does the same through the host's node.
    let restored: Value = serde_json::from_str(&restored.body).unwrap();
    let undo: Bookmark = serde_json::from_value(restored["undo"].clone()).unwrap();
    let node = host.node();
    node.restore(clockwork.untyped(), undo).await.unwrap();
    assert!(clockwork.is_mended().await.unwrap());

    // How long ago counts from the host's clock, too.
    let admin = host.admin_addr().unwrap();
    let now = ask(admin, Method::GET, "/objects/Clockwork/a/bookmark?ago=0").await;
    assert_eq!(now.status, StatusCode::OK, "{now:?}");
    let path = "/objects/Clockwork/a/restore";
    let restored = change_to(admin, path, &json!({ "ago": 1 })).await;
    assert_eq!(restored.status, StatusCode::OK, "{restored:?}");
    assert!(!clockwork.is_mended().await.unwrap());
    host.shutdown().await.unwrap();
}

/// Asks for a change until the object is not held by the one before, whose answer may have come a moment earlier.
async fn change_when_free(admin: SocketAddr, path: &str, body: &Value) -> Answer {
    loop {
        let answer = change_to(admin, path, body).await;
        if answer.status == StatusCode::OK || code(&answer) != "overloaded" {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}

/// A host on a disk with one object whose file is no database.
async fn host_with_damage(disk: &SimDisk, name: &str) -> (RunningHost, String) {
    let start = async || {
        let host = Host::open_in_memory()
            .disk(Arc::new(disk.clone()))
            .configure(|config| config.admin.access = AccessPolicy::Open);
        let host = host.object::<Clockwork>();
        host.start().await.unwrap()
    };
    let host = start().await;
    let clockwork = host.env().object::<Clockwork>().get_by_name(name);
    clockwork.mend().await.unwrap();
    let id = clockwork.id().to_string();
    host.shutdown().await.unwrap();
    let dir = Path::new("data/objects/Clockwork").join(&id[..2]);
    let path = dir.join(format!("{id}.sqlite"));
    let file = disk.open(&path, OpenMode::Existing).unwrap();
    file.write_at(&[0; 100], 0).unwrap();
    (start().await, id)
}

#[tokio::test]
async fn a_quarantined_object_is_listed_and_repaired_by_each_way() {
    for how in ["anew", "restore"] {
        let disk = SimDisk::new();
        let (host, id) = host_with_damage(&disk, "a/b").await;
        let admin = host.admin_addr().unwrap();
        let clockwork = host.env().object::<Clockwork>().get_by_name("a/b");
        let quarantined = async || -> Value {
            let answer = ask(admin, Method::GET, "/quarantined").await;
            assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
            serde_json::from_str(&answer.body).unwrap()
        };
        let path = |what: &str| format!("/objects/Clockwork/a%2Fb/{what}");
        // It is noticed when it is needed.
        assert_eq!(quarantined().await, json!({ "objects": [] }));
        clockwork.is_mended().await.unwrap_err();
        let listed = quarantined().await;
        let why = listed["objects"][0]["why"].as_str().unwrap();
        assert!(why.contains("is not a database"), "{why}");
        let expected = json!({ "objects": [{ "class": "Clockwork", "id": id, "why": why }] });
        assert_eq!(listed, expected);
        let metrics = ask(admin, Method::GET, "/metrics").await.body;
        assert!(
            metrics.contains("\nabide_objects_quarantined 1\n"),
            "{metrics}"
        );

        let bare = ask(admin, Method::POST, &path("repair")).await;
        assert_eq!(code(&bare), "malformed_json");
        let body = json!({ "with": "glue" });
        let unknown = change_when_free(admin, &path("repair"), &body).await;
        assert_eq!(code(&unknown), "invalid_body");
        let unsound = change_when_free(admin, &path("repair"), &json!({ "with": "accept" })).await;
        assert_eq!(
            unsound.status,
            StatusCode::SERVICE_UNAVAILABLE,
            "{unsound:?}"
        );
        assert!(unsound.body.contains("no content to accept"), "{unsound:?}");
        assert_eq!(quarantined().await, expected);

        let (repaired, mended) = match how {
            "anew" => (
                change_when_free(admin, &path("repair"), &json!({ "with": "anew" })).await,
                false,
            ),
            _ => {
                let newest = json!({ "time": u64::MAX });
                (
                    change_when_free(admin, &path("restore"), &newest).await,
                    true,
                )
            }
        };
        assert_eq!(repaired.status, StatusCode::OK, "{repaired:?}");
        let repaired: Value = serde_json::from_str(&repaired.body).unwrap();
        if how == "anew" {
            let kept = repaired["kept"][0].as_str().unwrap();
            let file = disk.open(Path::new(kept), OpenMode::Existing).unwrap();
            assert!(file.len().unwrap() > 0 && repaired["bookmark"].is_string());
        }
        assert_eq!(quarantined().await, json!({ "objects": [] }));
        assert_eq!(clockwork.is_mended().await.unwrap(), mended);
        let again = change_when_free(admin, &path("repair"), &json!({ "with": "anew" })).await;
        assert_eq!(code(&again), "bad_request");
        assert!(again.body.contains("is not quarantined"), "{again:?}");
        let anew = json!({ "with": "anew" });
        let no_class = change_when_free(admin, "/objects/Nothing/a/repair", &anew).await;
        assert_eq!(code(&no_class), "no_such_class");
        host.shutdown().await.unwrap();
    }
}
