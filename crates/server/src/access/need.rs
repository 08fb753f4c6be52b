//! The permissions that a request requires.

use std::fmt;

use http::{Method, StatusCode};

use super::{Caller, Role};
use crate::ApiError;

/// The permissions that a request requires.
#[derive(Clone, Debug)]
pub struct Need {
    role: Role,
    pub(super) object: Option<Target>,
    pub(super) action: Option<&'static str>,
    pub(super) detail: Option<String>,
    pub(super) with_body: bool,
}

/// The object that a request concerns.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// `Class/name`.
    Named(String),
    /// An id does not reveal the name that it was derived from.
    ById { class: String, id: String },
}

impl Target {
    /// Whether the caller may access it.
    fn is_open_to(&self, caller: &Caller) -> bool {
        match self {
            Self::Named(name) => caller.may_reach(Some(name)),
            Self::ById { class, .. } => caller.may_reach_all_of(class),
        }
    }
}

/// The form used in the audit log.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::ById { class, id } => write!(f, "{class}/{id}"),
        }
    }
}

impl Need {
    /// At least this role.
    pub fn role(role: Role) -> Self {
        Self {
            role,
            object: None,
            action: None,
            detail: None,
            with_body: false,
        }
    }

    /// [`Role::Read`] for GET and HEAD, [`Role::Operate`] for anything else.
    pub fn by_method(method: &Method) -> Self {
        Self::role(if matches!(*method, Method::GET | Method::HEAD) {
            Role::Read
        } else {
            Role::Operate
        })
    }

    /// Access to this object. A token restricted to certain objects is admitted only to routes that name one.
    #[must_use]
    pub fn object(mut self, class: &str, name: &str) -> Self {
        self.object = Some(Target::Named(format!("{class}/{name}")));
        self
    }

    /// Access to the object with this id. An id does not reveal the object's name, so a token restricted to certain
    /// names does not grant access; one for all objects of the class does.
    #[must_use]
    pub fn object_by_id(mut self, class: &str, id: &str) -> Self {
        self.object = Some(Target::ById {
            class: class.to_owned(),
            id: id.to_owned(),
        });
        self
    }

    /// A row in the audit log, with the name of this action.
    #[must_use]
    pub fn audited(mut self, action: &'static str) -> Self {
        self.action = Some(action);
        self
    }

    /// Details of the action, for its row.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds the request's body to the row. It must not contain secrets, and have at most [`limits::MAX_AUDIT_DETAIL`]
    /// bytes.
    #[must_use]
    pub(crate) fn with_body(mut self) -> Self {
        self.with_body = true;
        self
    }

    /// Whether the caller has these permissions.
    pub(super) fn check(&self, caller: &Caller) -> Result<(), ApiError> {
        if caller.role() < self.role {
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "role_too_low",
                format!(
                    "This requires the role {}; the caller has {}.",
                    self.role,
                    caller.role()
                ),
            ));
        }
        if !may_reach(caller, self.object.as_ref()) {
            return Err(object_not_allowed());
        }
        Ok(())
    }
}

/// True if what the request names is open to the caller; without a name, if everything is.
fn may_reach(caller: &Caller, object: Option<&Target>) -> bool {
    match object {
        Some(object) => object.is_open_to(caller),
        None => caller.may_reach(None),
    }
}

/// The error for an object that the caller may not access.
pub(crate) fn object_not_allowed() -> ApiError {
    ApiError::new(
        StatusCode::FORBIDDEN,
        "object_not_allowed",
        "The token is restricted to other objects, identified by class and name.",
    )
}
