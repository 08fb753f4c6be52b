use std::time::Duration;

use abide_history::{Error, Options, Seal, Source as _, Store, Uploader, verify};
use abide_s3::{Bucket, Faults, Random};
use tokio::time::{Instant, sleep};

use crate::{
    judge::{Judge, pieces},
    machine::{
        Machine, downloaded, downloaded_tail, options, slow, taking_over, unreachable, until,
        until_copied,
    },
    net::{some_store, store},
};

/// Waits until the machine was told that all of its log is in the store.
pub(crate) async fn until_shipped(machine: &Machine) {
    let begun = Instant::now();
    let end = machine.history.end();
    while machine.history.is_copied() < end {
        assert!(begun.elapsed() < Duration::from_hours(1));
        sleep(Duration::from_millis(100)).await;
    }
}

/// Checks that a copy has a part of the log, and returns where that ends.
async fn assert_prefix(store: &Store, machine: &Machine) -> u64 {
    let (first, bytes) = downloaded_tail(store).await;
    let end = first + bytes.len() as u64;
    assert_eq!(bytes, machine.history.log(first, end));
    end
}

#[tokio::test(start_paused = true)]
async fn the_log_is_in_the_store_a_second_after_a_commit() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    for commit in 0..20_u8 {
        machine.history.commit(&[commit; 30]);
        let begun = Instant::now();
        until_shipped(&machine).await;
        assert!(begun.elapsed() < Duration::from_secs(4), "{commit}");
        assert_eq!(
            assert_prefix(&store, &machine).await,
            30 * (u64::from(commit) + 1)
        );
        if commit % 7 == 6 {
            machine.history.add(vec![commit; 100]);
            until_copied(&uploader, &store, &machine.history).await;
        }
    }
    let copied = uploader.status().copied.unwrap();
    assert_eq!(copied.position, 600);
    let verified = verify(&store, |_, _| {}).await.unwrap();
    assert_eq!((verified.tail.end, verified.tail.has_gap), (600, false));
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_waits_for_a_run_is_shipped_soon_after_it() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (machine, _uploader) = Machine::copied(&store).await;
    machine.history.commit(b"before");
    machine
        .history
        .commit_after(vec![7; 100], b"continues the run");
    let begun = Instant::now();
    until_shipped(&machine).await;
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(assert_prefix(&store, &machine).await, 23);
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_does_not_grow_makes_no_requests() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    machine.history.commit(b"a commit");
    until_shipped(&machine).await;
    sleep(Duration::from_mins(1)).await;
    let before = bucket.counts();
    sleep(Duration::from_hours(24)).await;
    assert_eq!(bucket.counts(), before);
    drop(uploader);
    let without = Options {
        ship: None,
        ..options()
    };
    let _uploader = machine.start(&store, without);
    sleep(Duration::from_mins(1)).await;
    let before = bucket.counts();
    machine.history.commit(b"another");
    sleep(Duration::from_hours(1)).await;
    assert_eq!(bucket.counts(), before, "it is not to be shipped");
}

#[tokio::test(start_paused = true)]
async fn a_restart_continues_the_tail_without_losing_what_was_shipped() {
    for seed in 0..10 {
        let bucket = Bucket::new(seed);
        let judge = Judge::of(&bucket);
        let store = store(&bucket);
        let (machine, uploader) = Machine::copied(&store).await;
        machine.history.commit(&[1; 300]);
        until_shipped(&machine).await;
        drop(uploader);
        machine.history.commit(&[2; 100]);
        bucket.set_faults(slow());
        let _uploader = machine.start(&store, options());
        let mut random = Random(seed);
        for _ in 0..30 {
            sleep(Duration::from_millis(random.below(500))).await;
            let shipped = machine.history.is_copied();
            bucket.set_faults(Faults::default());
            assert!(assert_prefix(&store, &machine).await >= shipped.max(300));
            bucket.set_faults(slow());
        }
        until_shipped(&machine).await;
        assert_eq!(assert_prefix(&store, &machine).await, 400);
        judge.assert_content(&bucket);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_session_ships_counts_once_it_has_a_manifest() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    machine.history.commit(&[1; 300]);
    until_shipped(&machine).await;
    drop(uploader);
    machine.history.commit(&[2; 100]);
    machine.history.be_silent(60);
    let _uploader = machine.start(&store, options());
    let before = pieces(&bucket.objects()).len();
    for _ in 0..20 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(machine.history.is_copied(), 300);
        assert_eq!(assert_prefix(&store, &machine).await, 300);
    }
    assert!(pieces(&bucket.objects()).len() > before + 5);
    until_shipped(&machine).await;
    assert_eq!(assert_prefix(&store, &machine).await, 400);
}

