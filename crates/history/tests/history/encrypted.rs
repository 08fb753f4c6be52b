//! Places whose objects are encrypted.

use std::{fs, time::Duration};

use abide_history::{CopyKey, Download, Error, Probe, Seal, Store, Uploader, list, verify};
use abide_s3::Bucket;
use bytes::Bytes;
use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305, XNonce,
    aead::{Aead as _, Payload},
};

use crate::{
    judge::Judge,
    machine::{
        Machine, downloaded, downloaded_tail, options, read_runs, taking_over, until, until_copied,
    },
    net::{KEY, encrypted, store},
    tail::until_shipped,
};

/// Decrypts an object as `docs/format.md` says, without the product's code. The object of a probe is as it was written.
pub(crate) fn opened(name: &str, stored: &Bytes) -> Result<Bytes, String> {
    if name.starts_with("probes/") {
        return Ok(stored.clone());
    }
    let (header, blocks) = stored.split_at_checked(36).ok_or("too short")?;
    if header[..12] != *b"abidciph\x01\0\0\0" {
        return Err(format!("{name} is not encrypted"));
    }
    let cipher = XChaCha20Poly1305::new(&KEY.into());
    let mut content = Vec::new();
    let mut blocks = blocks.chunks(24 + 65_536 + 16).enumerate().peekable();
    while let Some((number, block)) = blocks.next() {
        let mut aad = header.to_vec();
        aad.extend(u64::try_from(number).unwrap().to_le_bytes());
        aad.push(u8::from(blocks.peek().is_none()));
        aad.extend(name.as_bytes());
        let (nonce, msg) = block.split_first_chunk::<24>().ok_or("a short block")?;
        let payload = Payload { msg, aad: &aad };
        let block = cipher.decrypt(&XNonce::from(*nonce), payload);
        content.extend(block.map_err(|_| format!("block {number} of {name}"))?);
    }
    Ok(content.into())
}

fn other(bucket: &Bucket) -> Store {
    store(bucket).with_key(CopyKey::new(&[8; 32]))
}

/// A place with a copy and a tail, and the machine of it.
async fn shipped(store: &Store) -> (Machine, Uploader) {
    let (machine, uploader) = Machine::copied(store).await;
    machine.history.commit(b"a commit that is shipped");
    until_shipped(&machine).await;
    (machine, uploader)
}

/// What every way into a place says.
async fn refusals(store: &Store) -> Vec<Error> {
    let machine = Machine::with_runs();
    let dir = machine.dir.path();
    let mut refusals = vec![
        verify(store, |_, _| {}).await.unwrap_err(),
        list(store, 20).await.unwrap_err(),
        Download::find(store, None).await.unwrap_err(),
        Download::newer_than(store, 0).await.unwrap_err(),
        Seal::make(store).await.unwrap_err(),
    ];
    for options in [options(), taking_over()] {
        let checked = Uploader::check(store, dir, &*machine.history, &options).await;
        refusals.push(checked.unwrap_err());
        // Nor does it start without a check.
        let uploader = machine.start(store, options);
        let status = until(&uploader, |status| status.superseded.is_some()).await;
        assert!(status.published.is_none());
        refusals.push(Error::Configuration(status.superseded.unwrap()));
    }
    refusals
}

/// Everything of a place is refused with some words, and nothing in it changes.
async fn assert_refused(bucket: &Bucket, store: &Store, words: &[&str]) {
    let before = bucket.objects();
    for error in refusals(store).await {
        assert!(error.is_refusal(), "{error:?}");
        let error = error.to_string();
        for word in words {
            assert!(error.contains(word), "{error}");
        }
    }
    assert!(bucket.objects() == before, "the place has changed");
}

