//! A bank: one object, in which all accounts are.

use abide::prelude::*;

use crate::transfers::{BALANCE, BALANCE_AT_FIRST, FILL, SCHEMA, SET, TOTAL};

#[durable_object]
pub(crate) struct Bank {
    ctx: Ctx,
}

impl DurableObject for Bank {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        ctx.sql().exec(SCHEMA, ())?;
        Ok(Self { ctx })
    }

    /// `/socket` opens a socket; `/FROM/TO/AMOUNT` is a transfer.
    async fn fetch(&self, request: Request) -> Result<Response> {
        let path = request.uri().path();
        if path == "/socket" {
            let (_, response) = self.ctx.accept_websocket(&[])?;
            return Ok(response);
        }
        self.transfer_as_text(path.trim_start_matches('/'))?;
        Ok(Response::new(Body::from("ok")))
    }

    async fn websocket_message(&self, ws: WebSocket, message: Message) -> Result<()> {
        self.transfer_as_text(message.as_text().unwrap_or_default())?;
        ws.send("ok")
    }
}

#[rpc]
impl Bank {
    pub(crate) async fn open(&self, accounts: i64) -> Result<()> {
        let sql = self.ctx.sql();
        sql.exec(FILL, (accounts, BALANCE_AT_FIRST))?;
        Ok(())
    }

    pub(crate) async fn transfer(&self, from: i64, to: i64, amount: i64) -> Result<()> {
        self.move_money(from, to, amount)
    }

    pub(crate) async fn total(&self) -> Result<i64> {
        self.ctx.sql().exec(TOTAL, ())?.one()
    }

    fn transfer_as_text(&self, text: &str) -> Result<()> {
        let mut parts = text.split('/').map(str::parse);
        let (Some(Ok(from)), Some(Ok(to)), Some(Ok(amount))) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(format!("{text:?} is no transfer").into());
        };
        self.move_money(from, to, amount)
    }

    fn move_money(&self, from: i64, to: i64, amount: i64) -> Result<()> {
        let sql = self.ctx.sql();
        let paying: i64 = sql.exec(BALANCE, (from,))?.one()?;
        let paid: i64 = sql.exec(BALANCE, (to,))?.one()?;
        if paying < amount {
            return Err(format!("account {from} has only {paying}").into());
        }
        sql.exec(SET, (from, paying - amount))?;
        sql.exec(SET, (to, paid + amount))?;
        Ok(())
    }
}
