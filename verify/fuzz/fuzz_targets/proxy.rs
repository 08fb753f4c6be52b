//! libFuzzer's program of the target `proxy`.
#![no_main]

abide_fuzz::program!(abide_fuzz::proxy::target);
