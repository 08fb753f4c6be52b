//! How long a reading takes from the phone to the screen, in very many rooms at once.
//!
//! `cargo bench -p game-rooms --bench relay -- --rooms 1000 --rate 60 --seconds 10` opens that many rooms with a screen and a controller each,
//! has every controller send its readings, and measures the time of each from before it is sent until it was received. The
//! program runs as a child process; its clients are all in this one, on the same machine, and their work counts as well.
#![allow(clippy::unwrap_used, reason = "a bench ends where it fails")]

use std::time::{Duration, Instant};

use abide_harness::Program;
use clap::Parser;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};

/// Measures the relay of readings
#[derive(Parser)]
struct Args {
    /// Rooms, each with a screen and a controller
    #[arg(long, default_value_t = 1_000)]
    rooms: usize,
    /// Readings that each controller sends in a second
    #[arg(long, default_value_t = 60)]
    rate: u32,
    /// How long
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// What cargo passes to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let args = Args::parse();
    let dir = tempfile::tempdir().unwrap();
    let server = Program::new(env!("CARGO_BIN_EXE_game-rooms"), dir.path().join("data"))
        .arg("--rooms-per-client=1000000")
        .arg("--messages-per-second=10000")
        .start();
    let client = server.client();
    let opening = Instant::now();
    let mut pairs = Vec::new();
    for _ in 0..args.rooms {
        let room = client.post("/rooms", &serde_json::json!({})).await;
        let id = room.body["room"]["durableObjectId"]
            .as_str()
            .unwrap()
            .to_owned();
        let enter = async |role: &str, secret: &str| {
            let url = format!("ws://{}/sockets/{id}?role={role}", server.address());
            let mut request = url.into_client_request().unwrap();
            let protocols = format!("blips, secret.{secret}").parse().unwrap();
            request
                .headers_mut()
                .insert("sec-websocket-protocol", protocols);
            connect_async(request).await.unwrap().0
        };
        let host = enter("host", room.body["hostSecret"].as_str().unwrap()).await;
        pairs.push((host, enter("peer", &"7".repeat(32)).await));
    }
    println!("{:<28} {:>10}", "rooms", args.rooms);
    println!(
        "{:<28} {:>10.1}",
        "seconds to open them",
        opening.elapsed().as_secs_f64()
    );

    let readings = u64::from(args.rate) * args.seconds;
    let between = Duration::from_secs(1) / args.rate;
    let begin = Instant::now() + Duration::from_millis(500);
    let mut screens = Vec::new();
    for (number, (mut host, mut peer)) in pairs.into_iter().enumerate() {
        // Phones are not in step.
        let first =
            begin + between * u32::try_from(number).unwrap() / u32::try_from(args.rooms).unwrap();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval_at(first.into(), between);
            for _ in 0..readings {
                ticks.tick().await;
                let sent = begin.elapsed().as_nanos();
                let reading = format!("{{\"tilt\":{{\"x\":0.123,\"y\":-0.456}},\"at\":{sent}}}");
                peer.send(Message::text(reading)).await.unwrap();
            }
            // The line stays open until the screen has all.
            while let Some(Ok(_)) = peer.next().await {}
        });
        screens.push(tokio::spawn(async move {
            let mut times = Vec::new();
            while (times.len() as u64) < readings {
                let message = host.next().await.unwrap().unwrap();
                let Some((_, sent)) = message.to_text().unwrap().split_once("\"at\":") else {
                    continue;
                };
                let sent: u128 = sent.trim_end_matches('}').parse().unwrap();
                times.push(begin.elapsed().as_nanos().saturating_sub(sent));
            }
            times
        }));
    }
    let mut times = Vec::new();
    for screen in screens {
        times.extend(screen.await.unwrap());
    }
    let took = begin.elapsed();
    times.sort_unstable();
    println!("{:<28} {:>10}", "readings", times.len());
    println!(
        "{:<28} {:>10.0}",
        "readings per second",
        times.len() as f64 / took.as_secs_f64()
    );
    for (name, share) in [
        ("p50", 500),
        ("p90", 900),
        ("p99", 990),
        ("p99.9", 999),
        ("max", 1_000),
    ] {
        let place = (times.len() * share / 1_000).clamp(1, times.len()) - 1;
        let millis = times[place] as f64 / 1e6;
        println!("{:<28} {millis:>10.2}", format!("ms, {name}"));
    }
    println!(
        "{:<28} {:>10}",
        "MiB of memory, at most",
        server.peak_memory() >> 20
    );
}
