//! The real binary, and how one reads a seat map.

use std::path::Path;

use abide_harness::{Answer, Program};

/// `flight-seating serve` on a data directory.
pub(crate) fn program(data: &Path) -> Program {
    Program::new(env!("CARGO_BIN_EXE_flight-seating"), data)
}

/// Who sits in a seat, from a seat map.
pub(crate) fn occupant<'a>(answer: &'a Answer, seat: &str) -> Option<&'a str> {
    let seats = answer.body["seats"].as_array().expect("a seat map");
    let found = seats
        .iter()
        .find(|entry| entry["seat"] == seat)
        .expect("the seat exists");
    found["occupant"].as_str()
}