// Not on a paused clock, which stands still while a thread waits for the log.
#[tokio::test]
async fn an_eager_owner_ships_each_commit_at_once() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let eager = Options {
        eager: true,
        ship: Some(Duration::from_hours(1)),
        poll: Duration::from_millis(10),
        ..options()
    };
    let machine = Machine::with_runs();
    let uploader = machine.start(&store, eager);
    until_copied(&uploader, &store, &machine.history).await;
    machine.history.commit(b"the first waits for a manifest");
    until_shipped(&machine).await;
    for _ in 0..5 {
        machine.history.commit(b"a commit");
        let begun = Instant::now();
        until_shipped(&machine).await;
        assert!(begun.elapsed() < Duration::from_mins(1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_sealed_stops_with_its_next_commit() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    machine.history.commit(b"before");
    until_shipped(&machine).await;
    let restored = Machine::continued(&store).await;
    machine.history.commit(b"after");
    let status = until(&uploader, |status| status.superseded.is_some()).await;
    assert!(status.superseded.unwrap().contains("was taken over"));
    assert_eq!(machine.history.is_copied(), 6);
    drop(uploader);
    let error = Uploader::check(&store, machine.dir.path(), &*machine.history, &options()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Owned(_)), "{error}");
    // It needs not take over, and owns it after a restart, too.
    for _ in 0..2 {
        let uploader = restored.start(&store, options());
        restored.history.commit(b"continued");
        until_shipped(&restored).await;
        drop(uploader);
        assert_prefix(&store, &restored).await;
    }
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_sealed_owner_counts_no_manifest() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    Seal::make(&store).await.unwrap();
    let before = uploader.status().published.unwrap().number;
    machine.history.add(b"a run".to_vec());
    until(&uploader, |status| status.superseded.is_some()).await;
    assert_eq!(uploader.status().published.unwrap().number, before);
    // It was a mistake: the owner continues.
    drop(uploader);
    let uploader = machine.start(&store, taking_over());
    until_copied(&uploader, &store, &machine.history).await;
}

#[tokio::test(start_paused = true)]
async fn a_gap_in_the_log_ends_the_tail_until_the_next_copy() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let machine = Machine::with_runs();
    let seldom = Options {
        interval: Duration::from_mins(20),
        ..options()
    };
    let uploader = machine.start(&store, seldom);
    until_copied(&uploader, &store, &machine.history).await;
    machine.history.commit(&[1; 40]);
    // Its parts count only with the next copy.
    until_shipped(&machine).await;
    bucket.set_faults(unreachable());
    machine.history.commit(&[2; 100]);
    let status = until(&uploader, |status| status.not_shipping.is_some()).await;
    assert_eq!(status.copied.unwrap().position, 40);
    // The log up to here is no longer kept, and its run is not in the store.
    machine.history.add(vec![1; 500]);
    machine.history.commit(&[3; 60]);
    bucket.set_faults(Faults::default());
    sleep(Duration::from_mins(1)).await;
    // What was sent without an answer is sent again; the rest of the log is gone up to 140.
    assert_eq!(machine.history.is_copied(), 90);
    let verified = verify(&store, |_, _| {}).await.unwrap();
    assert_eq!((verified.tail.end, verified.tail.has_gap), (90, true));
    assert_eq!(assert_prefix(&store, &machine).await, 90);
    until_shipped(&machine).await;
    until(&uploader, |status| status.not_shipping.is_none()).await;
    assert_eq!(assert_prefix(&store, &machine).await, 200);
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn pieces_that_no_copy_needs_are_deleted() {
    let bucket = Bucket::new(1);
    let judge = Judge::of(&bucket);
    let store = store(&bucket);
    let (machine, uploader) = Machine::copied(&store).await;
    for round in 0..40_u8 {
        for _ in 0..10 {
            machine.history.commit(&[round; 10]);
            until_shipped(&machine).await;
        }
        machine.history.add(vec![round; 10]);
        until_copied(&uploader, &store, &machine.history).await;
        sleep(Duration::from_mins(1)).await;
    }
    // Those of ten minutes, and not the 400 of all.
    let left = pieces(&bucket.objects()).len();
    assert!((90..130).contains(&left), "{left}");
    judge.assert_content(&bucket);
}

#[tokio::test(start_paused = true)]
async fn a_lost_or_damaged_piece_is_named() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, _uploader) = Machine::copied(&store).await;
    for _ in 0..3 {
        machine.history.commit(&[1; 40]);
        until_shipped(&machine).await;
    }
    let newest = *pieces(&bucket.objects()).last().unwrap();
    let key = format!("nodes/1/tail/{:016x}", newest - 1);
    let whole = bucket.objects()[&key].clone();
    bucket.damage(&key, |bytes| bytes[80] ^= 4);
    let error = verify(&store, |_, _| {}).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    bucket.damage(&key, |bytes| *bytes = whole.to_vec());
    verify(&store, |_, _| {}).await.unwrap();
    bucket.lose(&key);
    let error = verify(&store, |_, _| {}).await.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
}

