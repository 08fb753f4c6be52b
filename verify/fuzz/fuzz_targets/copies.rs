//! libFuzzer's program of the target `copies`.
#![no_main]

abide_fuzz::program!(abide_fuzz::copies::target);
