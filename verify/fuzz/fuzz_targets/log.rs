//! libFuzzer's program of the target `log`.
#![no_main]

abide_fuzz::program!(abide_fuzz::log::target);
