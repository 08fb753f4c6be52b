//! How measurements are printed: a table for people, or one JSON line each.

use std::{cell::Cell, time::Duration};

use serde_json::{Map, Value, json};

use crate::probe::DiskLatency;

/// A unit, and which way is better in it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    CommitsPerSecond,
    RequestsPerSecond,
    CallsPerSecond,
    AlarmsPerSecond,
    MessagesPerSecond,
    TransfersPerSecond,
    TransitionsPerSecond,
    Seconds,
    Microseconds,
    CpuMicroseconds,
    Mebibytes,
    Events,
    KibibytesPerObject,
    KibibytesPerSocket,
    FramesPerSecond,
    RoundTripsPerSecond,
    SecondsPerGigabyte,
    BytesPerCommit,
    Percent,
    MebibytesPerSecond,
    MebibytesPerHour,
    RequestsPerHour,
    DollarsPerMonth,
}

impl Unit {
    fn text(self) -> &'static str {
        match self {
            Self::CommitsPerSecond => "commits/s",
            Self::RequestsPerSecond => "requests/s",
            Self::CallsPerSecond => "calls/s",
            Self::AlarmsPerSecond => "alarms/s",
            Self::MessagesPerSecond => "messages/s",
            Self::TransfersPerSecond => "transfers/s",
            Self::TransitionsPerSecond => "transitions/s",
            Self::Seconds => "s",
            Self::Microseconds => "us",
            Self::CpuMicroseconds => "us of CPU",
            Self::Mebibytes => "MiB",
            Self::Events => "events",
            Self::KibibytesPerObject => "KiB/object",
            Self::KibibytesPerSocket => "KiB/socket",
            Self::FramesPerSecond => "frames/s",
            Self::RoundTripsPerSecond => "trips/s",
            Self::SecondsPerGigabyte => "s/GB",
            Self::BytesPerCommit => "bytes/commit",
            Self::Percent => "%",
            Self::MebibytesPerSecond => "MiB/s",
            Self::MebibytesPerHour => "MiB/h",
            Self::RequestsPerHour => "requests/h",
            Self::DollarsPerMonth => "USD/month",
        }
    }

    fn higher_is_better(self) -> bool {
        matches!(
            self,
            Self::CommitsPerSecond
                | Self::RequestsPerSecond
                | Self::CallsPerSecond
                | Self::AlarmsPerSecond
                | Self::MessagesPerSecond
                | Self::TransfersPerSecond
                | Self::TransitionsPerSecond
                | Self::FramesPerSecond
                | Self::RoundTripsPerSecond
                | Self::MebibytesPerSecond
        )
    }
}

/// One figure, beside the disk's latency and perhaps a peer's figure.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    name: String,
    unit: Unit,
    disk: DiskLatency,
    ours: Option<f64>,
    peer: Option<(&'static str, f64)>,
    note: Option<String>,
}

impl Measurement {
    pub(crate) fn new(name: impl Into<String>, unit: Unit, disk: DiskLatency) -> Self {
        Self {
            name: name.into(),
            unit,
            disk,
            ours: None,
            peer: None,
            note: None,
        }
    }

    pub(crate) fn ours(mut self, value: impl Into<Option<f64>>) -> Self {
        self.ours = value.into();
        self
    }

    pub(crate) fn peer(mut self, name: &'static str, value: impl Into<Option<f64>>) -> Self {
        self.peer = value.into().map(|value| (name, value));
        self
    }

    /// What a reader must know to judge the figure.
    pub(crate) fn note(mut self, note: impl Into<Option<String>>) -> Self {
        self.note = note.into();
        self
    }

    /// Above 1 means that ours is better, for rates and for latencies alike.
    fn ratio(&self) -> Option<f64> {
        let (ours, (_, peer)) = (self.ours?, self.peer?);
        let (above, below) = if self.unit.higher_is_better() {
            (ours, peer)
        } else {
            (peer, ours)
        };
        (below > 0.0).then(|| above / below)
    }

    fn json(&self) -> Value {
        let mut line = Map::new();
        line.insert("name".into(), json!(self.name));
        line.insert("ours".into(), json!(self.ours.map(rounded)));
        line.insert("unit".into(), json!(self.unit.text()));
        line.insert("fdatasync_p50_us".into(), json!(rounded(self.disk.p50_us)));
        line.insert("fdatasync_p99_us".into(), json!(rounded(self.disk.p99_us)));
        if self.disk.kept_awake {
            line.insert("cpus_kept_awake".into(), json!(true));
        }
        if let Some((name, value)) = self.peer {
            line.insert("peer".into(), json!(name));
            line.insert("peer_value".into(), json!(rounded(value)));
        }
        if let Some(ratio) = self.ratio() {
            line.insert("ratio".into(), json!(rounded(ratio)));
        }
        if let Some(note) = &self.note {
            line.insert("note".into(), json!(note));
        }
        Value::Object(line)
    }
}

/// Prints measurements as they come.
pub(crate) struct Report {
    json: bool,
    headed: Cell<bool>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            headed: Cell::new(false),
        }
    }

    pub(crate) fn print(&self, measurement: &Measurement) {
        if self.json {
            println!("{}", measurement.json());
            return;
        }
        if !self.headed.replace(true) {
            println!(
                "{:<44} {:>12} {:<11} {:>12} {:>8}  {:<14} peer",
                "measurement", "ours", "unit", "peer", "ratio", "fdatasync"
            );
        }
        let (peer, value) = measurement
            .peer
            .map_or(("", None), |(name, value)| (name, Some(value)));
        println!(
            "{:<44} {:>12} {:<11} {:>12} {:>8}  {:<14} {peer}",
            measurement.name,
            measurement.ours.map_or_else(|| "-".into(), figure),
            measurement.unit.text(),
            value.map_or_else(|| "-".into(), figure),
            measurement
                .ratio()
                .map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}x")),
            format!(
                "{:.0}/{:.0} us",
                measurement.disk.p50_us, measurement.disk.p99_us
            ),
        );
        if let Some(note) = &measurement.note {
            println!("    {note}");
        }
    }

    /// A sentence for people; kept out of the JSON lines.
    pub(crate) fn say(&self, text: &str) {
        if self.json {
            eprintln!("{text}");
        } else {
            println!("{text}");
        }
    }
}

/// Three decimals are more than any of these figures is worth.
fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

fn figure(value: f64) -> String {
    if value.abs() >= 1_000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::{Measurement, Unit};
    use crate::probe::DiskLatency;

    const DISK: DiskLatency = DiskLatency {
        p50_us: 50.04,
        p99_us: 99.0,
        kept_awake: false,
    };

    #[test]
    fn ratio_above_one_means_ours_is_better_for_rates_and_for_latencies() {
        let rate = Measurement::new("r", Unit::CommitsPerSecond, DISK)
            .ours(10.0)
            .peer("p", 2.0);
        let latency = Measurement::new("l", Unit::Microseconds, DISK)
            .ours(2.0)
            .peer("p", 10.0);
        assert_eq!((rate.ratio(), latency.ratio()), (Some(5.0), Some(5.0)));
    }

    #[test]
    fn json_line_has_the_documented_fields() {
        let line = Measurement::new("n", Unit::CommitsPerSecond, DISK)
            .ours(10.0)
            .peer("p", 2.0)
            .json();
        assert_eq!(
            line.to_string(),
            r#"{"fdatasync_p50_us":50.04,"fdatasync_p99_us":99.0,"name":"n","ours":10.0,"peer":"p","peer_value":2.0,"ratio":5.0,"unit":"commits/s"}"#
        );
    }
}
