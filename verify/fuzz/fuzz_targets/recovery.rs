//! libFuzzer's program of the target `recovery`.
#![no_main]

abide_fuzz::program!(abide_fuzz::recovery::target);
