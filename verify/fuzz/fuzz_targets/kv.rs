//! libFuzzer's program of the target `kv`.
#![no_main]

abide_fuzz::program!(abide_fuzz::kv::target);
