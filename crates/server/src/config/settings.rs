//! The table of settings: for each key, where its value is stored and how it is parsed.

use std::time::Duration;

use super::{
    Config,
    section::Setting,
    value::{self, Expected},
};
use crate::limits;

/// Sets `target` to the value, if it is valid.
fn put<T>(target: &mut T, value: Result<T, Expected>) -> Result<(), Expected> {
    *target = value?;
    Ok(())
}

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_hours(24);

/// The settings whose values must never appear in a message: see [`Section::SECRETS`](super::section::Section::SECRETS).
pub(super) const SECRETS: &[&str] = &["cluster.postgres"];

/// All settings.
pub(super) const SETTINGS: &[Setting<Config>] = &[
    Setting {
        key: "server.listen",
        set: |c, v| put(&mut c.server.listen, value::listen(v)),
    },
    Setting {
        key: "server.request_timeout",
        set: |c, v| {
            put(
                &mut c.server.request_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "server.header_timeout",
        set: |c, v| {
            put(
                &mut c.server.header_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "server.idle_timeout",
        set: |c, v| {
            put(
                &mut c.server.idle_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "server.body_timeout",
        set: |c, v| {
            put(
                &mut c.server.body_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "server.write_timeout",
        set: |c, v| {
            put(
                &mut c.server.write_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "server.max_body_bytes",
        set: |c, v| {
            put(
                &mut c.server.max_body_bytes,
                value::bytes(v, 0..=limits::MAX_BODY_BYTES_CEILING),
            )
        },
    },
    Setting {
        key: "server.max_connections",
        set: |c, v| {
            put(
                &mut c.server.max_connections,
                value::count(v, 1..=limits::MAX_CONNECTIONS_CEILING),
            )
        },
    },
    Setting {
        key: "server.max_connections_per_client",
        set: |c, v| {
            put(
                &mut c.server.max_connections_per_client,
                value::connections_per_client(v),
            )
        },
    },
    Setting {
        key: "server.requests_per_client",
        set: |c, v| {
            put(
                &mut c.server.requests_per_client,
                value::count_or_off(v, 1..=limits::RATE_CEILING),
            )
        },
    },
    Setting {
        key: "server.requests_per_token",
        set: |c, v| {
            put(
                &mut c.server.requests_per_token,
                value::count_or_off(v, 1..=limits::RATE_CEILING),
            )
        },
    },
    Setting {
        key: "server.new_objects_per_client",
        set: |c, v| {
            put(
                &mut c.server.new_objects_per_client,
                value::count_or_off(v, 1..=limits::RATE_CEILING),
            )
        },
    },
    Setting {
        key: "server.new_objects_per_token",
        set: |c, v| {
            put(
                &mut c.server.new_objects_per_token,
                value::count_or_off(v, 1..=limits::RATE_CEILING),
            )
        },
    },
    Setting {
        key: "server.trusted_proxies",
        set: |c, v| put(&mut c.server.trusted_proxies, value::proxies(v)),
    },
    Setting {
        key: "server.proxy_protocol",
        set: |c, v| put(&mut c.server.proxy_protocol, value::switch(v)),
    },
    Setting {
        key: "admin.proxy_protocol",
        set: |c, v| put(&mut c.admin.proxy_protocol, value::switch(v)),
    },
    Setting {
        key: "server.forwarded_header",
        set: |c, v| put(&mut c.server.forwarded_header, value::forwarded_header(v)),
    },
    Setting {
        key: "server.hosts",
        set: |c, v| put(&mut c.server.hosts, value::hosts(v)),
    },
    Setting {
        key: "server.origins",
        set: |c, v| put(&mut c.server.origins, value::origins(v)),
    },
    Setting {
        key: "server.access",
        set: |c, v| put(&mut c.server.access, v.parse()),
    },
    Setting {
        key: "server.tls_certificate",
        set: |c, v| put(&mut c.server.tls.certificate, value::file_or_off(v)),
    },
    Setting {
        key: "server.tls_key",
        set: |c, v| put(&mut c.server.tls.key, value::file_or_off(v)),
    },
    Setting {
        key: "server.tls_client_ca",
        set: |c, v| put(&mut c.server.tls.client_ca, value::file_or_off(v)),
    },
    Setting {
        key: "server.shutdown_grace",
        set: |c, v| {
            put(
                &mut c.server.shutdown_grace,
                value::duration(v, Duration::ZERO..=LONGEST),
            )
        },
    },
    Setting {
        key: "admin.listen",
        set: |c, v| put(&mut c.admin.listen, value::listen_or_off(v)),
    },
    Setting {
        key: "admin.access",
        set: |c, v| put(&mut c.admin.access, v.parse()),
    },
    Setting {
        key: "admin.tls_certificate",
        set: |c, v| put(&mut c.admin.tls.certificate, value::file_or_off(v)),
    },
    Setting {
        key: "admin.tls_key",
        set: |c, v| put(&mut c.admin.tls.key, value::file_or_off(v)),
    },
    Setting {
        key: "admin.tls_client_ca",
        set: |c, v| put(&mut c.admin.tls.client_ca, value::file_or_off(v)),
    },
    Setting {
        key: "data.dir",
        set: |c, v| put(&mut c.data.dir, value::directory(v)),
    },
    Setting {
        key: "storage.segment_bytes",
        set: |c, v| {
            put(
                &mut c.storage.segment_bytes,
                value::bytes(v, limits::SEGMENT_BYTES),
            )
        },
    },
    Setting {
        key: "storage.checkpoint_bytes",
        set: |c, v| {
            put(
                &mut c.storage.checkpoint_bytes,
                value::bytes(v, limits::CHECKPOINT_BYTES),
            )
        },
    },
    Setting {
        key: "storage.checkpoint_interval",
        set: |c, v| {
            put(
                &mut c.storage.checkpoint_interval,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "storage.cache_bytes",
        set: |c, v| {
            put(
                &mut c.storage.cache_bytes,
                value::bytes(v, limits::CACHE_BYTES),
            )
        },
    },
    Setting {
        key: "storage.max_object_bytes",
        set: |c, v| {
            put(
                &mut c.storage.max_object_bytes,
                value::bytes(v, limits::OBJECT_BYTES),
            )
        },
    },
    Setting {
        key: "storage.max_bytes",
        set: |c, v| {
            put(
                &mut c.storage.max_bytes,
                value::bytes_or_off(v, limits::STORED_BYTES),
            )
        },
    },
    Setting {
        key: "storage.max_parameters",
        set: |c, v| {
            put(
                &mut c.storage.max_parameters,
                value::count(v, limits::SQL_PARAMETERS),
            )
        },
    },
    Setting {
        key: "storage.max_columns",
        set: |c, v| {
            put(
                &mut c.storage.max_columns,
                value::count(v, limits::SQL_COLUMNS),
            )
        },
    },
    Setting {
        key: "storage.max_value_bytes",
        set: |c, v| {
            put(
                &mut c.storage.max_value_bytes,
                value::bytes(v, limits::SQL_VALUE_BYTES),
            )
        },
    },
    Setting {
        key: "memory.budget",
        set: |c, v| {
            put(
                &mut c.memory.budget,
                value::bytes_or_auto(v, limits::MEMORY_BUDGET),
            )
        },
    },
    Setting {
        key: "cluster.postgres",
        set: |c, v| put(&mut c.cluster.postgres, value::address_or_off(v)),
    },
    Setting {
        key: "cluster.replication",
        set: |c, v| put(&mut c.cluster.replication, value::replication(v)),
    },
    Setting {
        key: "cluster.advertise",
        set: |c, v| put(&mut c.cluster.advertise, value::url_or_auto(v)),
    },
    Setting {
        key: "archive.enabled",
        set: |c, v| put(&mut c.archive.enabled, value::switch(v)),
    },
    Setting {
        key: "archive.retention",
        set: |c, v| {
            put(
                &mut c.archive.retention,
                value::duration(v, limits::RETENTION),
            )
        },
    },
    Setting {
        key: "archive.max_bytes",
        set: |c, v| {
            put(
                &mut c.archive.max_bytes,
                value::bytes(v, limits::ARCHIVE_BYTES),
            )
        },
    },
    Setting {
        key: "archive.hydration_rate",
        set: |c, v| {
            put(
                &mut c.archive.hydration_rate,
                value::bytes_or_off(v, limits::HYDRATION_RATE),
            )
        },
    },
    Setting {
        key: "archive.local_bytes",
        set: |c, v| {
            put(
                &mut c.archive.local_bytes,
                value::bytes_or_off(v, limits::LOCAL_BYTES),
            )
        },
    },
    Setting {
        key: "archive.url",
        set: |c, v| put(&mut c.archive.url, value::url_or_off(v)),
    },
    Setting {
        key: "archive.options",
        set: |c, v| put(&mut c.archive.options, value::store_access(v)),
    },
    Setting {
        key: "archive.key_file",
        set: |c, v| put(&mut c.archive.key_file, value::file_or_off(v)),
    },
    Setting {
        key: "archive.upload_interval",
        set: |c, v| {
            put(
                &mut c.archive.upload_interval,
                value::duration(v, limits::UPLOAD_INTERVAL),
            )
        },
    },
    Setting {
        key: "archive.ship_interval",
        set: |c, v| {
            put(
                &mut c.archive.ship_interval,
                value::duration_or_off(v, limits::SHIP_INTERVAL),
            )
        },
    },
    Setting {
        key: "archive.sync",
        set: |c, v| put(&mut c.archive.sync, value::switch(v)),
    },
    Setting {
        key: "archive.keep_uploads",
        set: |c, v| {
            put(
                &mut c.archive.keep_uploads,
                value::duration(v, limits::KEEP_UPLOADS),
            )
        },
    },
    Setting {
        key: "archive.prove",
        set: |c, v| {
            put(
                &mut c.archive.prove,
                value::duration_or_off(v, limits::PROVE_INTERVAL),
            )
        },
    },
    Setting {
        key: "objects.workers",
        set: |c, v| {
            put(
                &mut c.objects.workers,
                value::count_or_auto(v, 1..=limits::MAX_WORKERS),
            )
        },
    },
    Setting {
        key: "objects.idle_timeout",
        set: |c, v| {
            put(
                &mut c.objects.idle_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "objects.event_timeout",
        set: |c, v| {
            put(
                &mut c.objects.event_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "objects.background_timeout",
        set: |c, v| {
            put(
                &mut c.objects.background_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "objects.max_queued",
        set: |c, v| {
            put(
                &mut c.objects.max_queued,
                value::count(v, 1..=limits::MAX_QUEUED_CEILING),
            )
        },
    },
    Setting {
        key: "websocket.max_message_bytes",
        set: |c, v| {
            put(
                &mut c.websocket.max_message_bytes,
                value::bytes(v, 1..=limits::MAX_MESSAGE_BYTES_CEILING),
            )
        },
    },
    Setting {
        key: "websocket.message_timeout",
        set: |c, v| {
            put(
                &mut c.websocket.message_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "websocket.send_buffer_bytes",
        set: |c, v| {
            put(
                &mut c.websocket.send_buffer_bytes,
                value::bytes(v, limits::SEND_BUFFER_BYTES),
            )
        },
    },
    Setting {
        key: "websocket.slow_reader",
        set: |c, v| put(&mut c.websocket.slow_reader, value::slow_reader(v)),
    },
    Setting {
        key: "websocket.max_in_flight",
        set: |c, v| {
            put(
                &mut c.websocket.max_in_flight,
                value::count(v, 1..=limits::MAX_IN_FLIGHT_CEILING),
            )
        },
    },
    Setting {
        key: "websocket.delivery_patience",
        set: |c, v| {
            put(
                &mut c.websocket.delivery_patience,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "websocket.ping_interval",
        set: |c, v| {
            put(
                &mut c.websocket.ping_interval,
                value::duration_or_off(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "websocket.pong_timeout",
        set: |c, v| {
            put(
                &mut c.websocket.pong_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "rpc.enabled",
        set: |c, v| put(&mut c.rpc.enabled, value::switch(v)),
    },
    Setting {
        key: "outbound.allow_private",
        set: |c, v| put(&mut c.outbound.allow_private, value::private_addresses(v)),
    },
    Setting {
        key: "outbound.connect_timeout",
        set: |c, v| {
            put(
                &mut c.outbound.connect_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "outbound.request_timeout",
        set: |c, v| {
            put(
                &mut c.outbound.request_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "outbound.read_timeout",
        set: |c, v| {
            put(
                &mut c.outbound.read_timeout,
                value::duration(v, SHORTEST..=LONGEST),
            )
        },
    },
    Setting {
        key: "outbound.max_in_flight",
        set: |c, v| {
            put(
                &mut c.outbound.max_in_flight,
                value::count(v, 1..=limits::MAX_OUTBOUND_CEILING),
            )
        },
    },
    Setting {
        key: "outbound.max_queued",
        set: |c, v| {
            put(
                &mut c.outbound.max_queued,
                value::count(v, 0..=limits::MAX_OUTBOUND_CEILING),
            )
        },
    },
    Setting {
        key: "outbound.max_redirects",
        set: |c, v| {
            put(
                &mut c.outbound.max_redirects,
                value::count(v, 0..=limits::MAX_REDIRECTS_CEILING),
            )
        },
    },
    Setting {
        key: "log.level",
        set: |c, v| put(&mut c.log.level, value::log_level(v)),
    },
    Setting {
        key: "log.access",
        set: |c, v| put(&mut c.log.access, value::switch(v)),
    },
    Setting {
        key: "log.format",
        set: |c, v| put(&mut c.log.format, value::log_format(v)),
    },
];
