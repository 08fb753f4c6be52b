//! Processes that end, and others that take over.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use abide_cluster::SHARDS;

use crate::cluster::{Answer, Cluster, Status};

const PATIENCE: Duration = Duration::from_mins(1);

/// Adds to the list of each shard through whichever process serves it.
fn add_to_all(cluster: &Cluster, value: u64) {
    for shard in 0..SHARDS {
        let request = format!("add {shard} {value}");
        let is_added = cluster.machines.iter().any(|machine| {
            let answer = machine
                .connect()
                .map(|mut client| client.list(&request).unwrap());
            matches!(answer, Some(Answer::List(..)))
        });
        assert!(is_added, "shard {shard} is not served");
    }
}

#[test]
#[ignore = "needs PostgreSQL"]
fn others_take_over_what_a_lost_machine_has_taken_over_from_another() {
    let cluster = Cluster::start(3);
    cluster.until_whole(PATIENCE);
    // So that all of it stays in logs.
    cluster.without_runs(|| {
        add_to_all(&cluster, 1);
        for lost in 0..2 {
            cluster.machines[lost].switch_off();
            sleep(Duration::from_secs(1));
            cluster.until_whole(PATIENCE);
            add_to_all(&cluster, lost as u64 + 2);
        }
    });
    let mut client = cluster.machines[2].connect().unwrap();
    for shard in 0..SHARDS {
        let answer = client.list(&format!("read {shard}")).unwrap();
        let Answer::List(_, values) = answer else {
            panic!("shard {shard} is not served")
        };
        assert_eq!(values, [1, 2, 3], "shard {shard}");
    }
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_log_that_cannot_be_read_delays_only_the_shards_that_need_it() {
    let cluster = Cluster::start(2);
    cluster.until_whole(PATIENCE);
    add_to_all(&cluster, 1);
    let [ends, other] = &cluster.machines[..] else {
        panic!("two machines")
    };
    let Status {
        session, shards, ..
    } = ends.status().unwrap();
    let rename = |from: &str, to: &str| {
        for half in 0..2 {
            let table = format!("log_{:032x}_{half}", session.nonce);
            cluster.sql(&format!(
                "alter table abide_cluster.{table}{from} rename to {table}{to}"
            ));
        }
    };
    rename("", "_hidden");
    ends.switch_off();
    let begun = Instant::now();
    while other.status().is_none_or(|of| of.unserved != shards) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", other.status());
        sleep(Duration::from_millis(20));
    }
    let mut client = other.connect().unwrap();
    let mut served = 0;
    for shard in 0..SHARDS {
        let answer = client.list(&format!("add {shard} 2")).unwrap();
        served += usize::from(matches!(answer, Answer::List(_, list) if list == [1, 2]));
    }
    assert_eq!(served, usize::from(SHARDS) - shards);
    rename("_hidden", "");
    cluster.until_whole(PATIENCE);
    for shard in 0..SHARDS {
        let answer = client.list(&format!("read {shard}")).unwrap();
        assert!(matches!(answer, Answer::List(_, list) if list.first() == Some(&1)));
    }
}
