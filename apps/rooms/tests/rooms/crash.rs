//! What an editor was told is saved survives `kill -9`, and all replicas converge.
//!
//! Three people write in one document; one of them is offline meanwhile. After a random number of changes the process is killed and
//! started again. Everything of which a mark came back is there, and when all are connected again all have the same text, with what was
//! written offline. `ABIDE_CRASH_ROUNDS` sets the number of rounds, `ABIDE_CRASH_SEED` the sequence of moments.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::support::{Editor, program};
use abide_harness::{Random, setting};
use tokio::sync::{Mutex, watch};

/// Writes numbered words until the line ends; returns the words of which it heard that they are saved.
async fn write(
    editor: Arc<Mutex<Editor>>,
    words: Arc<AtomicU32>,
    news: Arc<watch::Sender<u32>>,
) -> Vec<String> {
    let mut editor = editor.lock().await;
    let mut saved = Vec::new();
    loop {
        let word = format!("<{}>", words.fetch_add(1, Ordering::Relaxed));
        if !editor.insert(0, &word).await || !editor.settle().await {
            return saved;
        }
        saved.push(word);
        news.send_modify(|count| *count += 1);
    }
}

fn words(text: &str) -> BTreeSet<String> {
    let words = text.split_inclusive('>').map(str::to_owned);
    let all: Vec<_> = words.collect();
    let once: BTreeSet<_> = all.iter().cloned().collect();
    assert_eq!(once.len(), all.len(), "each word once");
    once
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_editors_one_of_them_offline_converge_across_kill_9() {
    let rounds = setting("ABIDE_CRASH_ROUNDS", 3);
    let seed = setting("ABIDE_CRASH_SEED", 0xD0C5);
    println!("{rounds} rounds from seed {seed}");
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let count = Arc::new(AtomicU32::new(0));
    let editors: Vec<_> = (1..=3)
        .map(|id| Arc::new(Mutex::new(Editor::offline(id))))
        .collect();
    let mut saved = BTreeSet::new();
    let mut offline_words = BTreeSet::new();

    for round in 0..rounds {
        let server = program(&data).start();
        let text = server.client().get("/parties/main/shared").await;
        assert_eq!(text.status, 200);
        let away = random.below(3) as usize;
        let news = Arc::new(watch::channel(0).0);
        let mut writers = Vec::new();
        for (one, editor) in editors.iter().enumerate() {
            if one == away {
                let mut editor = editor.lock().await;
                editor.line = None;
                for _ in 0..5 {
                    let word = format!("<{}>", count.fetch_add(1, Ordering::Relaxed));
                    editor.client.insert(0, &word);
                    offline_words.insert(word);
                }
                continue;
            }
            editor
                .lock()
                .await
                .reconnect(server.address(), "shared")
                .await;
            let (editor, count, news) = (Arc::clone(editor), Arc::clone(&count), Arc::clone(&news));
            writers.push(tokio::spawn(write(editor, count, news)));
        }
        let moment = 1 + random.below(150);
        news.subscribe()
            .wait_for(|count| *count >= moment)
            .await
            .unwrap();
        server.kill();
        for writer in writers {
            saved.extend(writer.await.unwrap());
        }
        // A new client sees everything that was saved.
        let server = program(&data).start();
        let stranger = Editor::connect(&server, "shared", 100 + round).await;
        let stored = words(&stranger.client.text());
        let lost: Vec<_> = saved.difference(&stored).collect();
        assert!(lost.is_empty(), "round {round}, seed {seed}: {lost:?}");
        server.kill();
    }

    let server = program(&data).start();
    for editor in &editors {
        editor
            .lock()
            .await
            .reconnect(server.address(), "shared")
            .await;
    }
    let mut texts = BTreeSet::new();
    for editor in &editors {
        let mut editor = editor.lock().await;
        assert!(editor.settle().await);
        texts.insert(editor.client.text());
    }
    texts.insert(Editor::connect(&server, "shared", 999).await.client.text());
    assert_eq!(texts.len(), 1, "all have the same text");
    let all = words(texts.first().unwrap());
    assert!(saved.is_subset(&all) && offline_words.is_subset(&all));
    println!("{} words were saved, all are there", saved.len());
    assert!(!saved.is_empty());
    assert!(server.stop().success(), "a clean stop");
}
