//! The stored document stays small, and is the same.

use abide::{ErrorKind, yjs::DocumentOptions};
use abide_harness::run;

use crate::yjs::support::{Peer, World};

fn every(updates: u64) -> DocumentOptions {
    DocumentOptions::default().compact_after_updates(updates)
}

#[test]
fn updates_become_a_snapshot_past_their_number() {
    run(async {
        let world = World::with(every(10));
        let mut ada = Peer::connect(&world, 1).await;
        for _ in 0..9 {
            ada.insert(0, "x").await;
        }
        assert_eq!(world.size().await.updates, 9);
        assert_eq!(world.size().await.snapshot_bytes, 0);
        ada.insert(0, "x").await;
        let size = world.size().await;
        assert_eq!((size.updates, size.update_bytes), (0, 0));
        let (bytes, rows) = world.pad().stored().await.unwrap();
        assert_eq!((bytes, rows), (size.snapshot_bytes, 1));
        ada.insert(0, "y").await;
        ada.until_heard(11).await;
        let world = world.killed();
        assert_eq!(world.size().await.updates, 1);
        assert_eq!(world.size().await.snapshot_bytes, size.snapshot_bytes);
        assert_eq!(world.text().await, "yxxxxxxxxxx");
    });
}

#[test]
fn what_was_deleted_is_forgotten() {
    run(async {
        let options = DocumentOptions::default().compact_after_bytes(10_000);
        let world = World::with(options);
        let mut ada = Peer::connect(&world, 1).await;
        let mut most = 0;
        for turn in 0..200 {
            ada.insert(0, &"text ".repeat(100)).await;
            ada.remove(0, 500).await;
            if turn % 20 == 0 {
                ada.hear_all().await;
                let (bytes, _) = world.pad().stored().await.unwrap();
                most = most.max(bytes);
            }
        }
        ada.insert(0, "what is left").await;
        assert!(
            most < 12_000,
            "{most} bytes were stored of 100,000 that were written"
        );
        let size = world.pad().compact().await.unwrap();
        assert!(size.total() < 200, "{size:?}");
        ada.settle().await;
        assert_eq!(world.text().await, "what is left");
        let file = world.pad().database_size().await.unwrap();
        assert!(file < 64 << 10, "the file has {file} bytes");
        let late = Peer::connect(&world, 2).await;
        assert_eq!(late.client.text(), "what is left");
    });
}

#[test]
fn a_long_update_takes_several_rows_and_comes_back_whole() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        let book = "chapter ".repeat(300_000);
        ada.insert(0, &book).await;
        ada.until_heard(1).await;
        let (_, rows) = world.pad().stored().await.unwrap();
        assert_eq!(rows, 3);
        let world = world.killed();
        assert_eq!(world.text().await, book);
        let late = Peer::connect(&world, 2).await;
        assert_eq!(late.client.text(), book);
    });
}

#[test]
fn a_document_that_would_be_too_long_is_compacted_first_and_then_refused() {
    run(async {
        let options = DocumentOptions::default().max_document_bytes(5_000);
        let world = World::with(options);
        let mut ada = Peer::connect(&world, 1).await;
        for _ in 0..20 {
            ada.insert(0, &"x".repeat(1_000)).await;
            ada.remove(0, 1_000).await;
        }
        ada.insert(0, &"y".repeat(4_000)).await;
        ada.settle().await;
        let mut grace = Peer::connect(&world, 2).await;
        grace.insert(0, &"z".repeat(4_000)).await;
        // What follows depends on what was refused.
        grace.insert(0, "more").await;
        let close = grace.closed().await;
        assert_eq!(close.code, 4413);
        assert_eq!(
            close.reason,
            "the document is full: it has at most 5000 bytes"
        );
        assert_eq!(world.text().await, "y".repeat(4_000));
        ada.insert(0, "small ").await;
        ada.settle().await;
        assert_eq!(world.text().await.len(), 4_006);
        let refused = world.pad().prepend("q".repeat(5_000)).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Limit);
        assert_eq!(world.text().await.len(), 4_006);
    });
}

#[test]
fn damage_is_told_and_serves_nothing_wrong() {
    run(async {
        for sql in [
            "UPDATE yjs_updates SET data = x'0102' WHERE id = 2",
            "DELETE FROM yjs_updates WHERE id = 1",
            "UPDATE yjs_updates SET more = 1 WHERE id = 3",
        ] {
            let world = World::new();
            let mut ada = Peer::connect(&world, 1).await;
            for _ in 0..3 {
                ada.insert(0, "x").await;
            }
            ada.until_heard(3).await;
            world.pad().tamper(sql.to_owned()).await.unwrap();
            let world = world.killed();
            let error = world.pad().text().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{sql}: {error}");
        }
    });
}

#[test]
fn invalid_options_are_refused() {
    run(async {
        for (options, word) in [
            (every(0), "merged"),
            (
                DocumentOptions::default().max_document_bytes(1 << 40),
                "document",
            ),
        ] {
            let world = World::with(options);
            let error = world.pad().size().await.unwrap_err();
            assert!(error.message().contains(word), "{error}");
        }
    });
}
