//! Sockets while memory is short.

use std::time::Duration;

use abide::storage::MemoryUse;
use abide_harness::until;
use futures_util::{SinkExt, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::{Message as Sent, protocol::frame::coding::CloseCode};

use crate::websockets::world::{Client, World, close_frame, hear, say, world};

const MIB: usize = 1 << 20;

async fn world_with(budget: usize) -> World {
    world_with_patience(budget, Duration::from_millis(200)).await
}

async fn world_with_patience(budget: usize, patience: Duration) -> World {
    world(|host| {
        host.configure(|c| {
            c.memory.budget = Some(budget as u64);
            c.websocket.delivery_patience = patience;
        })
    })
    .await
}

fn taken(world: &World) -> u64 {
    world.host.memory().usage()[MemoryUse::Sockets as usize].bytes
}

/// Begins a message of `length` bytes and sends `sent` of them.
async fn begin_message(client: &mut Client, length: usize, sent: usize) {
    let mut bytes = vec![0x82, 0xff];
    bytes.extend_from_slice(&(length as u64).to_be_bytes());
    // The mask that changes nothing.
    bytes.extend_from_slice(&[0; 4]);
    bytes.resize(bytes.len() + sent, 7);
    client.get_mut().write_all(&bytes).await.unwrap();
}

#[tokio::test]
async fn messages_of_which_a_part_has_come_are_bounded_together() {
    let world = world_with(4 * MIB).await;
    let mut clients = Vec::new();
    for number in 0..12 {
        clients.push(world.client_of(&format!("/room-{number}/")).await);
    }
    for client in &mut clients {
        begin_message(client, 2 * MIB, MIB).await;
    }
    world
        .notes
        .wait("error a WebSocket message was not read completely")
        .await;
    let most = taken(&world);
    assert!(most < 6 * MIB as u64, "{most}");
    for client in &mut clients {
        // Those that were read whole so far stay open; what they sent is not complete.
        let next = tokio::time::timeout(Duration::from_millis(100), client.next()).await;
        if let Ok(Some(Ok(close))) = next {
            assert_eq!(close_frame(close).code, CloseCode::Again);
        }
    }
    drop(clients);
    until("memory to be given back", async || {
        (taken(&world) == 0).then_some(())
    })
    .await;
    let mut client = world.client().await;
    say(&mut client, "still here").await;
    assert_eq!(hear(&mut client).await, Sent::text("still here"));
    drop(client);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn clients_that_leave_half_a_message_behind_hold_no_memory() {
    // However long messages may wait for a busy object.
    let world = world_with_patience(4 * MIB, Duration::from_hours(1)).await;
    let mut clients = Vec::new();
    for number in 0..12 {
        clients.push(world.client_of(&format!("/room-{number}/")).await);
    }
    for client in &mut clients {
        begin_message(client, 2 * MIB, MIB).await;
    }
    until("memory to be short", async || {
        world.host.memory().is_over().then_some(())
    })
    .await;
    drop(clients);
    until("memory to be given back", async || {
        (taken(&world) == 0).then_some(())
    })
    .await;
    let mut client = world.client().await;
    say(&mut client, "still here").await;
    assert_eq!(hear(&mut client).await, Sent::text("still here"));
    drop(client);
    world.host.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_slow_readers_have_before_them_is_bounded_together() {
    let world = world_with(24 * MIB).await;
    let mut clients = Vec::new();
    for number in 0..8 {
        clients.push(world.client_of(&format!("/room-{number}/")).await);
    }
    let mut writers = Vec::new();
    for mut client in clients {
        // It says much, all of which comes back, and reads nothing.
        writers.push(tokio::spawn(async move {
            for number in 0..40_u8 {
                let message = Sent::binary(vec![number; MIB]);
                if client.send(message).await.is_err() {
                    break;
                }
            }
            client
        }));
    }
    let mut most = 0;
    until("a slow reader to be given up", async || {
        most = most.max(taken(&world));
        (world.notes.count("closed") > 0).then_some(())
    })
    .await;
    assert!((10 * MIB as u64..36 * MIB as u64).contains(&most), "{most}");
    for writer in &writers {
        writer.abort();
    }
    drop(writers);
    until("memory to be given back", async || {
        (taken(&world) == 0).then_some(())
    })
    .await;
    world.host.shutdown().await.unwrap();
}
