//! The work that a client can cause is bounded, and so is the memory; long offline edits are merged.

use std::time::Duration;

use abide::ErrorKind;
use abide_harness::{run, until};
use yrs::{
    sync::{Message as Yjs, SyncMessage},
    updates::encoder::Encode,
};

use crate::yjs::support::{Pad, Peer, World};

/// The client with the long text.
const LONG: u64 = 1 << 31;

fn number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn message(update: Vec<u8>) -> Vec<u8> {
    Yjs::Sync(SyncMessage::Update(update)).encode_v1()
}

/// A text of one client, and letters at the same place of as many other clients.
fn letters(count: u64, long: usize) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, count + 1);
    number(&mut out, 1);
    number(&mut out, LONG);
    out.extend([0, 4, 1]);
    text(&mut out, "content");
    text(&mut out, &"x".repeat(long));
    for client in (500_000..500_000 + count).rev() {
        number(&mut out, 1);
        number(&mut out, client);
        out.extend([0, 4, 1]);
        text(&mut out, "content");
        text(&mut out, "y");
    }
    out.push(0);
    message(out)
}

/// Insertions of as many clients before places of the long text: each is compared with all letters.
fn crossing(count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, count);
    for nth in 0..count {
        number(&mut out, 1);
        number(&mut out, 400_000 - nth);
        out.extend([0, 0x40 | 4]);
        number(&mut out, LONG);
        number(&mut out, nth + 1);
        text(&mut out, "z");
    }
    out.push(0);
    message(out)
}

#[test]
fn a_quadratic_update_is_refused_and_the_document_still_works() {
    run(async {
        let world = World::new();
        let mut eve = Peer::connect(&world, 1).await;
        eve.say(letters(30_000, 30_010)).await;
        eve.until_heard(1).await;
        let before = world.text().await;
        assert_eq!(before.len(), 60_010);
        eve.say(crossing(30_000)).await;
        let close = eve.closed().await;
        assert_eq!(close.code, 4413, "{close:?}");
        assert!(close.reason.contains("too much work"), "{close:?}");
        assert_eq!(world.text().await, before);
        let mut ada = Peer::connect(&world, 2).await;
        ada.insert(0, "small ").await;
        ada.until_heard(1).await;
        let world = world.killed();
        assert_eq!(world.text().await, format!("small {before}"));
    });
}

#[test]
fn other_objects_of_the_worker_run_while_a_long_update_is_applied() {
    run(async {
        let world = World::new();
        let mut eve = Peer::connect(&world, 1).await;
        eve.say(letters(20_000, 20_010)).await;
        eve.until_heard(1).await;
        eve.say(crossing(20_000)).await;
        // It comes after the update, and is answered before it is done: an object of the same worker.
        let other = world.node.env().object::<Pad>();
        let size = other.get_by_name("other").size().await.unwrap();
        assert_eq!(size.total(), 0);
        // It is neither applied nor refused yet.
        eve.hear_all().await;
        assert_eq!(eve.client.updates, 1);
    });
}

#[test]
fn edits_of_a_long_time_offline_are_merged() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.insert(0, "start").await;
        ada.until_heard(1).await;
        ada.break_off();
        for _ in 0..50 {
            ada.client.insert(0, &"y".repeat(100_000));
        }
        let written = ada.client.text();
        ada.reconnect(&world).await;
        ada.settle().await;
        assert_eq!(world.text().await, written);
        let late = Peer::connect(&world, 2).await;
        assert_eq!(late.client.text(), written);
    });
}

#[test]
fn many_letters_of_one_client_are_merged_in_time() {
    run(async {
        let world = World::new();
        let mut ada = Peer::new(1);
        for _ in 0..30_000 {
            ada.client.insert(0, "a");
            let end = ada.client.length();
            ada.client.insert(end, "b");
        }
        ada.client.remove(10, 40_000);
        ada.reconnect(&world).await;
        ada.settle().await;
        assert_eq!(world.text().await, ada.client.text());
        let world = world.killed();
        assert_eq!(world.text().await, ada.client.text());
    });
}

#[test]
fn a_stored_document_that_takes_too_long_to_read_is_quarantined() {
    run(async {
        let world = World::new();
        let mut ada = Peer::connect(&world, 1).await;
        ada.insert(0, "kept").await;
        ada.until_heard(1).await;
        // As a machine that is far slower would find it.
        let quarantine = "UPDATE yjs_meta SET quarantined = 1".to_owned();
        world.pad().tamper(quarantine).await.unwrap();
        let world = world.killed();
        let error = world.pad().text().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        let mut late = Peer::new(2);
        late.open(&world).await;
        assert_eq!(late.closed().await.code, 4413);
        let release = "UPDATE yjs_meta SET quarantined = 0".to_owned();
        world.pad().tamper(release).await.unwrap();
        assert_eq!(world.text().await, "kept");
    });
}

#[test]
fn a_document_in_memory_is_charged_to_the_budget() {
    run(async {
        let world = World::new();
        let mut eve = Peer::connect(&world, 1).await;
        let before = world.objects_bytes();
        eve.say(letters(20_000, 10)).await;
        eve.until_heard(1).await;
        let charged = world.objects_bytes() - before;
        assert!(charged > 20_000 * 200, "{charged} bytes");
        world.clock.advance(Duration::from_mins(10));
        until("the object leaves memory", async || {
            (world.objects_bytes() < before).then_some(())
        })
        .await;
    });
}
