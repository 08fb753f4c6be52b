use std::time::Duration;

use abide_history::{Error, Options, Uploader};
use abide_s3::{Bucket, Faults};

use crate::{
    judge::{Judge, manifests},
    machine::{Machine, downloaded, options, slow, taking_over, unreachable, until, until_copied},
    net::store,
};

#[tokio::test(start_paused = true)]
async fn another_directory_is_refused_until_it_takes_over() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (first, old) = Machine::copied(&store).await;

    let second = Machine::with_runs();
    second.history.add(vec![9; 90]);
    let error = Uploader::check(&store, second.dir.path(), &*second.history, &options())
        .await
        .unwrap_err();
    assert!(error.is_refusal());
    assert!(error.to_string().contains("take-over"), "{error}");
    let refused = second.start(&store, options());
    let status = until(&refused, |status| status.superseded.is_some()).await;
    assert!(status.published.is_none());

    Uploader::check(&store, second.dir.path(), &*second.history, &taking_over())
        .await
        .unwrap();
    let new = second.start(&store, taking_over());
    until_copied(&new, &store, &second.history).await;

    first.history.add(vec![8; 80]);
    let status = until(&old, |status| status.superseded.is_some()).await;
    assert!(status.superseded.unwrap().contains("was taken over"));
    let before = bucket.counts();
    first.history.add(vec![8; 80]);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(bucket.counts(), before, "it stops for good");
    drop(old);
    let again = first.start(&store, options());
    until(&again, |status| status.superseded.is_some()).await;
    assert_eq!(downloaded(&store).await, second.history.runs());
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_directory_is_refused_once_the_original_continued() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (original, uploader) = Machine::copied(&store).await;
    let copy = original.copy();
    original.history.add(b"more".to_vec());
    until_copied(&uploader, &store, &original.history).await;
    let error = Uploader::check(&store, copy.dir.path(), &*copy.history, &options()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Owned(_)), "{error}");
    assert!(
        error.to_string().contains("copy of this data directory"),
        "{error}"
    );
    drop(uploader);
    let uploader = original.start(&store, options());
    original.history.add(b"more".to_vec());
    until_copied(&uploader, &store, &original.history).await;
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn of_two_copies_that_run_at_once_one_stops() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (original, uploader) = Machine::copied(&store).await;
    let copy = original.copy();
    let other = copy.start(&store, options());
    until(&other, |status| status.published.is_some()).await;
    copy.history.add(b"of the copy".to_vec());
    until_copied(&other, &store, &copy.history).await;
    original.history.add(b"of the original".to_vec());
    until(&uploader, |status| status.superseded.is_some()).await;
    assert_eq!(downloaded(&store).await, copy.history.runs());
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn two_new_nodes_at_one_place_notice_each_other_at_once() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    bucket.set_faults(slow());
    let machines = [Machine::new(), Machine::new()];
    for machine in &machines {
        for _ in 0..100 {
            machine.history.add(vec![1; 200]);
        }
    }
    let options = Options {
        stage: u64::MAX,
        ..options()
    };
    let start = |machine: &Machine| machine.start(&store, options.clone());
    let uploaders = machines.each_ref().map(start);
    let started = tokio::time::Instant::now();
    tokio::select! {
        _ = until(&uploaders[0], |status| status.superseded.is_some()) => {}
        _ = until(&uploaders[1], |status| status.superseded.is_some()) => {}
    }
    assert!(started.elapsed() < Duration::from_secs(20));
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_restored_directory_uploads_its_runs_only_once() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (_lost, uploader) = Machine::copied(&store).await;
    drop(uploader);
    let restored = Machine::restored(&store).await;
    restored.history.add(vec![3; 30]);
    let before = bucket.counts().puts;
    let uploader = restored.start(&store, taking_over());
    until_copied(&uploader, &store, &restored.history).await;
    // The beginning in the tail, the claim, the run, the manifest.
    assert_eq!(bucket.counts().puts - before, 4);
    drop(uploader);
    // It is the owner now, and needs not take over again.
    restored.history.add(vec![4; 40]);
    let uploader = restored.start(&store, options());
    until_copied(&uploader, &store, &restored.history).await;
    assert_eq!(downloaded(&store).await, restored.history.runs());
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn runs_of_another_under_the_same_numbers_are_not_taken_for_its_own() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let first = Machine::new();
    let second = Machine::new();
    for byte in 0..20 {
        first.history.add(vec![byte; 100]);
        second.history.add(vec![byte + (byte % 2) * 100; 100]);
    }
    let old = first.start(&store, options());
    until_copied(&old, &store, &first.history).await;
    drop(old);
    // It is interrupted between its claim and its copy.
    bucket.set_faults(slow());
    let new = second.start(&store, taking_over());
    until(&new, |status| (1..=8).contains(&status.backlog_runs)).await;
    drop(new);
    bucket.set_faults(Faults::default());
    assert_eq!(downloaded(&store).await, first.history.runs());
    let new = second.start(&store, options());
    until_copied(&new, &store, &second.history).await;
    assert_eq!(downloaded(&store).await, second.history.runs());
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_node_without_its_store_starts_and_checks_before_its_first_upload() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (first, _uploader) = Machine::copied(&store).await;
    bucket.set_faults(unreachable());
    let second = Machine::with_runs();
    let error = Uploader::check(&store, second.dir.path(), &*second.history, &options()).await;
    assert!(!error.unwrap_err().is_refusal());
    let other = second.start(&store, options());
    until(&other, |status| status.failing.is_some()).await;
    bucket.set_faults(Faults::default());
    let status = until(&other, |status| status.superseded.is_some()).await;
    assert!(status.failing.is_none());
    assert_eq!(downloaded(&store).await, first.history.runs());
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_conditions_still_copies_and_tells() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let faults = Faults {
        without_conditions: true,
        ..Faults::default()
    };
    bucket.set_faults(faults);
    let (machine, uploader) = Machine::copied(&store).await;
    assert_eq!(uploader.status().refuses_overwrites, Some(false));
    let other = Machine::with_runs();
    let new = other.start(&store, taking_over());
    other.history.add(vec![5; 50]);
    until_copied(&new, &store, &other.history).await;
    // One after the other, they notice each other even so.
    machine.history.add(vec![6; 60]);
    until(&uploader, |status| status.superseded.is_some()).await;
    assert_eq!(downloaded(&store).await, other.history.runs());
    assert_eq!(bucket.overwritten().len(), 1, "that of the probe");
}

