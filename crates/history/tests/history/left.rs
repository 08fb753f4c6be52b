//! Runs that are in the store alone: a lazy restore has left them there, or they have left the disk once they were copied.

use std::{fs, time::Duration};

use abide_history::{Download, Store, StoredRun, verify_run};
use abide_s3::{Bucket, Faults, Random};
use tokio::time::sleep;

use crate::{
    judge::Judge,
    lives::{each_seed, faults, pass, some_options},
    machine::{Machine, downloaded, options, read_runs, taking_over, until, until_copied},
    net::{some_store, store},
};

/// Each of them is in the store.
async fn must_be_there(store: &Store, left: &[StoredRun]) {
    for run in left {
        let read = verify_run(store, run, |_| {}).await;
        read.unwrap_or_else(|error| panic!("run {}: {error}", run.number));
    }
}

#[tokio::test(start_paused = true)]
async fn runs_left_in_the_store_are_listed_and_not_uploaded() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (_lost, uploader) = Machine::copied(&store).await;
    drop(uploader);
    let restored = Machine::continued_from_afar(&store).await;
    let left = restored.history.left();
    assert_eq!(left.len(), 4);
    restored.history.add(vec![3; 30]);
    let before = bucket.counts().puts;
    let uploader = restored.start(&store, options());
    until_copied(&uploader, &store, &restored.history).await;
    // The beginning in the tail, the claim, the run, the manifest.
    assert_eq!(bucket.counts().puts - before, 4);
    for _ in 0..3 {
        sleep(Duration::from_mins(2)).await;
        restored.history.add(vec![4; 40]);
        until_copied(&uploader, &store, &restored.history).await;
        must_be_there(&store, &left).await;
    }
    assert_eq!(downloaded(&store).await, restored.history.runs());
    // Once they are merged, they are deleted like others.
    restored.history.merge(5);
    until_copied(&uploader, &store, &restored.history).await;
    must_be_there(&store, &left).await;
    for _ in 0..2 {
        sleep(Duration::from_mins(2)).await;
        restored.history.add(vec![5; 50]);
        until_copied(&uploader, &store, &restored.history).await;
    }
    let objects = bucket.objects();
    for run in left {
        let is_there = objects.keys().any(|key| key.contains(&run.key));
        assert!(!is_there, "{}", run.key);
    }
    assert_eq!(downloaded(&store).await, restored.history.runs());
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn runs_that_have_left_the_disk_stay_in_the_store() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, mut uploader) = Machine::copied(&store).await;
    machine.history.leave_all();
    let left = machine.history.left();
    assert_eq!(left.len(), 4);
    for _ in 0..3 {
        until_copied(&uploader, &store, &machine.history).await;
        sleep(Duration::from_mins(2)).await;
        machine.history.add(vec![4; 40]);
        // The next session knows it from the manifest.
        drop(uploader);
        uploader = machine.start(&store, options());
    }
    until_copied(&uploader, &store, &machine.history).await;
    must_be_there(&store, &left).await;
    assert_eq!(downloaded(&store).await, machine.history.runs());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_downloaded_before_is_not_left_in_the_store() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    let dir = tempfile::tempdir().unwrap();
    let first = Download::find(&store, None).await.unwrap();
    first.save(dir.path(), |_, _| {}).await.unwrap();
    let held = read_runs(dir.path());
    machine.history.add(vec![9; 70]);
    until_copied(&uploader, &store, &machine.history).await;
    // What an interrupted restore has left.
    fs::write(dir.path().join("0000000000000005.run"), b"other").unwrap();
    fs::write(dir.path().join("0000000000000006.run.part"), b"other").unwrap();
    let newest = Download::find(&store, None).await.unwrap();
    let left = newest.leave(dir.path()).await.unwrap();
    let numbers: Vec<u64> = left.iter().map(|run| run.number).collect();
    assert_eq!(numbers, [5]);
    assert_eq!(read_runs(dir.path()), held);
}

#[tokio::test(start_paused = true)]
async fn another_store_is_not_said_to_have_what_it_does_not_have() {
    let [bucket, other] = [1, 2].map(Bucket::new);
    let (_lost, uploader) = Machine::copied(&store(&bucket)).await;
    drop(uploader);
    let restored = Machine::continued_from_afar(&store(&bucket)).await;
    let uploader = restored.start(&store(&other), options());
    let status = until(&uploader, |status| status.failing.is_some()).await;
    let why = status.failing.unwrap().error;
    assert!(why.contains("set archive.url to that store"), "{why}");
    assert_eq!(status.published, None);
    drop(uploader);
    let uploader = restored.start(&store(&bucket), taking_over());
    until_copied(&uploader, &store(&bucket), &restored.history).await;
}

/// Machines are lost one after the other, and each next one has the runs in the store alone.
async fn live(seed: u64) {
    let mut random = Random(seed);
    let bucket = Bucket::new(random.draw());
    let judge = Judge::of(&bucket);
    let store = some_store(&bucket, seed);
    let mut machine = Machine::new();
    machine.history.add(vec![1; 20]);
    let mut uploader = machine.start(&store, some_options(&mut random, false));
    until_copied(&uploader, &store, &machine.history).await;
    for _ in 0..4 {
        for _ in 0..15 {
            match random.below(11) {
                0..5 => machine.history.live(&mut random),
                10 => machine.history.move_runs(&mut random),
                5 => bucket.set_faults(faults(&mut random)),
                6 => {
                    drop(uploader);
                    uploader = machine.start(&store, some_options(&mut random, false));
                }
                _ => pass(&mut random).await,
            }
        }
        bucket.set_faults(Faults::default());
        bucket.settle();
        must_be_there(&store, &machine.history.left()).await;
        if random.percent(50) {
            until_copied(&uploader, &store, &machine.history).await;
            must_be_there(&store, &machine.history.left()).await;
        }
        // Some are not gone, but only thought to be.
        let lost = (machine, uploader);
        let is_gone = random.percent(50);
        let lost = (!is_gone).then_some(lost);
        machine = Machine::continued_from_afar(&store).await;
        uploader = machine.start(&store, some_options(&mut random, false));
        if let Some((lost, of_lost)) = lost {
            // It notices with the next thing that it has to copy.
            lost.history.add(vec![7; 70]);
            until(&of_lost, |status| status.superseded.is_some()).await;
        }
    }
    until_copied(&uploader, &store, &machine.history).await;
    machine.history.live(&mut random);
    until_copied(&uploader, &store, &machine.history).await;
    must_be_there(&store, &machine.history.left()).await;
    assert_eq!(downloaded(&store).await, machine.history.runs());
    judge.assert_content(&bucket);
}

#[test]
fn random_owners_keep_what_is_left_in_the_store() {
    each_seed(live);
}
