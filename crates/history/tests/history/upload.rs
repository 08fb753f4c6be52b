use std::time::Duration;

use abide_history::{Download, Error};
use abide_s3::{Bucket, Faults};

use crate::{
    judge::Judge,
    machine::{Machine, downloaded, options, slow, unreachable, until, until_copied},
    net::store,
};

#[tokio::test(start_paused = true)]
async fn a_download_equals_its_source() {
    let bucket = Bucket::new(1);
    bucket.set_page(2);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    machine.history.merge(3);
    until_copied(&uploader, &store, &machine.history).await;
    assert_eq!(downloaded(&store).await, machine.history.runs());
    judge.assert_content(&bucket);
    let traffic = uploader.traffic();
    assert_eq!(traffic.requests.puts, bucket.counts().puts);
    assert_eq!(traffic.requests.deletes, bucket.counts().deletes);
}

#[tokio::test(start_paused = true)]
async fn a_restart_uploads_only_what_is_new() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    drop(uploader);
    machine.history.add(vec![7; 20]);
    let before = bucket.counts().puts;
    let uploader = machine.start(&store, options());
    until_copied(&uploader, &store, &machine.history).await;
    // The run, the beginning in the tail, the manifest.
    assert_eq!(bucket.counts().puts - before, 3);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_was_interrupted_continues_after_a_restart() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let machine = Machine::new();
    for _ in 0..20 {
        machine.history.add(vec![1; 100]);
    }
    bucket.set_faults(slow());
    let uploader = machine.start(&store, options());
    until(&uploader, |status| (1..=10).contains(&status.backlog_runs)).await;
    drop(uploader);
    let error = Download::find(&store, None).await.unwrap_err();
    assert!(matches!(error, Error::NoHistory(_)), "{error}");
    bucket.set_faults(Faults::default());
    let before = bucket.objects();
    let uploader = machine.start(&store, options());
    until_copied(&uploader, &store, &machine.history).await;
    let new = bucket.objects().into_iter();
    let new = new.filter(|(key, _)| key.contains("/runs/") && !before.contains_key(key));
    let bytes: usize = new.map(|(_, bytes)| bytes.len()).sum();
    // Of 2,000, half of which were there.
    assert!(bytes < 1400, "{bytes}");
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_and_ends() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let machine = Machine::with_runs();
    let unreachable = unreachable();
    let expired = Faults {
        expired: true,
        ..Faults::default()
    };
    let full = Faults {
        full: true,
        ..Faults::default()
    };
    bucket.set_faults(unreachable);
    let uploader = machine.start(&store, options());
    let status = until(&uploader, |status| status.failing.is_some()).await;
    assert!(status.failing.unwrap().error.contains("was cut"));
    bucket.set_faults(Faults::default());
    until_copied(&uploader, &store, &machine.history).await;
    for (faults, word) in [(expired, "ExpiredToken"), (full, "StorageFull")] {
        bucket.set_faults(faults);
        machine.history.add(vec![1; 100]);
        let failing = until(&uploader, |status| status.failing.is_some()).await;
        assert!(failing.failing.unwrap().error.contains(word));
        assert_eq!((failing.backlog_runs, failing.backlog_bytes), (1, 100));
        let before = bucket.counts().puts;
        tokio::time::sleep(Duration::from_hours(1)).await;
        let puts = bucket.counts().puts - before;
        assert!((50..=300).contains(&puts), "{puts} in an hour");
        bucket.set_faults(Faults::default());
        until_copied(&uploader, &store, &machine.history).await;
    }
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn what_changed_while_a_response_was_lost_is_published() {
    for seed in 0..10 {
        let bucket = Bucket::new(seed);
        let judge = Judge::of(&bucket);
        let store = store(&bucket);
        let (machine, uploader) = Machine::copied(&store).await;
        let before = judge.manifests();
        bucket.set_faults(Faults {
            cut_after: 60,
            ..Faults::default()
        });
        machine.history.add(b"first".to_vec());
        while judge.manifests() == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        machine.history.merge(2);
        bucket.set_faults(Faults::default());
        until_copied(&uploader, &store, &machine.history).await;
        judge.assert_content(&bucket);
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_tell_is_asked_again() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let machine = Machine::with_runs();
    machine.history.be_silent(5);
    let uploader = machine.start(&store, options());
    until_copied(&uploader, &store, &machine.history).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_new_is_uploaded_before_the_end() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    machine.history.add(b"the last".to_vec());
    let started = tokio::time::Instant::now();
    assert!(uploader.finish(Duration::from_mins(1)).await);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(downloaded(&store).await, machine.history.runs());
    let uploader = machine.start(&store, options());
    until_copied(&uploader, &store, &machine.history).await;
    bucket.set_faults(unreachable());
    machine.history.add(b"later".to_vec());
    assert!(!uploader.finish(Duration::from_mins(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_has_changed_is_not_uploaded() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let machine = Machine::with_runs();
    let path = machine.dir.path().join("0000000000000002.run");
    std::fs::write(&path, b"short").unwrap();
    let uploader = machine.start(&store, options());
    let status = until(&uploader, |status| status.failing.is_some()).await;
    let error = status.failing.unwrap().error;
    assert!(error.contains("0000000000000002.run is damaged"), "{error}");
    assert!(status.published.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_emptied_is_noticed_and_filled_after_a_restart() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    for key in bucket.objects().keys() {
        bucket.lose(key);
    }
    machine.history.add(b"something".to_vec());
    let failing = until(&uploader, |status| status.failing.is_some()).await;
    let why = failing.failing.unwrap().error;
    assert!(why.contains("no longer there"), "{why}");
    drop(uploader);
    let uploader = machine.start(&store, options());
    until_copied(&uploader, &store, &machine.history).await;
}
