//! A copy that is proven while the node runs.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use abide_harness::{Client, Program, Random, Server, until};
use abide_s3::{Bucket, Faults};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::backup::{World, copied, files, put};

/// Everything is proven every three seconds, and what it takes.
fn program(world: &World, name: &str) -> Program {
    world.program(name).env("ABIDE__ARCHIVE__PROVE", "100ms")
}

/// Whether an operator is warned.
async fn is_warned(admin: &Client) -> bool {
    let answer = admin.get("/readyz").await;
    assert_eq!(answer.status, StatusCode::OK, "the node serves: {answer:?}");
    let Some(warnings) = answer.body["warnings"].as_array() else {
        return false;
    };
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0]["code"], "backup_differs");
    // Anyone may read it.
    let message = warnings[0]["message"].as_str().unwrap();
    assert!(!message.contains('/'), "{message}");
    true
}

fn notes(world: &World) -> Value {
    let notes = fs::read(world.data("0").join("proof.json")).unwrap();
    serde_json::from_slice(&notes).unwrap()
}

/// The front page of the admin listener, for a program.
async fn operators_page(world: &World, admin: &Client) -> Value {
    let dir = world.data("0");
    let dir = dir.to_str().unwrap();
    let create = ["token", "create", "--role", "read", "--data", dir];
    let token = world.abide(&create).await.unwrap();
    let token = format!("Bearer {}", token.trim());
    let asked = Request::get(admin.url("/")).header("authorization", token);
    let page = admin.send(asked.body(Full::default()).unwrap()).await;
    page.unwrap().body
}

/// Waits until something differs, and returns what.
async fn until_warned(world: &World, admin: &Client) -> String {
    let warned = async || is_warned(admin).await.then_some(());
    until("a difference", warned).await;
    notes(world)["differences"].to_string()
}

async fn until_right(admin: &Client) {
    let is_right = async || (!is_warned(admin).await).then_some(());
    until("no difference", is_right).await;
    admin.until_shown(&["\nabide_backup_differences 0\n"]).await;
}

/// Waits until everything was proven since now.
async fn until_proven(admin: &Client) {
    // Seconds are shown with fractions.
    let age = async || {
        let text = admin.get("/metrics").await.body;
        let text = text.as_str().unwrap().to_owned();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("abide_backup_verified_age_seconds "));
        line.and_then(|age| age.parse::<f64>().ok())
    };
    let begun = std::time::Instant::now();
    until("a proof of everything", async || {
        let age = age().await?;
        (begun.elapsed().as_secs_f64() > age + 0.2).then_some(())
    })
    .await;
}

/// The files of runs in the copy.
fn runs(world: &World) -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.to_str().unwrap().contains(".run") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&world.data("copies").join("runs"), &mut found);
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

async fn with_objects(world: &World) -> Server {
    let server = program(world, "0").start();
    for key in 0..40 {
        put(&server, key, key * 1000).await;
    }
    copied(&server).await;
    server
}

/// The largest run of the newest copy, once nothing changes any more.
async fn largest_run(world: &World) -> PathBuf {
    let listed = world
        .abide(&["verify", "--from", world.url()])
        .await
        .unwrap();
    assert!(listed.contains("each as it was written"), "{listed}");
    let largest = runs(world).into_iter();
    largest
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_anywhere_in_a_run_is_told_within_a_cycle() {
    let world = World::new();
    let log = world.dir.path().join("log");
    let server = program(&world, "0").log_to(&log).start();
    // In one run, which nothing replaces.
    for key in 0..40 {
        put(&server, key, key * 1000).await;
    }
    copied(&server).await;
    let admin = server.admin_client();
    until_proven(&admin).await;
    assert!(admin.metric("abide_backup_proven_objects_total").await >= 7);
    let run = largest_run(&world).await;
    let length = usize::try_from(fs::metadata(&run).unwrap().len()).unwrap();
    // Its header, blocks, index, filter, what it says of itself, and its footer.
    for at in [
        3,
        length / 4,
        length / 2,
        length - 700,
        length - 300,
        length - 130,
        length - 4,
    ] {
        flip(&run, at);
        let told = until_warned(&world, &admin).await;
        assert!(told.contains(".run"), "byte {at} of {length}: {told}");
        flip(&run, at);
        until_right(&admin).await;
    }
    // A run that is gone.
    let bytes = fs::read(&run).unwrap();
    fs::remove_file(&run).unwrap();
    let told = until_warned(&world, &admin).await;
    assert!(told.contains("not in the store"), "{told}");
    fs::write(&run, bytes).unwrap();
    until_right(&admin).await;
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("differs from this node"), "{said}");
    assert!(server.stop().success());
}

