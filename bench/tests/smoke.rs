//! Each bench runs at a tiny size and prints what the README promises. Nothing here looks at time.
#![allow(clippy::unwrap_used)] // helpers of tests

use std::process::Command;

use serde_json::Value;

/// Runs a bench with `--json` and returns its measurements.
fn bench(arguments: &[&str]) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(arguments)
        .args(["--json", "--seconds", "0.05", "--rounds", "1", "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = String::from_utf8(output.stdout).unwrap();
    let measurements: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!measurements.is_empty(), "{arguments:?} measured nothing");
    for line in &measurements {
        assert!(
            line["name"].is_string() && line["unit"].is_string(),
            "{line}"
        );
        assert!(
            line["ours"].is_number() && line["fdatasync_p50_us"].is_number(),
            "{line}"
        );
    }
    measurements
}

fn without_peers(arguments: &[&str]) -> Vec<Value> {
    bench(&[arguments, &["--side", "ours"]].concat())
}

#[test]
fn commits_are_measured_beside_a_file_per_object() {
    let lines = bench(&["commits", "--objects", "3", "--inflight", "4"]);
    assert!(
        lines[0]["peer"].is_string()
            && lines[0]["peer_value"].is_number()
            && lines[0]["ratio"].is_number()
    );
}

#[test]
fn http_counters_answer_every_increment_once() {
    without_peers(&["http", "--objects", "1,5", "--connections", "1,4"]);
}

#[test]
fn rpc_is_measured_without_a_write_and_with_one() {
    let lines = without_peers(&["rpc", "--batch", "3", "--callers", "2"]);
    for name in ["rpc/read", "rpc/write"] {
        assert!(lines.iter().any(|line| line["name"] == name));
    }
}

#[test]
fn the_codec_is_measured_beside_others_and_as_a_share_of_calls() {
    let lines = bench(&["cbor", "--batch", "2"]);
    for name in ["encode", "decode", "call/share", "get/share", "put/share"] {
        let name = format!("cbor/record/{name}");
        assert!(lines.iter().any(|line| line["name"] == name), "{lines:?}");
    }
}

#[test]
fn cold_start_is_measured_for_new_and_for_existing_objects() {
    bench(&["cold-start", "--objects", "5"]);
}

#[test]
fn memory_is_measured_for_each_touched_object() {
    without_peers(&["memory", "--objects", "20"]);
}

#[test]
fn sockets_are_measured_idle_echoing_and_in_a_broadcast() {
    let lines = without_peers(&[
        "sockets",
        "--idle",
        "20",
        "--rooms",
        "2",
        "--listeners",
        "5",
        "--echoing",
        "2",
    ]);
    for name in [
        "sockets/idle=20",
        "sockets/broadcast/listeners=5",
        "sockets/echo/sockets=2",
    ] {
        assert!(lines.iter().any(|line| line["name"] == name), "{name}");
    }
}

#[test]
fn recovery_is_measured_after_the_writer_was_killed() {
    without_peers(&["recovery", "--megabytes", "1", "--objects", "3"]);
}

#[test]
fn children_are_fetched_one_by_one_and_with_a_join() {
    bench(&[
        "n-plus-one",
        "--parents",
        "3",
        "--children",
        "2",
        "--times",
        "2",
    ]);
}

#[test]
fn an_outbox_delivers_every_message_once() {
    let lines = without_peers(&[
        "outbox",
        "--outboxes",
        "1,3",
        "--messages",
        "30",
        "--singles",
        "3",
    ]);
    for name in ["enqueue", "deliver", "on-the-way"] {
        let name = format!("outbox/{name}/outboxes=3");
        let printed = |line: &Value| line["name"].as_str().unwrap().starts_with(&name);
        assert!(lines.iter().any(printed), "{lines:?}");
    }
}

#[test]
fn an_outbox_is_measured_beside_many_rows() {
    let lines = without_peers(&["outbox-scale", "--rows", "50"]);
    for name in ["enqueue", "attempt", "redrive-1000", "deliver-one-key"] {
        let name = format!("outbox-scale/{name}/rows=50");
        assert!(lines.iter().any(|line| line["name"] == name), "{lines:?}");
    }
}

#[test]
fn chains_of_outcomes_are_measured_short_and_long() {
    let lines = without_peers(&[
        "outcomes",
        "--subscriptions",
        "3",
        "--outcomes",
        "5",
        "--objects",
        "3",
        "--long",
        "200",
        "--callers",
        "4",
    ]);
    for name in [
        "cold-start/outcomes=5/p50",
        "replay/outcomes=5/p99",
        "subscription-start/outcomes=5/p50",
        "cold-start/outcomes=200",
        "transitions/objects=1",
        "transitions/objects=3",
    ] {
        let name = format!("outcomes/{name}");
        assert!(lines.iter().any(|line| line["name"] == name), "{lines:?}");
    }
}

