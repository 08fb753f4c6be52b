//! The guides in `docs/`: their examples compile and run.

#[doc = include_str!("../../../docs/alarms.md")]
struct Alarms;

#[doc = include_str!("../../../docs/gates.md")]
struct Gates;

#[doc = include_str!("../../../docs/recovery.md")]
struct Recovery;

#[doc = include_str!("../../../docs/rpc.md")]
struct Rpc;

#[doc = include_str!("../../../docs/websockets.md")]
struct WebSockets;
