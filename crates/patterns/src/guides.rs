//! The guides in `docs/`: their examples compile and run.

#[doc = include_str!("../../../docs/outbox.md")]
struct Outbox;

#[doc = include_str!("../../../docs/outcomes.md")]
struct Outcomes;

#[doc = include_str!("../../../docs/queue.md")]
struct Queue;

#[doc = include_str!("../../../docs/schedule.md")]
struct Schedule;

#[doc = include_str!("../../../docs/workflow.md")]
struct Workflow;

#[doc = include_str!("../../../docs/projection.md")]
struct Projection;

#[doc = include_str!("../../../docs/getting-started.md")]
struct GettingStarted;
