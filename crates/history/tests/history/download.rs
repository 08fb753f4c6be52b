use std::{cell::RefCell, fs, time::Duration};

use abide_history::{Download, Error, Listed, Store, list, verify};
use abide_s3::{Bucket, Faults};

use crate::{
    judge::manifests,
    machine::{Machine, content, read_runs, unreachable, until_copied},
    net::store,
    tail::until_shipped,
};

async fn copied(bucket: &Bucket) -> (Machine, Store) {
    let store = store(bucket);
    let (machine, _uploader) = Machine::copied(&store).await;
    machine.history.commit(b"what the runs do not have");
    until_shipped(&machine).await;
    (machine, store)
}

#[tokio::test(start_paused = true)]
async fn one_flipped_bit_of_any_object_is_found() {
    let bucket = Bucket::new(1);
    let (_machine, store) = copied(&bucket).await;
    verify(&store, |_, _| {}).await.unwrap();
    let objects = bucket.objects();
    let newest = manifests(&objects).next_back().unwrap().0;
    for (key, bytes) in objects {
        let is_old = key.contains("/manifests/") && !key.ends_with(&format!("{newest:016x}"));
        // It says only that a session begins.
        let begins = key.ends_with("/tail/0000000000000001");
        if bytes.is_empty() || is_old || begins {
            continue;
        }
        // A digit of a manifest that is still a digit when its lowest bit is flipped.
        let text = String::from_utf8_lossy(&bytes);
        let digit = text.split_once("\"unix_millis\":");
        let digit = digit.map(|(_, rest)| (bytes.len() - rest.len()) * 8);
        let others = [0, bytes.len() * 4, bytes.len() * 8 - 1];
        for bit in others.into_iter().chain(digit) {
            let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
            bucket.damage(&key, flip);
            let error = verify(&store, |_, _| {}).await.unwrap_err();
            let name = &key["nodes/1/".len()..];
            let name = name.split(".run.").next().unwrap();
            assert!(matches!(error, Error::Damaged { .. }), "{key}: {error}");
            assert!(error.to_string().contains(name), "{key}: {error}");
            let dir = tempfile::tempdir().unwrap();
            let download = async {
                let download = Download::find(&store, None).await?;
                download.save(dir.path(), |_, _| {}).await?;
                download.save_tail(&dir.path().join("tail")).await
            };
            assert!(download.await.is_err(), "{key}");
            bucket.damage(&key, flip);
        }
        let cut = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1);
        bucket.damage(&key, cut);
        assert!(verify(&store, |_, _| {}).await.is_err(), "{key} cut");
        bucket.damage(&key, |there| *there = bytes.to_vec());
    }
    verify(&store, |_, _| {}).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_named() {
    let bucket = Bucket::new(1);
    let (_machine, store) = copied(&bucket).await;
    let objects = bucket.objects();
    let key = objects.keys().find(|key| key.ends_with(".run.0001"));
    let key = key.unwrap();
    bucket.lose(key);
    let error = verify(&store, |_, _| {}).await.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
    assert!(
        error.to_string().contains(&key["nodes/1/".len()..]),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_place_and_an_unknown_manifest_are_told() {
    let bucket = Bucket::new(1);
    let empty = Download::find(&store(&bucket), None).await.unwrap_err();
    assert!(empty.to_string().contains("no history"), "{empty}");
    let (_machine, store) = copied(&bucket).await;
    let unknown = Download::find(&store, Some(77)).await.unwrap_err();
    assert!(unknown.to_string().contains("no manifest 77"), "{unknown}");
}

#[tokio::test(start_paused = true)]
async fn a_download_continues_where_it_ended() {
    let bucket = Bucket::new(1);
    let (machine, store) = copied(&bucket).await;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    // A whole file, one that is damaged, and unfinished ones: right, too long, and wrong.
    let runs = machine.history.runs();
    fs::write(file("0000000000000001.run"), &runs[&1]).unwrap();
    fs::write(file("0000000000000004.run"), vec![9; 100]).unwrap();
    fs::write(file("0000000000000002.run.part"), &runs[&2][..100]).unwrap();
    let before = bucket.counts().gets;
    let progress = RefCell::new(Vec::new());
    let download = Download::find(&store, None).await.unwrap();
    let told = |done, total| progress.borrow_mut().push((done, total));
    download.save(dir.path(), told).await.unwrap();
    assert_eq!(read_runs(dir.path()), runs);
    // The manifest, three parts of the second run's four, two of the fourth; the third is empty.
    assert_eq!(bucket.counts().gets - before, 1 + 3 + 2);
    let progress = progress.into_inner();
    assert_eq!(progress.last(), Some(&(360, 360)));
    assert!(progress.is_sorted());

    fs::remove_file(file("0000000000000002.run")).unwrap();
    fs::write(file("0000000000000002.run.part"), vec![9; 100]).unwrap();
    fs::remove_file(file("0000000000000004.run")).unwrap();
    fs::write(file("0000000000000004.run.part"), vec![9; 101]).unwrap();
    download.save(dir.path(), |_, _| {}).await.unwrap();
    assert_eq!(read_runs(dir.path()), runs);
    let files = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, runs.len() + 1, "and what says that they are whole");

    // Those are not read again, and what a later copy does not have is removed.
    let before = bucket.counts().gets;
    fs::write(file("0000000000000077.run"), vec![9; 10]).unwrap();
    fs::write(file("0000000000000078.run.part"), vec![9; 10]).unwrap();
    fs::write(file("0000000000000001.run"), vec![9; runs[&1].len()]).unwrap();
    download.save(dir.path(), |_, _| {}).await.unwrap();
    assert_eq!(bucket.counts().gets, before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), files);
    assert_ne!(read_runs(dir.path()), runs, "it relies on that");
}

