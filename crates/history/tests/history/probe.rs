use abide_history::Probe;
use abide_s3::{Bucket, Faults};

use crate::net::store;

#[tokio::test(start_paused = true)]
async fn a_probe_cleans_up_after_itself() {
    let bucket = Bucket::new(1);
    let probe = Probe::run(&store(&bucket)).await.unwrap();
    assert!(probe.refuses_overwrites && probe.deletes);
    assert!(bucket.objects().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_replaces_what_exists_is_told() {
    let bucket = Bucket::new(1);
    bucket.set_faults(Faults {
        without_conditions: true,
        ..Faults::default()
    });
    let probe = Probe::run(&store(&bucket)).await.unwrap();
    assert!(!probe.refuses_overwrites);
    assert!(bucket.objects().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_an_unsteady_store_is_right_or_fails() {
    let mut found = [0; 3];
    for seed in 0..300 {
        let bucket = Bucket::new(seed);
        let without_conditions = seed % 2 == 0;
        bucket.set_faults(Faults {
            cut_after: 10,
            late: 5,
            slow_down: 5,
            // Such a store knows no conflicts.
            conflict: if without_conditions { 0 } else { 5 },
            without_conditions,
            ..Faults::default()
        });
        match Probe::run(&store(&bucket)).await {
            Ok(probe) => {
                assert_eq!(probe.refuses_overwrites, !without_conditions, "seed {seed}");
                found[usize::from(without_conditions)] += 1;
            }
            Err(_) => found[2] += 1,
        }
    }
    assert!(found.iter().all(|count| *count > 20), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_store_is_part_of_the_error() {
    for (faults, word) in [
        (
            Faults {
                expired: true,
                ..Faults::default()
            },
            "ExpiredToken",
        ),
        (
            Faults {
                full: true,
                ..Faults::default()
            },
            "StorageFull",
        ),
    ] {
        let bucket = Bucket::new(1);
        bucket.set_faults(faults);
        let error = Probe::run(&store(&bucket)).await.unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        assert!(error.contains("s3://backups/nodes/1"), "{error}");
    }
}
