//! Metrics of the copies.

use std::time::{Duration, SystemTime};

use abide_history::{Status, Traffic};
use metrics::{counter, describe_counter, describe_gauge, gauge};

use super::proof::Proof;

const COPIED: &str = "abide_history_copied_seconds";
const BACKLOG_RUNS: &str = "abide_history_backlog_runs";
const BACKLOG_BYTES: &str = "abide_history_backlog_bytes";
const UNSAVED: &str = "abide_history_unsaved_seconds";
const FAILING: &str = "abide_history_failing";
const BYTES: &str = "abide_history_bytes";
const REQUESTS: &str = "abide_history_requests_total";
const VERIFIED: &str = "abide_backup_verified_age_seconds";
const PROVEN: &str = "abide_backup_proven_objects_total";
const DIFFERENCES: &str = "abide_backup_differences";
const TRANSFERRED: &str = "abide_history_transferred_bytes_total";

/// Describes them.
pub(crate) fn describe() {
    let gauges = [
        (
            COPIED,
            "Time of the newest copy in the store of archive.url, in seconds since 1970; 0 if there is none.",
        ),
        (
            UNSAVED,
            "For how long acknowledged commits may have existed on this machine alone; 0 while everything is copied.",
        ),
        (
            BACKLOG_RUNS,
            "Files of the archive that are to be uploaded.",
        ),
        (
            BACKLOG_BYTES,
            "Bytes of the archive that are to be uploaded.",
        ),
        (
            FAILING,
            "1 while the archive or the log cannot be copied, otherwise 0; the log says why. Copying is tried again until it succeeds.",
        ),
        (BYTES, "Bytes of the newest copy."),
        (
            VERIFIED,
            "Time within which every object and every file of the copy was compared with what the node has, and was the same; it is \
             about 30 times archive.prove.",
        ),
        (
            DIFFERENCES,
            "Objects and files of the copy that differ from what the node has; the log and /readyz name them.",
        ),
    ];
    for (name, help) in gauges {
        describe_gauge!(name, help);
    }
    describe_counter!(
        PROVEN,
        "Objects whose states in the store of archive.url were compared with the node's, and were the same."
    );
    describe_counter!(REQUESTS, "Requests to the store of archive.url, by kind.");
    describe_counter!(
        TRANSFERRED,
        "Bytes of objects sent to the store of archive.url and received from it, by direction."
    );
}

/// Publishes them for the next scrape.
pub(super) fn publish(status: &Status, traffic: &Traffic, unsaved: Duration) {
    gauge!(UNSAVED).set(unsaved.as_secs_f64());
    let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH);
    let copied = status.published.and_then(|of| since(of.time).ok());
    gauge!(COPIED).set(copied.map_or(0.0, |since| since.as_secs_f64()));
    gauge!(BYTES).set(status.published.map_or(0, |of| of.bytes) as f64);
    gauge!(BACKLOG_RUNS).set(status.backlog_runs as f64);
    gauge!(BACKLOG_BYTES).set(status.backlog_bytes as f64);
    let is_failing = status.failing.is_some() || status.not_shipping.is_some();
    gauge!(FAILING).set(f64::from(u8::from(is_failing)));
    let requests = traffic.requests;
    for (kind, count) in [
        ("put", requests.puts),
        ("get", requests.gets),
        ("list", requests.lists),
        ("delete", requests.deletes),
    ] {
        counter!(REQUESTS, "kind" => kind).absolute(count);
    }
    for (direction, bytes) in [("sent", traffic.sent), ("received", traffic.received)] {
        counter!(TRANSFERRED, "direction" => direction).absolute(bytes);
    }
}

/// Publishes what is known of the copy.
pub(super) fn publish_proof(proof: &Proof) {
    gauge!(VERIFIED).set(proof.age.as_secs_f64());
    gauge!(DIFFERENCES).set(proof.differences.len() as f64);
    counter!(PROVEN).absolute(proof.objects);
}
