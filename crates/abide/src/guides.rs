//! The guides in `docs/`: their examples compile and run as doctests.

#[doc = include_str!("../../../docs/alarms.md")]
struct Alarms;

#[doc = include_str!("../../../docs/gates.md")]
struct Gates;

#[doc = include_str!("../../../docs/recovery.md")]
struct Recovery;

#[doc = include_str!("../../../docs/rpc.md")]
struct Rpc;

#[doc = include_str!("../../../docs/rules.md")]
struct Rules;

#[doc = include_str!("../../../docs/writing-tests.md")]
struct WritingTests;

#[doc = include_str!("../../../docs/sql.md")]
struct Sql;

#[doc = include_str!("../../../docs/websockets.md")]
struct WebSockets;

#[doc = include_str!("../../../docs/getting-started.md")]
struct GettingStarted;

#[doc = include_str!("../../../docs/outbox.md")]
struct Outbox;

#[doc = include_str!("../../../docs/outcomes.md")]
struct Outcomes;

#[doc = include_str!("../../../docs/own-component.md")]
struct OwnComponent;

#[doc = include_str!("../../../docs/patterns.md")]
struct Patterns;

#[doc = include_str!("../../../docs/projection.md")]
struct Projection;

#[doc = include_str!("../../../docs/queue.md")]
struct Queue;

#[doc = include_str!("../../../docs/rooms.md")]
struct Rooms;

#[doc = include_str!("../../../docs/schedule.md")]
struct Schedule;

#[doc = include_str!("../../../docs/workflow.md")]
struct Workflow;
