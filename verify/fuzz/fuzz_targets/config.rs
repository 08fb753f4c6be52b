//! libFuzzer's program of the target `config`.
#![no_main]

abide_fuzz::program!(abide_fuzz::config::target);
