//! Invalid messages change nothing, and the client is told why.

use abide::limits::yjs as limits;
use abide::yjs::{DocumentOptions, yrs};
use abide_harness::{Random, run};
use yrs::{
    sync::{Message as Yjs, SyncMessage},
    updates::encoder::Encode,
};

use crate::yjs::{
    client::YjsClient,
    support::{Peer, World},
};

/// The number before what follows, as lib0 has it, for short lengths.
fn framed(head: &[u8], content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [head, &[length], content].concat()
}

/// An awareness message with this many bytes of content.
fn awareness_of(bytes: usize) -> Vec<u8> {
    let mut message = vec![1];
    write_number(&mut message, bytes as u64);
    message.resize(message.len() + bytes, 0);
    message
}

#[test]
fn what_is_no_message_closes_its_connection_and_no_other() {
    run(async {
        let options = DocumentOptions::default().max_document_bytes(10_000);
        let world = World::with(options);
        let mut ada = Peer::connect(&world, 1).await;
        ada.insert(0, "kept").await;
        ada.settle().await;
        let too_much = format!("{{\"a\":\"{}\"}}", "x".repeat(limits::MAX_AWARENESS_BYTES));
        let deep = [
            vec![1, 1, 5, 0, 8, 1, 1, b'a', 200, 1],
            [117, 1].repeat(200),
            vec![126, 0],
        ]
        .concat();
        let cases: Vec<(Vec<u8>, u16)> = vec![
            (vec![], 1007),
            (vec![0], 1007),
            (vec![0, 9], 1007),
            (vec![0, 0, 5, 1], 1007),
            (vec![2, 0], 1003),
            (vec![77], 1003),
            ([&[0, 2, 0x91, 0x4e][..], &[0; 10_001]].concat(), 4413),
            // A state vector of 2^28 clients.
            (framed(&[0, 0], &[0xff, 0xff, 0xff, 0x7f]), 1007),
            // An update of as many clients, of a block that is none, with a clock beyond 32 bits, with text that is none.
            (framed(&[0, 2], &[0xff, 0xff, 0xff, 0x7f]), 1007),
            (framed(&[0, 2], &[1, 1, 5, 0, 15, 1, 1, b'a', 0]), 1007),
            (
                framed(&[0, 2], &[1, 1, 5, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 1, 0]),
                1007,
            ),
            (
                framed(&[0, 2], &[1, 1, 5, 0, 4, 1, 1, b'a', 1, 0xff, 0]),
                1007,
            ),
            // A client beyond 53 bits.
            (
                framed(
                    &[0, 2],
                    &[0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0],
                ),
                1007,
            ),
            (framed(&[0, 1], b"rubbish"), 1007),
            // Values in values.
            ([&[0, 2, 0x9c, 3][..], &deep].concat(), 1007),
            (framed(&[1], &[9]), 1007),
            (awareness_of(limits::MAX_AWARENESS_MESSAGE_BYTES + 1), 1009),
            (YjsClient::state_of(7, 1, "no JSON"), 1007),
            (YjsClient::state_of(7, 1, &too_much), 1009),
        ];
        for (message, code) in cases {
            let mut eve = Peer::connect(&world, 6).await;
            eve.say(message.clone()).await;
            let close = eve.closed().await;
            assert_eq!(close.code, code, "{close:?} after {message:?}");
            assert!(!close.reason.is_empty());
        }
        for text in ["hello", "__YP"] {
            let mut eve = Peer::connect(&world, 6).await;
            eve.say(text).await;
            assert_eq!(eve.closed().await.code, 1003);
        }
        ada.settle().await;
        assert_eq!(world.text().await, "kept");
        assert_eq!(world.size().await.updates, 1);
        let world = world.killed();
        assert_eq!(world.text().await, "kept");
    });
}

#[test]
fn many_states_of_one_connection_are_refused() {
    run(async {
        let world = World::new();
        let mut eve = Peer::connect(&world, 1).await;
        for client in 0..=limits::MAX_STATES as u64 {
            eve.say(YjsClient::state_of(100 + client, 1, "{}")).await;
        }
        assert_eq!(eve.closed().await.code, 1009);
    });
}

/// Lists in lists, this many levels deep, as client 5 makes them; and the deletion of the outermost.
fn nested(levels: u32) -> (Vec<u8>, Vec<u8>) {
    let mut all = vec![1];
    write_number(&mut all, levels.into());
    all.extend([5, 0]);
    all.extend([7, 1, 4, b'l', b'i', b's', b't', 0]);
    for level in 1..levels {
        all.extend([7, 0, 5]);
        write_number(&mut all, u64::from(level) - 1);
        all.push(0);
    }
    all.push(0);
    (all, vec![0, 1, 5, 1, 0, 1])
}

fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn update(update: Vec<u8>) -> Vec<u8> {
    Yjs::Sync(SyncMessage::Update(update)).encode_v1()
}

#[test]
fn a_deep_document_is_deleted_without_the_end_of_the_stack() {
    run(async {
        let world = World::new();
        let mut eve = Peer::connect(&world, 1).await;
        let (all, deletion) = nested(20_000);
        eve.say(update(all)).await;
        eve.say(update(deletion)).await;
        // It does not listen: its own stack would not carry this many levels.
        let size = world.pad().compact().await.unwrap();
        assert!(size.total() < 1_000, "it is deleted: {size:?}");
        let (all, _) = nested(u32::try_from(limits::MAX_NESTED_TYPES).unwrap() + 1);
        eve.say(update(all)).await;
        assert_eq!(eve.closed().await.code, 4413);
    });
}

/// Updates of a living document in which bytes were changed: each is taken or refused, and the document can be read afterwards.
#[test]
fn tampered_updates_are_harmless() {
    for seed in 1..=3 {
        run(async {
            let mut random = Random::new(seed);
            let world = World::new();
            let mut ada = Peer::connect(&world, 1).await;
            let mut recorded = Vec::new();
            for turn in 0..40 {
                let length = ada.client.length();
                let message = if turn % 4 == 3 {
                    ada.client.remove(random.below(length - 2), 2)
                } else {
                    ada.client.insert(random.below(length + 1), "words")
                };
                recorded.push(message.clone());
                ada.say(message).await;
            }
            for round in 0..300 {
                let mut eve = Peer::connect(&world, 9).await;
                let mut message = recorded[random.below(recorded.len() as u32) as usize].clone();
                // Behind type, step and length.
                let at = 3 + random.below(message.len() as u32 - 3) as usize;
                message[at] = random.below(256) as u8;
                eve.say(message).await;
                if round % 50 == 0 {
                    let size = world.pad().compact().await.unwrap();
                    assert_eq!(size.updates, 0, "the snapshot is the document");
                }
            }
            ada.settle().await;
            let text = world.text().await;
            assert_eq!(ada.client.text(), text, "seed {seed}");
            let world = world.killed();
            assert_eq!(world.text().await, text, "seed {seed}");
        });
    }
}