/// The file of an object of the first node, and the object's id.
fn an_object(world: &World) -> (PathBuf, String) {
    let object = files(&world.data("0").join("objects")).pop().unwrap();
    let id = object.file_stem().unwrap().to_str().unwrap().to_owned();
    (object, id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_differs_is_named_and_stays_told_until_it_is_right() {
    let world = World::new();
    let server = with_objects(&world).await;
    assert!(server.stop().success());
    let (object, id) = an_object(&world);
    // In a page between its cells and their pointers.
    flip(&object, 4096 + 1000);
    let server = program(&world, "0").start();
    let admin = server.admin_client();
    let told = until_warned(&world, &admin).await;
    assert!(told.contains(&id), "{told}");
    assert!(told.contains("1 of") && told.contains("[2]"), "{told}");
    // The operator's front page names it; the clients' does not.
    let page = operators_page(&world, &admin).await;
    let differs = page["backup"]["differences"][0].as_str();
    assert!(differs.is_some_and(|what| what.contains(&id)), "{page}");
    assert_eq!(page["backup"]["place"], json!(world.url()));
    let page = server.client().get("/").await.body;
    assert!(!page.to_string().contains(&id), "{page}");
    server.kill();
    // It is not forgotten by a restart, and not looked at again before it is due.
    let later = world.program("0").env("ABIDE__ARCHIVE__PROVE", "off");
    let server = later.start();
    assert!(!is_warned(&server.admin_client()).await);
    assert!(server.stop().success());
    let mut notes = notes(&world);
    notes["due"] = json!(u64::MAX / 4);
    fs::write(world.data("0").join("proof.json"), notes.to_string()).unwrap();
    let later = world.program("0").env("ABIDE__ARCHIVE__PROVE", "30d");
    let server = later.start();
    assert!(is_warned(&server.admin_client()).await);
    assert!(server.stop().success());
    notes["due"] = json!(0);
    fs::write(world.data("0").join("proof.json"), notes.to_string()).unwrap();
    flip(&object, 4096 + 1000);
    let server = program(&world, "0").start();
    until_right(&server.admin_client()).await;
    assert!(server.stop().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_the_node_has_lost_is_told() {
    let world = World::new();
    let server = with_objects(&world).await;
    until_proven(&server.admin_client()).await;
    assert!(server.stop().success());
    let (object, id) = an_object(&world);
    fs::remove_file(&object).unwrap();
    let server = program(&world, "0").start();
    let told = until_warned(&world, &server.admin_client()).await;
    assert!(told.contains(&id), "{told}");
    assert!(server.stop().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_node_reports_no_difference() {
    let world = World::new();
    let log = world.dir.path().join("log");
    let mut random = Random::new(11);
    for round in 0..3 {
        let mut program = program(&world, "0").log_to(&log);
        if round == 1 {
            program = program.env("ABIDE__ARCHIVE__SHIP_INTERVAL", "20ms");
        }
        let server = program.start();
        let client = server.client();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            let object = random.below(30);
            let path = format!("/kv/busy{object}/k{}", random.below(5));
            if random.below(5) == 0 {
                let gone = client.ask(Method::DELETE, &path, "").await;
                assert_ne!(gone.status, StatusCode::INTERNAL_SERVER_ERROR);
            } else {
                let text = "x".repeat(random.below(3000) as usize);
                let put = client.put(&path, &json!(text)).await;
                assert!(put.status.is_success(), "{put:?}");
            }
        }
        let admin = server.admin_client();
        assert!(admin.metric("abide_backup_proven_objects_total").await > 0);
        assert_eq!(admin.metric("abide_backup_differences").await, 0);
        assert!(!is_warned(&admin).await);
        if round == 1 {
            server.kill();
        } else {
            assert!(server.stop().success());
        }
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    assert!(!said.contains("differs from this node"), "{said}");
}

/// A store in this process whose requests fail by chance, or all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_now_and_then_is_no_difference() {
    let bucket = Bucket::new(5);
    let front = abide_s3::serve(bucket.clone()).await.unwrap();
    let world = World::new();
    let log = world.dir.path().join("log");
    let options = format!(
        "endpoint={} allow_http=true region=us-east-1 access_key_id=a secret_access_key=b",
        front.endpoint()
    );
    let server = program(&world, "0")
        .env("ABIDE__ARCHIVE__URL", "s3://copies/node")
        .env("ABIDE__ARCHIVE__OPTIONS", &options)
        .log_to(&log)
        .start();
    let admin = server.admin_client();
    let mut random = Random::new(3);
    for round in 0..40 {
        let faults = Faults {
            slow_down: 5,
            cut_before: 5,
            cut_after: 5,
            unreachable: round % 8 == 7,
            expired: round % 8 == 3,
            ..Faults::default()
        };
        bucket.set_faults(faults);
        for _ in 0..20 {
            put(&server, random.below(40), random.below(1_000_000)).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!is_warned(&admin).await);
    }
    bucket.set_faults(Faults::default());
    until_proven(&admin).await;
    assert!(!is_warned(&admin).await);
    let said = fs::read_to_string(&log).unwrap_or_default();
    assert!(!said.contains("panicked"), "{said}");
    assert!(server.stop().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proof_is_the_only_request_of_an_idle_node() {
    let world = World::new();
    let server = with_objects(&world).await;
    let admin = server.admin_client();
    until_proven(&admin).await;
    let kinds = ["put", "list", "delete"];
    let mut asked = Vec::new();
    for kind in kinds.iter().chain(&["get"]) {
        let name = format!("abide_history_requests_total{{kind=\"{kind}\"}}");
        asked.push((name.clone(), admin.metric(&name).await));
    }
    until_proven(&admin).await;
    let gets = asked.pop().unwrap();
    for (name, before) in asked {
        assert_eq!(admin.metric(&name).await, before, "{name}");
    }
    let more = admin.metric(&gets.0).await - gets.1;
    // In each of at most 60 slices: the manifest, whether there is a later one, and a few blocks of each run.
    assert!(
        more > 0 && more < 60 * (2 + 5 * runs(&world).len() as u64),
        "{more}"
    );
    assert!(server.stop().success());
}