/// Fifteen copies, a minute apart.
async fn work(machine: &Machine, store: &Store) {
    let uploader = machine.start(store, options());
    for round in 0..15_u8 {
        machine.history.add(vec![round; 10]);
        until_copied(&uploader, store, &machine.history).await;
        sleep(Duration::from_mins(1)).await;
    }
}

/// An owner that slept while its place was taken, and of which all pieces but the newest could be deleted.
async fn assert_reports_nothing_more(sleeper: &Machine) {
    let before = sleeper.history.is_copied();
    sleeper.history.commit(b"after the seal");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(sleeper.history.is_copied(), before);
}

async fn shipped(store: &Store) -> (Machine, Uploader) {
    let (machine, uploader) = Machine::copied(store).await;
    machine.history.commit(b"before");
    until_shipped(&machine).await;
    (machine, uploader)
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_stays_sealed_after_a_restore_that_was_repeated() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (sleeper, _uploader) = shipped(&store).await;
    Seal::make(&store).await.unwrap();
    let restored = Machine::continued(&store).await;
    work(&restored, &store).await;
    assert_reports_nothing_more(&sleeper).await;
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_stays_sealed_while_its_successor_starts_and_crashes() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (sleeper, _uploader) = shipped(&store).await;
    let restored = Machine::continued(&store).await;
    restored.history.be_silent(1000);
    for _ in 0..110 {
        restored.history.commit(b"x");
        let uploader = restored.start(&store, options());
        sleep(Duration::from_secs(3)).await;
        drop(uploader);
    }
    restored.history.be_silent(0);
    work(&restored, &store).await;
    assert_reports_nothing_more(&sleeper).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_whose_store_was_emptied_reports_nothing_more() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = shipped(&store).await;
    for key in bucket.objects().keys() {
        bucket.lose(key);
    }
    machine.history.add(vec![1; 10]);
    until(&uploader, |status| status.failing.is_some()).await;
    assert_reports_nothing_more(&machine).await;
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_was_set_back_is_refused() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = shipped(&store).await;
    let before = machine.copy();
    machine.history.commit(b"acknowledged later");
    until_shipped(&machine).await;
    drop(uploader);
    before.history.commit(b"y");
    let refused = before.start(&store, options());
    let status = until(&refused, |status| status.superseded.is_some()).await;
    assert!(status.superseded.unwrap().contains("set back"));
    assert_eq!(
        assert_prefix(&store, &machine).await,
        machine.history.is_copied()
    );
    let uploader = before.start(&store, taking_over());
    until_copied(&uploader, &store, &before.history).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_is_killed_loses_nothing_that_was_shipped() {
    for kill in 0..80_u64 {
        let bucket = Bucket::new(kill);
        let store = store(&bucket);
        let (machine, uploader) = Machine::copied(&store).await;
        machine.history.commit(&[1; 600]);
        until_shipped(&machine).await;
        drop(uploader);
        bucket.set_faults(slow());
        let at_once = Options {
            interval: Duration::ZERO,
            ..options()
        };
        let uploader = machine.start(&store, at_once);
        sleep(Duration::from_millis(300 * kill)).await;
        drop(uploader);
        bucket.settle();
        bucket.set_faults(Faults::default());
        assert_eq!(assert_prefix(&store, &machine).await, 600, "{kill}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_manifest_is_noticed_by_the_pieces_that_followed_it() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = shipped(&store).await;
    machine.history.add(vec![1; 10]);
    until_copied(&uploader, &store, &machine.history).await;
    machine.history.commit(b"continues the newest manifest");
    until_shipped(&machine).await;
    verify(&store, |_, _| {}).await.unwrap();
    let newest = uploader.status().published.unwrap().number;
    bucket.lose(&format!("nodes/1/manifests/{newest:016x}"));
    let error = verify(&store, |_, _| {}).await.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_replaced_stays_so_while_the_store_is_away() {
    let bucket = Bucket::new(1);
    let store = store(&bucket);
    let (machine, uploader) = shipped(&store).await;
    Seal::make(&store).await.unwrap();
    machine.history.commit(b"after");
    until(&uploader, |status| status.superseded.is_some()).await;
    drop(uploader);
    bucket.set_faults(unreachable());
    let again = Uploader::check(&store, machine.dir.path(), &*machine.history, &options()).await;
    assert!(again.unwrap_err().is_refusal());
    bucket.set_faults(Faults::default());
    let uploader = machine.start(&store, taking_over());
    until_shipped(&machine).await;
    drop(uploader);
    Uploader::check(&store, machine.dir.path(), &*machine.history, &options())
        .await
        .unwrap();
}

/// Machines that are destroyed at random, and restored from a store that fails at random. The old one may still run.
async fn lives(seed: u64) {
    let mut random = Random(seed);
    let bucket = Bucket::new(random.draw());
    bucket.set_page(1 + random.below(10) as usize);
    let judge = Judge::of(&bucket);
    let store = some_store(&bucket, seed);
    let mut machine = Machine::with_runs();
    let options = |random: &mut Random| Options {
        ship: Some(Duration::from_millis(random.below(2000))),
        interval: Duration::from_secs(random.below(10)),
        ..options()
    };
    let mut uploader = Some(machine.start(&store, options(&mut random)));
    for _ in 0..80 {
        match random.below(100) {
            0..50 => machine.history.live(&mut random),
            50..60 => {
                uploader = None;
                if random.percent(80) {
                    uploader = Some(machine.start(&store, options(&mut random)));
                }
            }
            60..68 => bucket.set_faults(crate::lives::faults(&mut random)),
            68..70 => bucket.settle(),
            70..75
                if uploader
                    .as_ref()
                    .is_some_and(|of| of.status().copied.is_some()) =>
            {
                // The restore's own requests do not fail; those of the old owner may be under way.
                bucket.set_faults(Faults::default());
                let restored = Machine::continued(&store).await;
                let end = assert_prefix(&store, &machine).await;
                assert!(end >= machine.history.is_copied(), "seed {seed}");
                machine.history.live(&mut random);
                sleep(Duration::from_millis(random.below(20_000))).await;
                // Nothing more was acknowledged.
                assert!(end >= machine.history.is_copied(), "seed {seed}");
                uploader = None;
                machine = restored;
                uploader.replace(machine.start(&store, options(&mut random)));
            }
            _ => sleep(Duration::from_millis(random.below(10_000))).await,
        }
    }
    bucket.set_faults(Faults::default());
    bucket.settle();
    drop(uploader);
    machine.history.live(&mut random);
    let uploader = machine.start(&store, options(&mut random));
    until_copied(&uploader, &store, &machine.history).await;
    until_shipped(&machine).await;
    let end = assert_prefix(&store, &machine).await;
    assert_eq!(end, machine.history.end());
    assert_eq!(downloaded(&store).await, machine.history.runs());
    judge.assert_content(&bucket);
}

#[test]
fn nothing_that_was_shipped_is_lost_with_a_machine() {
    crate::lives::each_seed(lives);
}