#[tokio::test(start_paused = true)]
async fn a_newer_copy_is_found_with_one_request_if_there_is_none() {
    let bucket = Bucket::new(1);
    let (_machine, store) = copied(&bucket).await;
    let newest = Download::find(&store, None)
        .await
        .unwrap()
        .manifest()
        .number;
    let before = bucket.counts().gets;
    let newer = Download::newer_than(&store, newest).await.unwrap();
    assert!(newer.is_none());
    assert_eq!(bucket.counts().gets - before, 1);
    let newer = Download::newer_than(&store, newest - 1).await.unwrap();
    assert_eq!(newer.unwrap().manifest().number, newest);
}

#[tokio::test(start_paused = true)]
async fn a_download_survives_an_unsteady_store() {
    let bucket = Bucket::new(3);
    let (machine, store) = copied(&bucket).await;
    bucket.set_faults(Faults {
        cut_after: 15,
        slow_down: 10,
        slow: 20,
        delay: Duration::from_secs(2),
        ..Faults::default()
    });
    let dir = tempfile::tempdir().unwrap();
    let download = Download::find(&store, None).await.unwrap();
    download.save(dir.path(), |_, _| {}).await.unwrap();
    assert_eq!(read_runs(dir.path()), machine.history.runs());
    bucket.set_faults(unreachable());
    let dir = tempfile::tempdir().unwrap();
    let error = download.save(dir.path(), |_, _| {}).await.unwrap_err();
    assert!(matches!(error, Error::Store { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_earlier_manifest_can_be_downloaded_and_all_are_listed() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    let (first, runs) = (uploader.status().published.unwrap(), machine.history.runs());
    machine.history.merge(4);
    until_copied(&uploader, &store, &machine.history).await;
    let download = Download::find(&store, Some(first.number)).await.unwrap();
    let said = download.manifest().content.clone().unwrap();
    assert_eq!(said, content(&runs).into_bytes());
    let dir = tempfile::tempdir().unwrap();
    download.save(dir.path(), |_, _| {}).await.unwrap();
    assert_eq!(read_runs(dir.path()), runs);
    let readable = async |limit| -> Vec<Listed> {
        let listed = list(&store, limit).await.unwrap().into_iter();
        listed.map(Result::unwrap).collect()
    };
    let listed = readable(2).await;
    let numbers: Vec<_> = listed.iter().map(|listed| listed.number).collect();
    assert_eq!(numbers, [first.number + 1, first.number]);
    assert_eq!((listed[1].runs, listed[1].bytes), (4, 360));
    let all = readable(100).await;
    assert_eq!(all.last().unwrap().content, None, "the claim");
    // One that is damaged does not hide the others.
    let newest = manifests(&bucket.objects()).next_back().unwrap().0;
    bucket.damage(&format!("nodes/1/manifests/{newest:016x}"), Vec::clear);
    let listed = list(&store, 2).await.unwrap();
    assert!(listed[0].is_err());
    assert_eq!(listed[1].as_ref().unwrap().number, first.number);
}
