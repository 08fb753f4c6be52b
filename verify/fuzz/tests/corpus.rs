//! Every file of the corpus through its target.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use abide_fuzz::TARGETS;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Panics of any thread: a host answers for those of its tasks and objects, and continues.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn run(name: &str) {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::SeqCst);
        told(panic);
    }));
    let (_, target) = TARGETS.iter().find(|target| target.0 == name).unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut files: Vec<_> = std::fs::read_dir(&corpus)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() > 3, "{} is nearly empty", corpus.display());
    for file in files {
        target(&std::fs::read(&file).unwrap());
        let panics = PANICS.load(Ordering::SeqCst);
        assert_eq!(panics, 0, "a thread panicked over {}", file.display());
    }
}

#[test]
fn any_configuration_is_taken_or_refused_with_a_reason() {
    run("config");
}

#[test]
fn no_change_of_an_encrypted_copy_is_taken_for_its_content() {
    run("copies");
}

#[test]
fn a_host_answers_or_closes_whatever_it_is_sent() {
    run("http");
}

#[test]
fn what_is_put_under_a_key_is_got_and_listed_in_order() {
    run("kv");
}

#[test]
fn what_a_format_on_disk_says_is_written_as_it_was_read() {
    run("log");
}

#[test]
fn a_proxy_s_header_names_a_client_or_is_refused() {
    run("proxy");
}

#[test]
fn a_changed_data_directory_is_refused_or_works() {
    run("recovery");
}

#[test]
fn frames_say_the_same_in_any_pieces_and_to_another_implementation() {
    run("websocket");
}

#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut found: Vec<String> = std::fs::read_dir(corpus)
        .unwrap()
        .map(|dir| dir.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let names: Vec<&str> = TARGETS.iter().map(|target| target.0).collect();
    assert_eq!(found, names);
}
