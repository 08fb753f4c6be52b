//! libFuzzer's program of the target `http`.
#![no_main]

abide_fuzz::program!(abide_fuzz::http::target);
