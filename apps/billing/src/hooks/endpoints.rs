//! The object that stores all endpoints.

use abide::prelude::*;

use super::{Endpoint, NewEndpoint, Registered, limits};
use crate::{BillingError, Time};

/// The name of the only object.
const ALL: &str = "all";

/// The endpoints of a node, in one object.
#[durable_object]
pub struct Endpoints {
    ctx: Ctx,
}

/// The object that knows the endpoints.
pub(crate) fn endpoints(env: &Env) -> Stub<Endpoints> {
    env.object::<Endpoints>().get_by_name(ALL)
}

impl DurableObject for Endpoints {
    fn new(ctx: Ctx, _env: Env) -> Result<Self> {
        ctx.sql().exec(
            "CREATE TABLE IF NOT EXISTS endpoints (
                 id TEXT PRIMARY KEY, url TEXT NOT NULL, events TEXT NOT NULL, secret TEXT NOT NULL, created_at INTEGER NOT NULL
             ) WITHOUT ROWID",
            (),
        )?;
        Ok(Self { ctx })
    }
}

#[rpc]
impl Endpoints {
    /// Registers an endpoint, and returns its secret.
    pub async fn register(&self, id: String, new: NewEndpoint) -> Result<Registered, BillingError> {
        let now = Time::now(&**self.ctx.env().clock());
        let (endpoint, secret) = new.register(id, now)?;
        let known = self.all()?;
        if known.iter().any(|known| known.id == endpoint.id) {
            return Err(BillingError::invalid(format!(
                "{} is already registered.",
                endpoint.id
            )));
        }
        if known.len() >= limits::MAX_ENDPOINTS {
            return Err(BillingError::invalid(format!(
                "The limit of {} endpoints is reached: delete one.",
                limits::MAX_ENDPOINTS
            )));
        }
        let secret = secret.reveal();
        let events = serde_json::to_string(&endpoint.events).map_err(Error::from_std)?;
        self.ctx.sql().exec(
            "INSERT INTO endpoints (id, url, events, secret, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            (&endpoint.id, &endpoint.url, events, &secret, now.0),
        )?;
        Ok(Registered { endpoint, secret })
    }

    /// All endpoints, the oldest first.
    pub async fn list(&self) -> Result<Vec<Endpoint>> {
        self.all()
    }

    /// One endpoint.
    pub async fn show(&self, id: String) -> Result<Endpoint, BillingError> {
        self.find(&id)
    }

    /// Removes an endpoint. Messages waiting for it become dead letters of its outbox.
    pub async fn remove(&self, id: String) -> Result<Endpoint, BillingError> {
        let endpoint = self.find(&id)?;
        let sql = self.ctx.sql();
        sql.exec("DELETE FROM endpoints WHERE id = ?1", (id,))?;
        Ok(endpoint)
    }

    /// The URL and the secret of an endpoint while it is registered.
    pub async fn registration(&self, id: String) -> Result<Option<(String, String)>> {
        let sql = self.ctx.sql();
        sql.exec("SELECT url, secret FROM endpoints WHERE id = ?1", (id,))?
            .optional()
    }

    fn find(&self, id: &str) -> Result<Endpoint, BillingError> {
        let found = self.all()?.into_iter().find(|known| known.id == id);
        found.ok_or_else(|| BillingError::not_found("endpoint", id))
    }

    fn all(&self) -> Result<Vec<Endpoint>> {
        let rows = self.ctx.sql().exec(
            "SELECT id, url, events, created_at FROM endpoints ORDER BY created_at, id",
            (),
        )?;
        let rows: Vec<(String, String, String, i64)> = rows.all()?;
        rows.into_iter()
            .map(|(id, url, events, created_at)| {
                Ok(Endpoint {
                    id,
                    url,
                    events: serde_json::from_str(&events).map_err(Error::from_std)?,
                    created_at: Time(created_at),
                })
            })
            .collect()
    }
}
