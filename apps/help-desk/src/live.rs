//! The WebSockets of a desk. They stay open while the desk is out of memory.

use abide::prelude::*;
use serde::Serialize;

use crate::tickets::Ticket;

/// What a live view is told.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    /// First of all: the newest tickets.
    Tickets { tickets: &'a [Ticket] },
    /// A ticket is new or has changed.
    Ticket { ticket: &'a Ticket },
    /// There is a new comment on a ticket.
    Comment { ticket: i64 },
}

/// Accepts a live view. The gateway answers its pings, so that they wake no desk.
pub(crate) fn accept(ctx: &Ctx, tickets: &[Ticket]) -> Result<Response> {
    ctx.set_auto_response(Some(RequestResponsePair::new("ping", "pong")?))?;
    let (ws, response) = ctx.accept_websocket(&[])?;
    ws.send_json(&Event::Tickets { tickets })?;
    Ok(response)
}

/// Tells all live views, once the change is on disk.
pub(crate) fn broadcast(ctx: &Ctx, event: &Event<'_>) -> Result<()> {
    ctx.broadcast_json(event)
}

/// Ends all live views, so that they come back and see what there is now.
pub(crate) fn end(ctx: &Ctx) -> Result<()> {
    for ws in ctx.websockets() {
        ws.close(1012, "the desk is restored")?;
    }
    Ok(())
}
