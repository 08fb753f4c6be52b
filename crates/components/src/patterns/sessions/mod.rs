//! Sessions: who is logged in, and until when.
//!
//! An object that holds [`Sessions`] makes one when a user logs in, and hands its id to the client, in a cookie for
//! instance. Each request presents the id. A session ends after its lifetime, by the object's alarm, or when the user
//! logs out.
//!
//! - A session is on disk before its client has the id, and one that was ended stays ended, also after a crash.
//! - An id is 160 random bits, and only its SHA-256 is stored: reading the database, or a copy, lets no one log in.
//! - [`Sessions::end_all_of`] ends all sessions of one subject, such as after a change of the password.
//!
//! ```
//! use abide::prelude::*;
//! use abide::patterns::sessions::{SessionOptions, SessionError, Sessions};
//!
//! #[durable_object]
//! struct Account {
//!     sessions: Sessions,
//! }
//!
//! impl DurableObject for Account {
//!     fn new(ctx: Ctx, _env: Env) -> Result<Self> {
//!         let sessions = Sessions::open(&ctx, SessionOptions::default())?;
//!         Ok(Self { sessions })
//!     }
//! }
//!
//! #[rpc]
//! impl Account {
//!     /// The value of the cookie.
//!     pub async fn log_in(&self, user: String, device: String) -> Result<String, SessionError> {
//!         Ok(self.sessions.create(&user, &device)?.id)
//!     }
//!
//!     pub async fn who(&self, id: String) -> Result<Option<String>, SessionError> {
//!         Ok(self.sessions.get::<String>(&id)?.map(|session| session.subject))
//!     }
//!
//!     pub async fn log_out(&self, id: String) -> Result<bool, SessionError> {
//!         self.sessions.end(&id)
//!     }
//! }
//! # fn main() {}
//! ```

mod error;
mod id;
mod options;
mod rows;

use std::rc::Rc;

use abide::{Ctx, Result};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{limits, now, wrong_length};
use abide_component::{WakeUp, numbers::millis};
use rows::Rows;

pub use error::SessionError;
pub use options::SessionOptions;

/// The alarm that deletes what has expired.
const ALARM: &str = "sessions";

/// An object's sessions. Clones are the same sessions.
#[derive(Clone, Debug)]
pub struct Sessions(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    ctx: Ctx,
    options: SessionOptions,
    alarm: WakeUp,
    rows: Rows,
}

/// A session that was just made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSession {
    /// The id that its client presents. It is a secret, and only its hash is stored.
    pub id: String,
    /// When it ends, in milliseconds since 1970.
    pub expires_at: i64,
}

/// A session that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session<T> {
    /// Whose it is.
    pub subject: String,
    /// What the program knows of it.
    pub data: T,
    /// When it began, in milliseconds since 1970.
    pub created_at: i64,
    /// When it ends, in milliseconds since 1970.
    pub expires_at: i64,
}

impl Sessions {
    /// Opens the sessions of an object, in its constructor; makes their tables, whose names begin with `sessions`, when
    /// there are none. They have the object's alarm `sessions`.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](abide::ErrorKind::Input) if an option is invalid or the object has sessions already,
    /// [`ErrorKind::Damaged`](abide::ErrorKind::Damaged) if the tables are of a version that this program does not know.
    pub fn open(ctx: &Ctx, options: SessionOptions) -> Result<Self> {
        options.check()?;
        let inner = Rc::new(Inner {
            ctx: ctx.clone(),
            options,
            alarm: WakeUp::new(ctx, ALARM),
            rows: Rows::open(ctx)?,
        });
        let sweeping = Rc::clone(&inner);
        ctx.on_alarm(ALARM, move |_| std::future::ready(sweeping.sweep()))?;
        Ok(Self(inner))
    }

