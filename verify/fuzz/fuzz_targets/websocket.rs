//! libFuzzer's program of the target `websocket`.
#![no_main]

abide_fuzz::program!(abide_fuzz::websocket::target);
