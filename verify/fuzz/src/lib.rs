//! Hostile bytes for everything that abide decodes.
//!
//! A target is a function of arbitrary bytes that panics if a guarantee is violated. The same functions run in three
//! ways: over the corpus in `corpus/` in every test run, under libFuzzer with coverage (`verify/fuzz/run`), and over
//! one file that a fuzzer has found (`verify/fuzz/run TARGET FILE`).

pub mod config;
pub mod copies;
pub mod http;
mod input;
pub mod kv;
pub mod log;
pub mod proxy;
pub mod recovery;
pub mod websocket;

/// A function of arbitrary bytes that panics if a guarantee is violated.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("config", config::target),
    ("copies", copies::target),
    ("http", http::target),
    ("kv", kv::target),
    ("log", log::target),
    ("proxy", proxy::target),
    ("recovery", recovery::target),
    ("websocket", websocket::target),
];

/// The libFuzzer program of a target.
#[cfg(feature = "libfuzzer")]
#[macro_export]
macro_rules! program {
    ($target:path) => {
        ::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $target(bytes));
    };
}
