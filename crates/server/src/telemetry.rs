//! Logs and the metrics recorder of the process.
//!
//! Contract: both belong to the process, not to one host, so they are set up once; a second call changes nothing. A
//! program's own subscriber or recorder is kept.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::{
    config::{LogConfig, LogFormat},
    limits, request_log,
};

/// Sends `tracing` events to standard error according to the settings.
pub(crate) fn start_logs(config: &LogConfig) {
    // The level was checked when it was parsed; an unchecked one that is invalid falls back to warnings.
    let warnings = || Targets::new().with_default(LevelFilter::WARN);
    let mut filter: Targets = config.level.parse().unwrap_or_else(|_| warnings());
    if config.access {
        filter = filter.with_target(request_log::TARGET, LevelFilter::INFO);
    }
    let log = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let set = match config.format {
        LogFormat::Text => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            log.with(lines.with_ansi(colours)).try_init()
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false);
            log.with(lines).try_init()
        }
    };
    if set.is_err() {
        tracing::debug!(
            "the program has its own tracing subscriber; `[log]` settings have no effect"
        );
    }
}

/// The process's Prometheus recorder, installed on first use.
pub(crate) fn metrics_handle() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let builder = PrometheusBuilder::new();
        let builder = builder
            .set_buckets_for_metric(
                Matcher::Suffix("_seconds".to_owned()),
                limits::SECONDS_BUCKETS,
            )
            .unwrap_or_else(|_| PrometheusBuilder::new());
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::debug!("the program has its own metrics recorder; /metrics shows nothing");
        }
        handle
    })
}