#[tokio::test(start_paused = true)]
async fn a_store_without_conditions_is_not_waited_for() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    bucket.set_faults(Faults {
        without_conditions: true,
        ..Faults::default()
    });
    let machine = Machine::with_runs();
    let eager = Options {
        eager: true,
        ..options()
    };
    let error = Uploader::check(&store, machine.dir.path(), &*machine.history, &eager).await;
    let error = error.unwrap_err();
    assert!(
        error.is_refusal() && error.to_string().contains("replaces objects"),
        "{error}"
    );
    let uploader = machine.start(&store, eager);
    until(&uploader, |status| status.superseded.is_some()).await;
    assert_eq!(machine.history.is_copied(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_kill_before_the_response_leaves_an_owner() {
    for seed in 0..10 {
        let bucket = Bucket::new(seed);
        let judge = Judge::of(&bucket);
        let store = store(&bucket);
        let (machine, uploader) = Machine::copied(&store).await;
        let published = uploader.status().published.unwrap().number;
        bucket.set_faults(Faults {
            cut_after: 60,
            ..Faults::default()
        });
        machine.history.add(b"more".to_vec());
        while manifests(&bucket.objects()).all(|(number, _)| number <= published) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        drop(uploader);
        bucket.set_faults(Faults::default());
        machine.history.add(b"and more".to_vec());
        let uploader = machine.start(&store, options());
        until_copied(&uploader, &store, &machine.history).await;
        judge.assert_content(&bucket);
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_set_back_is_refused() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    let before = uploader.status().published.unwrap().number;
    machine.history.add(b"more".to_vec());
    until_copied(&uploader, &store, &machine.history).await;
    drop(uploader);
    for number in before + 1..=before + 5 {
        bucket.lose(&format!("nodes/1/manifests/{number:016x}"));
    }
    let error = Uploader::check(&store, machine.dir.path(), &*machine.history, &options()).await;
    assert!(error.unwrap_err().is_refusal());
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_slept_until_its_next_number_was_free_again_stops() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (sleeper, old) = Machine::copied(&store).await;
    let slept_at = old.status().published.unwrap().number;
    let owner = Machine::with_runs();
    let new = owner.start(&store, taking_over());
    for _ in 0..4 {
        owner.history.add(vec![1; 100]);
        until_copied(&new, &store, &owner.history).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
    }
    let objects = bucket.objects();
    assert!(manifests(&objects).all(|(number, _)| number > slept_at + 1));
    sleeper.history.merge(2);
    until(&old, |status| status.superseded.is_some()).await;
    assert_eq!(old.status().published.unwrap().number, slept_at);
    owner.history.add(vec![2; 100]);
    until_copied(&new, &store, &owner.history).await;
    assert_eq!(downloaded(&store).await, owner.history.runs());
    judge.assert_content(&bucket);
}
