//! Settings: one TOML file with the origin and the rooms.
//!
//! Contract: what comes out of [`Settings::parse`] can be used; what cannot is refused with a sentence that names the key, shows the
//! value and says what is expected. Unknown keys are refused.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use abide::server::{AddressBlock, RequestHost};
use http::{HeaderName, Method as HttpMethod, StatusCode, Uri};
use thiserror::Error;

pub use path::PathCase;
use path::{may_be_below, must_be_below};

use crate::logic::{
    bucket::Draw,
    division::Division,
    minute::Minute,
    plan::{Method, Rules},
    slots::Limits,
};

/// Why settings were refused.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{path}: {source}; name the file with the rooms with --rooms")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or not of this shape.
    #[error("{path}: {source}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What and where.
        source: Box<toml::de::Error>,
    },
    /// A value that a setting cannot take.
    #[error("{path}: `{key}` is {value}; expected {expected}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The setting.
        key: String,
        /// What it is.
        value: String,
        /// What it may be.
        expected: String,
    },
}

/// All settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where requests go: scheme and authority.
    pub origin: Uri,
    /// How long a minute is.
    pub minute: Duration,
    /// How often a page looks at the queue.
    pub refresh: Duration,
    /// Whether the origin distinguishes the case of paths.
    pub path_case: PathCase,
    /// The header, written by a proxy in front, that names the data centre of a request.
    pub data_centre_header: Option<HeaderName>,
    /// Rooms; those with longer paths first.
    pub rooms: Vec<RoomSettings>,
}

/// The settings of a room.
#[derive(Clone, Debug)]
pub struct RoomSettings {
    /// What it is called, in object names, cookies and addresses.
    pub name: String,
    /// The name of the host that it is for, in lower case; every host if absent.
    pub host: Option<String>,
    /// The path that it is for, with everything below.
    pub path: String,
    /// What it does outside of an event.
    pub limits: Limits,
    /// How slots are divided.
    pub division: Division,
    /// What happens when it is full.
    pub method: Method,
    /// How long a visitor stays inside without a request.
    pub session: Duration,
    /// Every visitor who is not inside is queued.
    pub queue_all: bool,
    /// Clients that ask for JSON get JSON.
    pub json: bool,
    /// The status of the queue page.
    pub status: StatusCode,
    /// The queue page's own template.
    pub template: Option<String>,
    /// Requests that do not wait.
    pub bypass: Vec<Bypass>,
    /// A planned event.
    pub event: Option<Event>,
}

/// Requests that do not wait: those that fit everything that is given.
#[derive(Clone, Debug)]
pub struct Bypass {
    /// Paths that begin so.
    pub path: Option<String>,
    /// This method.
    pub method: Option<HttpMethod>,
    /// Clients of these addresses.
    pub address: Option<AddressBlock>,
    /// A header with this value.
    pub header: Option<(HeaderName, String)>,
}

/// A planned event. Times are milliseconds since 1970.
#[derive(Clone, Debug)]
pub struct Event {
    /// From when on every visitor is queued.
    pub pre_queue: u64,
    /// When the queue begins to move.
    pub starts: u64,
    /// When the room's own settings hold again.
    pub ends: u64,
    /// Whether a draw at the start gives those who wait their places.
    pub shuffle: bool,
    /// The limits meanwhile.
    pub limits: Limits,
    /// The method meanwhile.
    pub method: Method,
}

impl Settings {
    /// Whether a room names a host. Then requests of other hosts are for no room, and do not reach the origin.
    pub fn names_hosts(&self) -> bool {
        self.rooms.iter().any(|room| room.host.is_some())
    }

    /// Whether a room is for this host, by name.
    pub fn names_host(&self, host: &RequestHost) -> bool {
        let mut rooms = self.rooms.iter();
        rooms.any(|room| room.host.as_deref() == Some(host.name()))
    }
}

impl RoomSettings {
    /// What the room does at a moment, if a minute has this many milliseconds.
    pub fn rules(&self, now: u64, minute_millis: u64) -> Rules {
        let event = self
            .event
            .as_ref()
            .filter(|event| (event.pre_queue..event.ends).contains(&now));
        let (limits, method) = event.map_or((self.limits, self.method), |event| {
            (event.limits, event.method)
        });
        let gathers = event.is_some_and(|event| now < event.starts);
        Rules {
            limits,
            division: self.division,
            // Before an event starts, visitors are queued: none is rejected and none admitted.
            method: if gathers || self.queue_all {
                Method::Fifo
            } else {
                method
            },
            holds_all: gathers || self.queue_all,
            session_minutes: self.session.as_millis() as f64 / minute_millis.max(1) as f64,
            draw: self.draw(minute_millis).filter(|draw| draw.at <= now),
        }
    }

    /// The draw of the event.
    pub fn draw(&self, minute_millis: u64) -> Option<Draw> {
        let event = self.event.as_ref().filter(|event| event.shuffle)?;
        Some(Draw {
            at: event.starts,
            minute: Minute::at(event.starts, minute_millis),
        })
    }

    /// Whether a request is for this room: by its path as it was sent, or as an origin may read it.
    pub fn is_for(&self, host: Option<&RequestHost>, path: &str, case: PathCase) -> bool {
        let host_fits = self
            .host
            .as_deref()
            .is_none_or(|own| host.is_some_and(|host| host.name() == own));
        host_fits && may_be_below(&self.path, path, case)
    }
}

impl Bypass {
    /// Whether a request need not wait.
    pub fn lets(
        &self,
        method: &HttpMethod,
        path: &str,
        headers: &http::HeaderMap,
        client: IpAddr,
    ) -> bool {
        let header_fits = self.header.as_ref().is_none_or(|(name, value)| {
            headers
                .get_all(name)
                .iter()
                .any(|sent| sent.as_bytes() == value.as_bytes())
        });
        // However the origin reads it.
        let path_fits = self
            .path
            .as_ref()
            .is_none_or(|below| must_be_below(below, path));
        path_fits
            && self.method.as_ref().is_none_or(|own| own == method)
            && self
                .address
                .as_ref()
                .is_none_or(|block| block.contains(client))
            && header_fits
    }
}

mod path;
mod read;
#[cfg(test)]
mod tests;
