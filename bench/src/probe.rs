//! The latency of `fdatasync` on the measured disk: without it no figure about durability can be compared.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::figures::Latencies;

const PAGE: usize = 4096;
const FILE_PAGES: u64 = 1024;
const MAX_SYNCS: usize = 400;
const MAX_TIME: Duration = Duration::from_millis(400);

/// Percentiles of one `fdatasync` after a write of 4 KiB into space that was allocated before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskLatency {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// The CPUs were kept from going idle, now and for what is measured next.
    pub(crate) kept_awake: bool,
}

pub(crate) fn fdatasync(dir: &Path, kept_awake: bool) -> Result<DiskLatency> {
    let path = dir.join("fdatasync-probe");
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)
        .context("cannot create the probe's file")?;
    let page = [0x5a_u8; PAGE];
    for number in 0..FILE_PAGES {
        file.write_all_at(&page, number * PAGE as u64)?;
    }
    file.sync_all()?;
    let (mut latencies, begun) = (Latencies::default(), Instant::now());
    while latencies.len() < MAX_SYNCS && begun.elapsed() < MAX_TIME {
        let offset = (latencies.len() as u64 % FILE_PAGES) * PAGE as u64;
        let start = Instant::now();
        file.write_all_at(&page, offset)?;
        file.sync_data()?;
        latencies.push(start.elapsed());
    }
    fs::remove_file(&path)?;
    let [p50_us, p99_us] = latencies.percentiles_us([50.0, 99.0]);
    Ok(DiskLatency {
        p50_us,
        p99_us,
        kept_awake,
    })
}
