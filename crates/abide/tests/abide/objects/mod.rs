//! The runtime's guarantees for object code, tested through the public API on an in-memory disk.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod atomicity;
mod beside_handlers;
mod calls;
mod deleted_class;
mod destructors;
mod foreign_code;
mod input_gate;
mod leaving;
mod life;
mod listing;
mod memory;
mod new_objects;
mod output_gate;
mod overload;
mod storage;
mod stuck;
mod unique_number;
