//! Runs that are replaced by one that was merged from them.

use std::time::Duration;

use abide_cluster::Statement;

use crate::support::{Own, Server, stored};

fn owned(places: &[&str]) -> Vec<String> {
    places.iter().map(|place| (*place).to_owned()).collect()
}

/// The places of the runs after one, in the order of the list, and the last one in the order in which they were listed.
async fn places(server: &Server, own: &Own, after: u64) -> (Vec<String>, u64) {
    let runs = server.runs(own, after).await;
    let last = runs.iter().map(|run| run.seq).max().unwrap_or(after);
    (runs.into_iter().map(|run| run.place).collect(), last)
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_merged_run_is_listed_in_the_places_of_those_that_it_replaces() {
    let server = Server::start().await;
    let own = server.begin(1).await;
    for (number, place) in (1..).zip(["a", "b", "c", "d"]) {
        server.list(&own, number, place).await;
    }
    let (all, last) = places(&server, &own, 0).await;
    assert_eq!(all, ["a", "b", "c", "d"]);
    let replace = async |replaced: &[&str], by: &str| {
        let (replaced, merged) = (owned(replaced), stored(by));
        let done = server
            .database
            .replace_runs(own.session, &replaced, &merged);
        done.await.unwrap()
    };
    assert!(!replace(&["b", "x"], "no").await);
    assert_eq!(places(&server, &own, 0).await.0, all);
    assert!(replace(&["b", "c"], "bc").await);
    // The answer was lost.
    assert!(replace(&["b", "c"], "bc").await);
    assert_eq!(places(&server, &own, 0).await.0, ["a", "bc", "d"]);
    assert_eq!(places(&server, &own, last).await.0, ["bc"]);
    server.list(&own, 5, "e").await;
    assert!(replace(&["a", "bc", "d"], "abcd").await);
    assert_eq!(places(&server, &own, 0).await.0, ["abcd", "e"]);
    assert!(!replace(&["b"], "late").await);
    let runs = server.runs(&own, 0).await;
    assert!(runs[0].first < runs[0].last && runs[0].last < runs[1].first);

    own.say(&Statement::Leave).await;
    assert!(!replace(&["abcd"], "fenced").await);
    assert_eq!(server.database.runs(own.session, 0).await.unwrap(), None);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn one_session_merges_at_a_time_until_it_ends() {
    let server = Server::start().await;
    let (one, two) = (server.begin(1).await, server.begin(2).await);
    let begin = async |own: &Own| {
        let begun = server.database.begin_merge(own.session).await;
        begun.unwrap().is_some()
    };
    assert!(begin(&one).await && begin(&one).await && !begin(&two).await);
    // Of another.
    server.database.end_merge(two.session).await.unwrap();
    assert!(!begin(&two).await);
    server.database.end_merge(one.session).await.unwrap();
    assert!(begin(&two).await && !begin(&one).await);
    two.say(&Statement::Leave).await;
    assert!(begin(&one).await && !begin(&two).await);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_replaced_run_is_removed_once_all_sessions_know_and_it_is_old() {
    let server = Server::start().await;
    let (one, two) = (server.begin(1).await, server.begin(2).await);
    server.list(&one, 1, "a").await;
    server.list(&one, 2, "b").await;
    let (_, before) = places(&server, &one, 0).await;
    let both = owned(&["a", "b"]);
    let merged = stored("ab");
    let replaced = server.database.replace_runs(one.session, &both, &merged);
    assert!(replaced.await.unwrap());
    let (_, after) = places(&server, &one, 0).await;
    let unread = async |keep| {
        let mut unread = server
            .database
            .unread_runs(one.session, keep)
            .await
            .unwrap();
        unread.sort();
        unread
    };
    // Who asks for what follows has the list up to there.
    let tell = async |own: &Own, upto| {
        places(&server, own, upto).await;
    };
    tell(&one, after).await;
    tell(&two, before).await;
    assert!(unread(Duration::ZERO).await.is_empty());
    tell(&two, after).await;
    // The catalogue has them.
    assert!(unread(Duration::ZERO).await.is_empty());
    let renewed = server.database.catalogued_runs(one.session, after).await;
    renewed.unwrap();
    // Positions do not go back.
    tell(&two, before).await;
    assert_eq!(unread(Duration::ZERO).await, both);
    assert!(unread(Duration::from_hours(1)).await.is_empty());
    // One that has just begun reads the new list.
    let three = server.begin(3).await;
    assert!(unread(Duration::ZERO).await.is_empty());
    three.say(&Statement::Leave).await;
    assert_eq!(unread(Duration::ZERO).await, both);
    let removed = server.database.removed_runs(one.session, &both[..1]).await;
    removed.unwrap();
    assert_eq!(unread(Duration::ZERO).await, &both[1..]);
    one.say(&Statement::Leave).await;
    assert!(unread(Duration::ZERO).await.is_empty());
}
