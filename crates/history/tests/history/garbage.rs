use std::time::Duration;

use abide_history::{Options, Probe};
use abide_s3::{Bucket, Faults};

use crate::{
    judge::{Judge, manifests},
    machine::{Machine, downloaded, options, slow, taking_over, until, until_copied},
    net::store,
};

fn run_objects(bucket: &Bucket) -> usize {
    let objects = bucket.objects();
    objects.keys().filter(|key| key.contains("/runs/")).count()
}

#[tokio::test(start_paused = true)]
async fn what_no_manifest_of_the_time_to_keep_lists_is_deleted() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let machine = Machine::new();
    let options = Options {
        stage: u64::MAX,
        ..options()
    };
    let uploader = machine.start(&store, options);
    for _ in 0..30 {
        for _ in 0..5 {
            machine.history.add(vec![1; 100]);
        }
        until_copied(&uploader, &store, &machine.history).await;
        machine.history.merge(5);
        until_copied(&uploader, &store, &machine.history).await;
        // Those of the last minute, and the one before them.
        assert!(manifests(&bucket.objects()).count() <= 9);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    machine.history.merge(30);
    until_copied(&uploader, &store, &machine.history).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    machine.history.add(b"x".to_vec());
    until_copied(&uploader, &store, &machine.history).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    machine.history.add(b"x".to_vec());
    until_copied(&uploader, &store, &machine.history).await;
    let runs = machine.history.runs();
    let parts: usize = runs.values().map(|run| run.len().div_ceil(64).max(1)).sum();
    assert_eq!(run_objects(&bucket), parts);
    assert!(judge.manifests() > 50);
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_is_kept_while_it_was_in_force_in_the_time_to_keep() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    let first = uploader.status().published.unwrap().number;
    let has = |number: u64| {
        let objects = bucket.objects();
        manifests(&objects).any(|(there, _)| there == number)
    };
    tokio::time::sleep(Duration::from_hours(5)).await;
    machine.history.add(b"second".to_vec());
    until_copied(&uploader, &store, &machine.history).await;
    assert!(has(first), "it was in force until now");
    tokio::time::sleep(Duration::from_secs(20)).await;
    machine.history.add(b"third".to_vec());
    until_copied(&uploader, &store, &machine.history).await;
    assert!(has(first), "it was in force less than a minute ago");
    tokio::time::sleep(Duration::from_secs(50)).await;
    machine.history.add(b"fourth".to_vec());
    until_copied(&uploader, &store, &machine.history).await;
    assert!(!has(first));
}

#[tokio::test(start_paused = true)]
async fn leftovers_of_a_killed_session_are_deleted_by_the_next() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    bucket.set_faults(slow());
    // Below what is staged.
    machine.history.add(vec![1; 190]);
    until(&uploader, |status| {
        (1..=100).contains(&status.backlog_bytes)
    })
    .await;
    drop(uploader);
    machine.history.merge(5);
    bucket.set_faults(Faults::default());
    let runs = machine.history.runs();
    let uploader = machine.start(&store, options());
    until_copied(&uploader, &store, &machine.history).await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_mins(2)).await;
        machine.history.add(Vec::new());
        until_copied(&uploader, &store, &machine.history).await;
    }
    let parts: usize = runs.values().map(|run| run.len().div_ceil(64).max(1)).sum();
    assert_eq!(run_objects(&bucket), parts + 3);
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn after_a_take_over_the_runs_of_the_old_owner_are_deleted() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (_old, uploader) = Machine::copied(&store).await;
    drop(uploader);
    let new = Machine::new();
    new.history.add(vec![2; 20]);
    let uploader = new.start(&store, taking_over());
    until_copied(&uploader, &store, &new.history).await;
    assert!(
        run_objects(&bucket) > 5,
        "the old copy is kept for its time"
    );
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_mins(2)).await;
        new.history.add(Vec::new());
        until_copied(&uploader, &store, &new.history).await;
    }
    assert_eq!(run_objects(&bucket), 4);
    assert_eq!(downloaded(&store).await, new.history.runs());
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn what_belongs_to_no_predecessor_is_left_alone() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let foreign = [
        "nodes/1/runs/00000000000000aa/0000000000000000-000000000000000000000000000000bb/0000000000000001.run",
        "nodes/1/runs/notes.txt",
        "nodes/1/other/0000000000000001.run",
        "nodes/2/manifests/0000000000000001",
    ];
    for key in foreign {
        let put = http::Request::put(format!("http://bucket.test/backups/{key}"));
        let put = put.body(bytes::Bytes::from_static(b"foreign")).unwrap();
        bucket.answer(put).await.unwrap();
    }
    let machine = Machine::with_runs();
    let uploader = machine.start(&store, options());
    for _ in 0..4 {
        machine.history.add(Vec::new());
        until_copied(&uploader, &store, &machine.history).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
    }
    for key in foreign {
        assert!(bucket.objects().contains_key(key), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_later_session_uploads_is_no_leftover() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let machine = Machine::new();
    for _ in 0..20 {
        machine.history.add(vec![1; 60]);
    }
    let options = Options {
        stage: u64::MAX,
        ..options()
    };
    let uploader = machine.start(&store, options.clone());
    until_copied(&uploader, &store, &machine.history).await;
    drop(uploader);
    // A new session publishes, and looks for leftovers while a copy of its directory, which may continue from there, uploads.
    bucket.set_page(1);
    bucket.set_faults(slow());
    machine.history.add(vec![2; 60]);
    let uploader = machine.start(&store, options.clone());
    let before = judge.manifests();
    while judge.manifests() == before {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let copy = machine.copy();
    for _ in 0..100 {
        copy.history.add(vec![3; 60]);
    }
    let other = copy.start(&store, options);
    until_copied(&other, &store, &copy.history).await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(uploader.status().published.is_some());
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_store_in_which_nothing_may_be_deleted_has_complete_copies() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    bucket.set_faults(Faults {
        undeletable: true,
        ..Faults::default()
    });
    assert!(!Probe::run(&store).await.unwrap().deletes);
    let machine = Machine::with_runs();
    let uploader = machine.start(&store, options());
    for _ in 0..3 {
        machine.history.merge(2);
        until_copied(&uploader, &store, &machine.history).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
    }
    let undeleted = uploader.status().undeleted.unwrap();
    assert!(undeleted.contains("AccessDenied"), "{undeleted}");
    let before = run_objects(&bucket);
    bucket.set_faults(Faults::default());
    for _ in 0..2 {
        machine.history.add(Vec::new());
        until_copied(&uploader, &store, &machine.history).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
    }
    assert_eq!(uploader.status().undeleted, None);
    assert!(run_objects(&bucket) < before);
    judge.assert_content(&bucket);
}