    /// Makes a session of a subject, such as a user, with data of the program.
    pub fn create<T: Serialize + ?Sized>(
        &self,
        subject: &str,
        data: &T,
    ) -> Result<NewSession, SessionError> {
        if let Some(wrong) = wrong_length("the subject", subject, limits::MAX_SUBJECT_BYTES) {
            return Err(SessionError::Invalid(wrong));
        }
        let data = to_text(data)?;
        let inner = &self.0;
        let now = now(&inner.ctx);
        let max = inner.options.max_sessions;
        if inner.rows.count()? >= i64::from(max) {
            inner.sweep()?;
            if inner.rows.count()? >= i64::from(max) {
                return Err(SessionError::Full { max });
            }
        }
        let id = id::generate(inner.ctx.env());
        let expires_at = now.saturating_add(millis(inner.options.lifetime));
        inner.rows.insert(&id, subject, &data, now, expires_at)?;
        inner.alarm.not_later_than(expires_at)?;
        Ok(NewSession { id, expires_at })
    }

    /// The session with this id, if it has not ended. Writes nothing.
    pub fn get<T: DeserializeOwned>(&self, id: &str) -> Result<Option<Session<T>>, SessionError> {
        let inner = &self.0;
        let Some(row) = inner.rows.get(id, now(&inner.ctx))? else {
            return Ok(None);
        };
        let data = serde_json::from_str(&row.data);
        let data = data.map_err(|error| SessionError::Data(error.to_string()))?;
        Ok(Some(Session {
            subject: row.subject,
            data,
            created_at: row.created_at,
            expires_at: row.expires_at,
        }))
    }

    /// Extends a session to one lifetime from now, and at most to [`SessionOptions::max_lifetime`] after it began. Returns
    /// when it ends; `None` if it has ended.
    pub fn renew(&self, id: &str) -> Result<Option<i64>, SessionError> {
        let inner = &self.0;
        let now = now(&inner.ctx);
        let Some(row) = inner.rows.get(id, now)? else {
            return Ok(None);
        };
        let wanted = now.saturating_add(millis(inner.options.lifetime));
        let most = row
            .created_at
            .saturating_add(millis(inner.options.max_lifetime));
        // A session that was made with longer lifetimes keeps its end.
        let expires_at = wanted.min(most).max(row.expires_at);
        if expires_at != row.expires_at {
            inner.rows.set_end(id, expires_at)?;
        }
        Ok(Some(expires_at))
    }

    /// Replaces the program's data of a session. False if the session has ended.
    pub fn update<T: Serialize + ?Sized>(&self, id: &str, data: &T) -> Result<bool, SessionError> {
        let data = to_text(data)?;
        let inner = &self.0;
        Ok(inner.rows.set_data(id, &data, now(&inner.ctx))?)
    }

    /// Ends a session. False if it had ended already.
    pub fn end(&self, id: &str) -> Result<bool, SessionError> {
        let inner = &self.0;
        Ok(inner.rows.delete(id, now(&inner.ctx))?)
    }

    /// Ends all sessions of a subject. Returns how many.
    pub fn end_all_of(&self, subject: &str) -> Result<i64, SessionError> {
        let inner = &self.0;
        Ok(inner.rows.delete_of(subject, now(&inner.ctx))?)
    }

    /// How many sessions have not ended.
    pub fn count(&self) -> Result<i64> {
        self.0.rows.count_at(now(&self.0.ctx))
    }
}

impl Inner {
    /// Deletes expired sessions, and sets the alarm for the next one.
    fn sweep(&self) -> Result<()> {
        let now = now(&self.ctx);
        let swept = self.rows.delete_expired(now)?;
        let next = if swept == limits::MAX_SESSIONS_SWEPT {
            Some(now)
        } else {
            self.rows.next_end()?
        };
        self.alarm.set(next)
    }
}

fn to_text<T: Serialize + ?Sized>(data: &T) -> Result<String, SessionError> {
    let text =
        serde_json::to_string(data).map_err(|error| SessionError::Data(error.to_string()))?;
    if text.len() > limits::MAX_SESSION_BYTES {
        return Err(SessionError::Invalid(format!(
            "the session's data have {} bytes as JSON, and at most {} are allowed: keep the rest in storage",
            text.len(),
            limits::MAX_SESSION_BYTES
        )));
    }
    Ok(text)
}

impl std::fmt::Debug for NewSession {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewSession")
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}