#[test]
fn alarms_are_measured_set_pending_late_and_overdue() {
    let lines = without_peers(&[
        "alarms", "--alarms", "200", "--fired", "200", "--rate", "20",
    ]);
    for name in ["set", "start", "lateness-p50", "lateness-p99", "overdue"] {
        let name = format!("alarms/{name}/pending=200");
        assert!(lines.iter().any(|line| line["name"] == name), "{lines:?}");
    }
}

#[test]
fn the_archive_is_measured_and_a_restore_is_right() {
    let lines = without_peers(&["archive", "--objects", "5", "--megabytes", "2"]);
    for name in ["commits", "commits/p99", "bytes", "restore"] {
        let name = format!("archive/{name}");
        assert!(lines.iter().any(|line| line["name"] == name), "{name}");
    }
}

#[test]
fn copies_are_measured_a_store_is_restored_and_idle_costs_nothing() {
    let small = [
        &["backup", "--objects", "5", "--slice", "0.3"][..],
        &["--interval", "0.1", "--small", "50", "--large", "2"],
        &["--rates", "0,1", "--hours", "0.03"],
    ];
    let lines = bench(&small.concat());
    let figure = |name: &str| {
        let line = lines.iter().find(|line| line["name"] == name);
        line.unwrap_or_else(|| panic!("{name}"))["ours"]
            .as_f64()
            .unwrap()
    };
    for name in [
        "commits/directory",
        "commits/s3",
        "commits/s3-sync",
        "restore/objects=50/download",
        "restore/objects=50/first-answer",
        "restore/mebibytes=2/build/rate",
        "hour/commits=1/requests",
        "hour/commits=1/sent",
    ] {
        assert!(figure(&format!("backup/{name}")) > 0.0, "{name}");
    }
    assert!(figure("backup/hour/commits=0/requests") < 1.0);
}

#[test]
fn more_load_than_capacity_is_measured_at_each_level() {
    let lines = without_peers(&[
        "load",
        "--scenes",
        "write,slow",
        "--levels",
        "2",
        "--length",
        "0.5",
        "--objects",
        "5",
        "--connections",
        "50",
        "--closed",
        "4",
    ]);
    for name in [
        "load/write/2x/goodput",
        "load/slow/2x/refused",
        "load/slow/2x/memory",
    ] {
        assert!(lines.iter().any(|line| line["name"] == name), "{name}");
    }
}

#[test]
fn money_is_moved_in_process_over_http_and_over_sockets_and_none_is_lost() {
    let lines = without_peers(&[
        "bank",
        "--accounts",
        "100",
        "--clients",
        "3",
        "--window",
        "2",
        "--alpha",
        "1.5",
    ]);
    for name in [
        "in-process",
        "in-process/pipelined",
        "http",
        "sockets",
        "sockets/pipelined",
    ] {
        let name = format!("bank/zipf=1.5/{name}");
        assert!(
            lines.iter().any(|line| line["name"] == name.as_str()),
            "{name}"
        );
    }
}

/// Half a minute beside kills: every acknowledged write, alarm, announcement and frame is looked for.
#[test]
fn nothing_acknowledged_is_lost_in_a_short_soak() {
    let lines = without_peers(&[
        "soak",
        "--minutes",
        "0.5",
        "--every",
        "5",
        "--kill",
        "3",
        "--writers",
        "4",
        "--keep-awake",
        "off",
    ]);
    let figure = |name: &str| {
        let line = lines.iter().find(|line| line["name"] == name).unwrap();
        line["ours"].as_f64().unwrap()
    };
    for name in ["writes", "announcements", "alarms", "frames", "kills"] {
        assert!(figure(&format!("soak/{name}")) > 0.0, "{name}");
    }
    assert!(figure("soak/broken-promises") < 1.0);
}

#[test]
fn loads_that_take_memory_are_measured_and_the_server_answers_afterwards() {
    let small = [
        "budget",
        "--budget",
        "64",
        "--objects",
        "20",
        "--sort",
        "2",
        "--readers",
        "2",
    ];
    let lines = without_peers(&[&small[..], &["--sockets", "2", "--bodies", "2"]].concat());
    assert_eq!(lines.len(), 5);
}
