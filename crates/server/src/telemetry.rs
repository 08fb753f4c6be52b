//! Logs and the metrics recorder of the process.
//!
//! Contract: both belong to the process, not to one host, so both are set up once; the second call changes nothing. A
//! program that has its own subscriber or recorder keeps it.

use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use crate::{
    config::{LogConfig, LogFormat},
    limits, request_log,
};

/// Sends `tracing` events to standard error as the settings say.
pub(crate) fn start_logs(config: &LogConfig) {
    // The level was checked when it was read; a hand-made one that does not parse falls back to warnings.
    let mut filter = EnvFilter::try_new(&config.level).unwrap_or_else(|_| EnvFilter::new("warn"));
    if config.access {
        let directive = format!("{}=info", request_log::TARGET);
        filter = filter.add_directive(directive.parse().expect("a target and a level"));
    }
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let set = match config.format {
        LogFormat::Text => lines
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .try_init(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .try_init(),
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
