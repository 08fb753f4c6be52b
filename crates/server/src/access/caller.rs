//! The sender of a request.

use std::{convert::Infallible, fmt};

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::{Role, Token};

/// The sender of a request and their permissions. Protected routes can use it as an extractor.
#[derive(Clone, Debug)]
pub struct Caller {
    identity: Identity,
    role: Role,
    object_prefix: Option<String>,
}

#[derive(Clone, Debug)]
enum Identity {
    Anyone,
    LocalUser(u32),
    Token(String),
    Other(String),
}

/// The user of a local process that is connected over the node's Unix socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalUser(pub(crate) u32);

impl Caller {
    /// A caller identified by a program's own check, and their role.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self {
            identity: Identity::Other(name.into()),
            role,
            object_prefix: None,
        }
    }

    /// Restricts the caller to objects whose `Class/name` begins with this prefix.
    #[must_use]
    pub fn for_objects(mut self, prefix: impl Into<String>) -> Self {
        self.object_prefix = Some(prefix.into());
        self
    }

    /// Anyone who reaches a listener that is open to all.
    pub(super) fn anyone() -> Self {
        Self {
            identity: Identity::Anyone,
            role: Role::Admin,
            object_prefix: None,
        }
    }

    pub(super) fn local(user: LocalUser) -> Self {
        Self {
            identity: Identity::LocalUser(user.0),
            role: Role::Admin,
            object_prefix: None,
        }
    }

    pub(super) fn token(token: &Token) -> Self {
        Self {
            identity: Identity::Token(token.id.clone()),
            role: token.role,
            object_prefix: token.object_prefix.clone(),
        }
    }

    /// The id of the caller's token, as a number.
    pub(super) fn token_number(&self) -> Option<u64> {
        match &self.identity {
            Identity::Token(id) => u64::from_str_radix(id, 16).ok(),
            _ => None,
        }
    }

    /// The id of the caller's token.
    pub(super) fn token_id(&self) -> Option<&str> {
        match &self.identity {
            Identity::Token(id) => Some(id),
            _ => None,
        }
    }

    /// The caller's role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether the caller may access an object, named `Class/name`. `None` is a route that concerns no single object:
    /// only a caller without a prefix may use it.
    pub fn may_reach(&self, object: Option<&str>) -> bool {
        match (&self.object_prefix, object) {
            (None, _) => true,
            (Some(prefix), Some(object)) => object.starts_with(prefix),
            (Some(_), None) => false,
        }
    }

    /// Whether the caller may access every object of a class, whatever its name.
    pub fn may_reach_all_of(&self, class: &str) -> bool {
        let prefix = self.object_prefix.as_deref().unwrap_or_default();
        format!("{class}/").starts_with(prefix)
    }
}

/// The form used in the audit log.
impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.identity {
            Identity::Anyone => f.write_str("anyone"),
            Identity::LocalUser(uid) => write!(f, "user {uid}"),
            Identity::Token(id) => write!(f, "token {id}"),
            Identity::Other(name) => f.write_str(name),
        }
    }
}

/// On an unprotected route: anyone, with the role to read.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let known = parts.extensions.get::<Self>().cloned();
        Ok(known.unwrap_or(Self {
            role: Role::Read,
            ..Self::anyone()
        }))
    }
}
