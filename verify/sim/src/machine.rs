//! The machine of the process: its disk and its clock.

use std::sync::Arc;

use abide::{
    clock::{Clock, TestClock},
    storage::{Disk, SimDisk},
};

/// A layer between a process and the simulated disk and clock. Tests of the checkers use machines that lie.
pub trait Machine {
    /// The disk that a process is given when it starts.
    fn disk(&self, disk: &SimDisk) -> Arc<dyn Disk> {
        Arc::new(disk.clone())
    }

    /// The clock of its runtime.
    fn clock(&self, clock: &TestClock) -> Arc<dyn Clock> {
        Arc::new(clock.clone())
    }
}

/// A machine that passes the simulated disk and clock through unchanged.
#[derive(Clone, Copy, Debug)]
pub struct HonestMachine;

impl Machine for HonestMachine {}