#[tokio::test(start_paused = true)]
async fn an_encrypted_copy_is_restored_with_its_tail() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = encrypted(&bucket);
    let (machine, uploader) = shipped(&store).await;
    machine.history.add(vec![3; 3000]);
    until_copied(&uploader, &store, &machine.history).await;
    machine.history.commit(b"shipped later");
    until_shipped(&machine).await;
    assert_eq!(downloaded(&store).await, machine.history.runs());
    let (_, tail) = downloaded_tail(&store).await;
    assert!(tail.ends_with(b"shipped later"));
    let verified = verify(&store, |_, _| {}).await.unwrap();
    assert_eq!(verified.tail.bytes, tail.len() as u64);
    let listed = list(&store, 1).await.unwrap();
    assert_eq!(
        listed[0].as_ref().unwrap().runs,
        machine.history.runs().len() as u64
    );
    drop(uploader);
    let restored = Machine::continued(&store).await;
    let uploader = restored.start(&store, options());
    until_copied(&uploader, &store, &restored.history).await;
    assert!(judge.manifests() > 2);
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn nothing_of_what_was_written_can_be_read_in_the_store() {
    const SECRET: &[u8] = b"the text of ada's message";
    let hidden = |bucket: &Bucket, words: &[&[u8]]| {
        let objects = bucket.objects();
        assert!(objects.keys().any(|key| key.contains("/tail/")));
        assert!(objects.keys().any(|key| key.contains("/runs/")));
        let has = |word: &&[u8]| {
            let mut bytes = objects.values();
            bytes.any(|bytes| bytes.windows(word.len()).any(|at| at == *word))
        };
        words.iter().filter(|word| has(word)).count() == 0
    };
    // Of manifests, of pieces, and of runs.
    let words: &[&[u8]] = &[b"session", b"abidtail", SECRET];
    for (is_encrypted, store) in [(true, encrypted as fn(&Bucket) -> Store), (false, store)] {
        let bucket = Bucket::new(1);
        let store = store(&bucket);
        let (machine, uploader) = Machine::copied(&store).await;
        machine.history.commit(SECRET);
        until_shipped(&machine).await;
        machine.history.add([SECRET, &[0; 9]].concat());
        until_copied(&uploader, &store, &machine.history).await;
        assert_eq!(hidden(&bucket, words), is_encrypted);
        if is_encrypted {
            for (name, bytes) in bucket.objects() {
                assert!(bytes.starts_with(b"abidciph"), "{name}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_key_is_refused_and_changes_nothing() {
    let bucket = Bucket::new(1);
    let (_machine, uploader) = shipped(&encrypted(&bucket)).await;
    drop(uploader);
    assert_refused(&bucket, &other(&bucket), &["another key", "has the id"]).await;
}

#[tokio::test(start_paused = true)]
async fn no_key_is_refused_and_changes_nothing() {
    let bucket = Bucket::new(1);
    let (_machine, uploader) = shipped(&encrypted(&bucket)).await;
    drop(uploader);
    let words = ["is encrypted", "archive.key_file", "--key-file"];
    assert_refused(&bucket, &store(&bucket), &words).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_for_a_place_without_one_is_refused_and_changes_nothing() {
    let bucket = Bucket::new(1);
    let (_machine, uploader) = shipped(&store(&bucket)).await;
    drop(uploader);
    let words = ["is not encrypted", "new place", "archive.key_file"];
    assert_refused(&bucket, &encrypted(&bucket), &words).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_key_was_changed_does_not_continue() {
    let bucket = Bucket::new(1);
    let (machine, uploader) = shipped(&encrypted(&bucket)).await;
    drop(uploader);
    let before = bucket.objects();
    machine.history.add(vec![1; 100]);
    for store in [other(&bucket), store(&bucket)] {
        let checked =
            Uploader::check(&store, machine.dir.path(), &*machine.history, &options()).await;
        assert!(checked.unwrap_err().is_refusal());
        let refused = machine.start(&store, options());
        until(&refused, |status| status.superseded.is_some()).await;
    }
    assert!(bucket.objects() == before);
    // The right key continues.
    let store = encrypted(&bucket);
    let uploader = machine.start(&store, options());
    until_copied(&uploader, &store, &machine.history).await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_exchanged_in_the_store_are_found() {
    let bucket = Bucket::new(1);
    let store = encrypted(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    // The same content, so that no checksum of it tells.
    machine.history.add(vec![5; 128]);
    until_copied(&uploader, &store, &machine.history).await;
    drop(uploader);
    let objects = bucket.objects();
    let is_part = |key: &&String| key.contains("/runs/") && key.ends_with(".run.0000");
    let first = objects.keys().rfind(is_part).unwrap();
    let second = first.replace(".run.0000", ".run.0001");
    verify(&store, |_, _| {}).await.unwrap();
    for (from, to) in [(first, &second), (&second, first)] {
        bucket.damage(to, |bytes| *bytes = objects[from].to_vec());
        let error = verify(&store, |_, _| {}).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        bucket.damage(to, |bytes| *bytes = objects[to].to_vec());
    }
    verify(&store, |_, _| {}).await.unwrap();
    // An older manifest in place of the newest, and a byte of the newest.
    let manifests = objects.keys().filter(|key| key.contains("/manifests/"));
    let [.., before, newest] = &manifests.collect::<Vec<_>>()[..] else {
        panic!()
    };
    bucket.damage(newest, |bytes| *bytes = objects[*before].to_vec());
    let error = verify(&store, |_, _| {}).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    for byte in 0..objects[*newest].len() {
        bucket.damage(newest, |bytes| {
            *bytes = objects[*newest].to_vec();
            bytes[byte] ^= 1;
        });
        assert!(verify(&store, |_, _| {}).await.is_err(), "byte {byte}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_download_of_encrypted_runs_continues_within_a_part() {
    let bucket = Bucket::new(1);
    let store = encrypted(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    drop(uploader);
    machine
        .history
        .add((0..900_000_u32).map(|at| (at % 251) as u8).collect());
    let large = abide_history::Options {
        part: 400_000,
        ..options()
    };
    let uploader = machine.start(&store, large);
    until_copied(&uploader, &store, &machine.history).await;
    let runs = machine.history.runs();
    let (number, run) = runs.last_key_value().unwrap();
    for length in [1, 65_536, 65_537, 399_999, 400_000, 500_000, 899_999] {
        let dir = tempfile::tempdir().unwrap();
        let part = format!("{number:016x}.run.part");
        fs::write(dir.path().join(part), &run[..length]).unwrap();
        let before = store.traffic().received;
        let download = Download::find(&store, None).await.unwrap();
        download.save(dir.path(), |_, _| {}).await.unwrap();
        assert_eq!(read_runs(dir.path()), runs);
        let received = store.traffic().received - before;
        let rest = (run.len() - length) as u64;
        assert!(
            received < rest + 2 * 65_576 + 10_000,
            "{received} for {rest}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_and_an_empty_place_need_no_key() {
    let bucket = Bucket::new(1);
    for store in [encrypted(&bucket), other(&bucket), store(&bucket)] {
        let probe = Probe::run(&store).await.unwrap();
        assert!(probe.refuses_overwrites && probe.deletes);
        let error = Download::find(&store, None).await.unwrap_err();
        assert!(matches!(error, Error::NoHistory(_)), "{error}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(bucket.objects().is_empty());
}
