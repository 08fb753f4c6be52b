//! Errors that clients receive when a request is refused.

use abide::{Error, server::ApiError};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::{
    browser::{outcome::PageError, pool::PoolError},
    limits,
    request::Invalid,
};

/// Why a session did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum SessionError {
    /// No pictures.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The store of pictures failed.
    #[error("The pictures cannot be stored: {0}. Nothing was changed in the list; try again.")]
    Store(String),
    /// The pictures cannot be removed.
    #[error("The pictures cannot be removed: {0}. Try again.")]
    NotRemoved(String),
    /// There is no such screenshot.
    #[error("There is no screenshot with this id in this session.")]
    NotFound,
    /// It is being taken.
    #[error("The screenshot is being taken. Try again when it is done.")]
    InProgress,
    /// The session stores too many.
    #[error(
        "The session stores {} screenshots, as many as it may: delete some, or use another session.",
        limits::MAX_SHOTS
    )]
    Full,
    /// The session has too many within five minutes.
    #[error(
        "The session has taken screenshots of {} pages in these five minutes, as many as it may: use another session.",
        limits::MAX_KEYS
    )]
    TooManyKeys,
    /// No browser is open.
    #[error("The session has no open browser. A screenshot opens one.")]
    NotOpen,
    /// The browser has pages.
    #[error("The session's browser is at work. Try again when it is done.")]
    AtWork,
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        let text = error.to_string();
        let new = |status, code| Self::new(status, code, text.clone());
        match error {
            SessionError::Pool(PoolError::Busy) => {
                new(StatusCode::SERVICE_UNAVAILABLE, "browsers_busy").retry_soon()
            }
            SessionError::Pool(PoolError::NoBrowser(_)) => {
                new(StatusCode::SERVICE_UNAVAILABLE, "no_browser")
            }
            SessionError::Pool(PoolError::Page(error)) => match error {
                PageError::Forbidden(_) => new(StatusCode::FORBIDDEN, "forbidden_address"),
                PageError::Unreachable(_) => new(StatusCode::BAD_GATEWAY, "page_unreachable"),
                PageError::TooSlow { .. } => new(StatusCode::GATEWAY_TIMEOUT, "page_too_slow"),
                PageError::TooLarge { .. } => new(StatusCode::BAD_GATEWAY, "page_too_large"),
                PageError::TooMuchMemory { .. } => new(StatusCode::BAD_GATEWAY, "too_much_memory"),
                PageError::PicturesTooLarge { .. } => {
                    new(StatusCode::UNPROCESSABLE_ENTITY, "pictures_too_large")
                }
                PageError::Step { .. } => new(StatusCode::UNPROCESSABLE_ENTITY, "step_failed"),
                PageError::Interrupted => new(StatusCode::BAD_GATEWAY, "steps_interrupted"),
                PageError::Crashed => new(StatusCode::BAD_GATEWAY, "page_crashed"),
                PageError::Refused(_) | PageError::Gone => {
                    new(StatusCode::BAD_GATEWAY, "browser_failed")
                }
            },
            SessionError::Store(_) | SessionError::NotRemoved(_) => {
                new(StatusCode::BAD_GATEWAY, "store_failed")
            }
            SessionError::NotFound => Self::not_found("no_such_screenshot", text),
            SessionError::InProgress => Self::conflict("in_progress", text),
            SessionError::Full => Self::conflict("session_full", text),
            SessionError::TooManyKeys => {
                new(StatusCode::TOO_MANY_REQUESTS, "too_many_pages").retry_soon()
            }
            SessionError::NotOpen => Self::conflict("no_open_browser", text),
            SessionError::AtWork => Self::conflict("browser_at_work", text),
            SessionError::Object(error) => error.into(),
        }
    }
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        let text = invalid.to_string();
        match invalid {
            Invalid::Url => Self::bad_request("invalid_url", text),
            Invalid::Size | Invalid::Sizes | Invalid::OneSize => {
                Self::bad_request("invalid_sizes", text)
            }
            Invalid::Quality => Self::bad_request("invalid_quality", text),
            Invalid::Delay => Self::bad_request("invalid_delay", text),
            Invalid::Paper => Self::bad_request("invalid_paper", text),
            Invalid::Steps(_) => Self::bad_request("invalid_steps", text),
            Invalid::Forbidden(_) => Self::new(StatusCode::FORBIDDEN, "forbidden_address", text),
        }
    }
}
