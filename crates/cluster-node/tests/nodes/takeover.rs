//! A process that ends, and others that go on.

use std::{thread::sleep, time::Duration};

use abide_cluster::SHARDS;

use crate::cluster::{Answer, Cluster};

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
    add_to_all(&cluster, 1);
    for lost in 0..2 {
        cluster.machines[lost].switch_off();
        sleep(Duration::from_secs(1));
        cluster.until_whole(PATIENCE);
        add_to_all(&cluster, lost as u64 + 2);
    }
    let last = &cluster.machines[2];
    let mut client = last.connect().unwrap();
    for shard in 0..SHARDS {
        let answer = client.list(&format!("read {shard}")).unwrap();
        let Answer::List(_, list) = answer else {
            panic!("shard {shard} is not served")
        };
        assert_eq!(list, [1, 2, 3], "shard {shard}");
    }
}
