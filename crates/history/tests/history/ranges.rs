use abide_history::{Download, Error, Manifest, Ranges, Store, StoredRun};
use abide_s3::{Bucket, Faults, Random};

use crate::{
    machine::{Machine, options, until_copied},
    net::store,
};

/// A machine with a long run, in parts of a length that is no multiple of anything.
async fn copied(bucket: &Bucket, bytes: &[u8]) -> (Store, StoredRun) {
    copied_in_parts(bucket, bytes, 100_003).await
}

async fn copied_in_parts(bucket: &Bucket, bytes: &[u8], part: u64) -> (Store, StoredRun) {
    let store = store(bucket);
    let machine = Machine::with_runs();
    machine.history.add(bytes.to_vec());
    let options = abide_history::Options { part, ..options() };
    let uploader = machine.start(&store, options);
    until_copied(&uploader, &store, &machine.history).await;
    let download = Download::find(&store, None).await.unwrap();
    let Manifest { runs, .. } = download.manifest();
    let run = runs.iter().max_by_key(|run| run.bytes).unwrap().clone();
    (store, run)
}

fn content(length: u32) -> Vec<u8> {
    (0..length)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn any_range_of_a_run_reads_as_it_was_written() {
    let bucket = Bucket::new(1);
    let written = content(1_300_000);
    let (store, run) = copied(&bucket, &written).await;
    let ranges = Ranges::new(&store);
    let mut random = Random(7);
    for _ in 0..300 {
        let from = random.below(written.len() as u64 + 1);
        let most = [1, 64, 5_000, 600_000][random.below(4) as usize];
        let to = (from + random.below(most + 1)).min(written.len() as u64);
        let read = ranges.read(&run, from..to).await.unwrap();
        assert!(
            read == written[from as usize..to as usize],
            "{from}..{to} differs"
        );
    }
    let beyond = ranges.read(&run, 5..run.bytes + 1).await;
    assert!(matches!(beyond, Err(Error::Damaged { .. })));
    // Each part of each block once: what was read is kept.
    let asked = bucket.counts();
    ranges.read(&run, 0..run.bytes).await.unwrap();
    assert_eq!(bucket.counts(), asked);
    ranges.forget();
    assert_eq!(ranges.kept(), 0);
    ranges.read(&run, 0..run.bytes).await.unwrap();
    assert_ne!(bucket.counts(), asked);
}

#[tokio::test(start_paused = true)]
async fn ranges_that_are_kept_have_a_bound() {
    let bucket = Bucket::new(1);
    let written = content(80 << 20);
    let (store, run) = copied(&bucket, &written).await;
    let ranges = Ranges::new(&store);
    let mut most = 0;
    for from in (0..run.bytes).step_by(250 << 10) {
        let to = (from + 10).min(run.bytes);
        let read = ranges.read(&run, from..to).await.unwrap();
        assert_eq!(read, written[from as usize..to as usize]);
        assert!(ranges.kept() <= 64 << 20, "{}", ranges.kept());
        most = ranges.kept().max(most);
    }
    assert!(most > 63 << 20, "{most}");
    // What was used last is kept.
    let asked = bucket.counts();
    ranges.read(&run, run.bytes - 10..run.bytes).await.unwrap();
    assert_eq!(bucket.counts(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_long_range_and_the_end_of_a_run_need_one_request_each() {
    let bucket = Bucket::new(1);
    let written = content(5_000_000);
    let (store, run) = copied_in_parts(&bucket, &written, 64 << 20).await;
    let ranges = Ranges::new(&store);
    let gets = || bucket.counts().gets;
    let before = gets();
    // The last block is a short one.
    for from in [run.bytes - 10, run.bytes - 100_000, run.bytes - 250_000] {
        ranges.read(&run, from..run.bytes).await.unwrap();
    }
    assert_eq!(gets() - before, 1);
    ranges.read(&run, 100..4_000_000).await.unwrap();
    assert_eq!(gets() - before, 2);
    ranges.read(&run, 100..100_000).await.unwrap();
    assert_eq!(gets() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_missing_or_shorter_is_named() {
    let bucket = Bucket::new(1);
    let written = content(300_000);
    let (store, run) = copied(&bucket, &written).await;
    let part = format!("nodes/1/{}.0001", run.key);
    let whole = bucket.objects()[&part].clone();
    for length in [0, 1, whole.len() - 1] {
        bucket.damage(&part, |bytes| bytes.truncate(length));
        let ranges = Ranges::new(&store);
        let error = ranges.read(&run, 150_000..150_001).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{length}: {error}");
        assert!(error.to_string().contains(".run.0001"), "{error}");
        bucket.damage(&part, |bytes| *bytes = whole.to_vec());
    }
    // As short as what is asked for, which begins beyond its end.
    let last = format!("nodes/1/{}.0002", run.key);
    let begin = usize::try_from(2 * run.part).unwrap();
    let block = 256 << 10;
    assert!(begin < block && block - begin > 300_000 - block, "{begin}");
    bucket.damage(&last, |bytes| bytes.truncate(300_000 - block));
    let ranges = Ranges::new(&store);
    let error = ranges.read(&run, 290_000..290_001).await.unwrap_err();
    assert!(error.to_string().contains(".run.0002"), "{error}");

    bucket.lose(&part);
    let ranges = Ranges::new(&store);
    let error = ranges.read(&run, 150_000..150_001).await.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
    let error = abide_history::verify_run(&store, &run, |_| {}).await;
    assert!(matches!(error, Err(Error::Missing { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_range_is_asked_for_again_until_the_store_answers() {
    let bucket = Bucket::new(1);
    let written = content(300_000);
    let (store, run) = copied(&bucket, &written).await;
    bucket.set_faults(Faults {
        cut_after: 10,
        cut_before: 10,
        slow_down: 10,
        ..Faults::default()
    });
    let ranges = Ranges::new(&store);
    for round in 0..20 {
        let read = ranges.read(&run, 100..250_000).await.unwrap();
        assert!(read == written[100..250_000], "round {round}");
        ranges.forget();
    }
}
