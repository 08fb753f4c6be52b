//! The roles that this binary plays in a second process.
//!
//! A child prints one line when it is ready and ends when its standard input closes, so that it never
//! outlives the bench.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::{
    benches::{alarms, memory, recovery},
    ours::{copies, heavy, node},
    receiver, soak,
};

/// What the child does.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Role {
    /// Sets alarms; the line is the seconds that took.
    Alarms,
    /// Serves a bank over HTTP and sockets; the line is the address.
    Bank,
    /// Serves a bucket in memory over the S3 protocol; the line is its endpoint.
    Bucket,
    /// Serves objects that work, on half of the cores; the line is the address.
    Busy,
    /// Serves the counter over HTTP; the line is the address.
    Counter,
    /// Serves objects that take memory, with a budget of this many MiB; the line is the address.
    Heavy,
    /// Touches objects; the line is resident bytes before and after.
    Memory,
    /// Spins at the lowest priority.
    Awake,
    /// Serves outboxes over HTTP; the line is the address.
    Outboxes,
    /// Receives deliveries; the line is the address.
    Receiver,
    /// Serves rooms of sockets; the line is its two addresses.
    Sockets,
    /// Serves the soak's objects until it is killed; the line is the address.
    Soak,
    /// Fills the log and dies without warning.
    Recovery,
}

#[derive(Args)]
pub(crate) struct Options {
    #[arg(value_enum)]
    role: Role,
    #[arg(long)]
    data: PathBuf,
    #[arg(long)]
    objects: usize,
    /// Bytes of log that the role `recovery` writes.
    #[arg(long, default_value_t = 0)]
    log_bytes: u64,
    /// Where the role `soak` listens.
    #[arg(long, default_value_t = 0)]
    port: u16,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    match options.role {
        Role::Alarms => alarms::set_and_tell(&options.data, options.objects),
        Role::Bank => node::serve_bank(&options.data, options.objects),
        Role::Bucket => copies::serve_bucket(),
        Role::Busy => node::serve_busy(&options.data),
        Role::Counter => node::serve_counter(&options.data),
        Role::Heavy => heavy::serve(&options.data, options.objects),
        Role::Memory => memory::touch_and_tell(&options.data, options.objects),
        Role::Outboxes => node::serve_outboxes(&options.data),
        Role::Receiver => receiver::serve(),
        Role::Sockets => node::serve_rooms(&options.data),
        Role::Soak => soak::serve(&options.data, options.port),
        Role::Awake => spin(),
        Role::Recovery => {
            recovery::write_and_die(&options.data, options.objects, options.log_bytes)
        }
    }
}

/// Keeps a CPU from going idle until the owner ends; gives way to everything else.
fn spin() -> Result<()> {
    const LOWEST: i32 = 19;
    rustix::process::nice(LOWEST)?;
    let owner = std::thread::spawn(node::wait_for_owner);
    while !owner.is_finished() {
        std::hint::spin_loop();
    }
    Ok(())
}
