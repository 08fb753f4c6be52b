use std::time::Duration;

use abide_history::Options;
use abide_s3::Bucket;

use crate::{
    machine::{Machine, options, until_copied},
    net::store,
};

#[tokio::test(start_paused = true)]
async fn an_idle_node_makes_no_requests() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    let before = bucket.counts();
    let started = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_hours(24)).await;
    assert!(started.elapsed() >= Duration::from_hours(24));
    assert_eq!(bucket.counts(), before);
    machine.history.add(b"something".to_vec());
    until_copied(&uploader, &store, &machine.history).await;
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_is_not_published() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, _uploader) = Machine::copied(&store).await;
    let before = bucket.counts();
    machine.history.touch();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(bucket.counts(), before);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_an_idle_node_creates_no_manifest() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    drop(uploader);
    let objects = bucket.objects();
    let uploader = machine.start(&store, options());
    until_copied(&uploader, &store, &machine.history).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(bucket.objects().keys().eq(objects.keys()));
}

#[tokio::test(start_paused = true)]
async fn changes_are_bundled() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let machine = Machine::with_runs();
    let options = Options {
        stage: u64::MAX,
        ..options()
    };
    let uploader = machine.start(&store, options);
    until_copied(&uploader, &store, &machine.history).await;
    let before = uploader.status().published.unwrap().number;
    for _ in 0..600 {
        machine.history.add(b"a little".to_vec());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    until_copied(&uploader, &store, &machine.history).await;
    let manifests = uploader.status().published.unwrap().number - before;
    assert!((6..=8).contains(&manifests), "{manifests} in a minute");
}
