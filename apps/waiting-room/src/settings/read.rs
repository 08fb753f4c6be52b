//! From the text of the file to [`Settings`]: the shape first, then each value.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use abide::server::RequestHost;
use http::{HeaderName, StatusCode, Uri};
use serde::Deserialize;

use super::{Bypass, Event, PathCase, RoomSettings, Settings, SettingsError};
use crate::logic::{division::Division, plan::Method, slots::Limits};

/// Longest name of a room.
const MAX_NAME: usize = 64;
/// Most rooms of one program.
const MAX_ROOMS: usize = 100;
/// Shortest and longest session.
const SESSION: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24));
/// Shortest and longest time between two looks at the queue.
const REFRESH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// Shortest and longest minute.
const MINUTE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// Longest time for which visitors gather before an event.
const MAX_PRE_QUEUE: Duration = Duration::from_hours(24);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    origin: String,
    minute: Option<String>,
    refresh: Option<String>,
    data_centre_header: Option<String>,
    #[serde(default)]
    paths_distinguish_case: bool,
    #[serde(default)]
    rooms: Vec<RoomFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoomFile {
    name: String,
    host: Option<String>,
    path: Option<String>,
    total_active_users: u64,
    new_users_per_minute: u64,
    session_duration: Option<String>,
    queueing_method: Option<Method>,
    division: Option<DivisionName>,
    curve_factor: Option<f64>,
    #[serde(default)]
    queue_all: bool,
    json_response: Option<bool>,
    status_code: Option<u16>,
    template: Option<PathBuf>,
    #[serde(default)]
    bypass: Vec<BypassFile>,
    event: Option<EventFile>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DivisionName {
    Even,
    Curve,
    Counters,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BypassFile {
    path: Option<String>,
    method: Option<String>,
    address: Option<String>,
    header: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventFile {
    starts: String,
    ends: String,
    pre_queue: Option<String>,
    #[serde(default)]
    shuffle: bool,
    total_active_users: Option<u64>,
    new_users_per_minute: Option<u64>,
    queueing_method: Option<Method>,
}

impl Settings {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        let text = std::fs::read_to_string(path).map_err(|source| SettingsError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &text)
    }

    /// Reads the text of a file. Templates are in the same directory.
    pub fn parse(path: &Path, text: &str) -> Result<Self, SettingsError> {
        let file: File = toml::from_str(text).map_err(|source| SettingsError::Malformed {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let reader = Reader { path };
        let origin = reader.origin(&file.origin)?;
        let minute = reader.duration(
            "minute",
            file.minute.as_deref(),
            Duration::from_mins(1),
            MINUTE,
        )?;
        let refresh = reader.duration(
            "refresh",
            file.refresh.as_deref(),
            Duration::from_secs(20),
            REFRESH,
        )?;
        let data_centre_header = file
            .data_centre_header
            .map(|name| reader.header("data_centre_header", &name))
            .transpose()?;
        if file.rooms.is_empty() || file.rooms.len() > MAX_ROOMS {
            return Err(reader.invalid(
                "rooms",
                file.rooms.len(),
                &format!("1 to {MAX_ROOMS} tables [[rooms]]"),
            ));
        }
        let mut rooms: Vec<RoomSettings> = Vec::new();
        for (index, room) in file.rooms.into_iter().enumerate() {
            let room = reader.room(index, room)?;
            if rooms.iter().any(|other| other.name == room.name) {
                return Err(reader.invalid(
                    &format!("rooms[{index}].name"),
                    &room.name,
                    "a name that no other room has",
                ));
            }
            rooms.push(room);
        }
        rooms.sort_by_key(|room| (std::cmp::Reverse(room.path.len()), room.host.is_none()));
        Ok(Self {
            origin,
            minute,
            refresh,
            path_case: if file.paths_distinguish_case {
                PathCase::Distinguished
            } else {
                PathCase::Ignored
            },
            data_centre_header,
            rooms,
        })
    }
}

/// Reads values, and knows the file for messages.
struct Reader<'a> {
    path: &'a Path,
}

impl Reader<'_> {
    fn invalid(&self, key: &str, value: impl std::fmt::Debug, expected: &str) -> SettingsError {
        SettingsError::Invalid {
            path: self.path.to_owned(),
            key: key.to_owned(),
            value: format!("{value:?}"),
            expected: expected.to_owned(),
        }
    }

    fn origin(&self, text: &str) -> Result<Uri, SettingsError> {
        let expected =
            "the address of the application, such as \"http://127.0.0.1:3000\", without a path";
        let uri: Uri = text
            .parse()
            .map_err(|_| self.invalid("origin", text, expected))?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_user = uri
            .authority()
            .is_none_or(|authority| authority.as_str().contains('@'));
        if is_web && !has_user && matches!(uri.path(), "" | "/") && uri.query().is_none() {
            Ok(uri)
        } else {
            Err(self.invalid("origin", text, expected))
        }
    }

    fn duration(
        &self,
        key: &str,
        text: Option<&str>,
        default: Duration,
        (least, most): (Duration, Duration),
    ) -> Result<Duration, SettingsError> {
        let Some(text) = text else { return Ok(default) };
        let parsed = text.parse::<jiff::SignedDuration>().ok();
        let parsed = parsed.and_then(|duration| Duration::try_from(duration).ok());
        parsed
            .filter(|duration| (least..=most).contains(duration))
            .ok_or_else(|| {
                let range = format!(
                    "a duration from {least:?} to {most:?}, such as \"20s\", \"5m\" or \"1h\""
                );
                self.invalid(key, text, &range)
            })
    }

    fn header(&self, key: &str, name: &str) -> Result<HeaderName, SettingsError> {
        let expected = "the name of a header, such as \"x-data-centre\"";
        name.parse().map_err(|_| self.invalid(key, name, expected))
    }

    fn host(&self, key: &str, host: &str) -> Result<String, SettingsError> {
        let parsed = host.parse::<RequestHost>().ok();
        let named = parsed.filter(|host| host.port().is_none());
        let expected = "a host name without a port, such as \"shop.example.com\"";
        let named = named.ok_or_else(|| self.invalid(key, host, expected))?;
        Ok(named.name().to_owned())
    }

    fn count(&self, key: &str, count: u64) -> Result<u64, SettingsError> {
        if (1..=10_000_000).contains(&count) {
            return Ok(count);
        }
        Err(self.invalid(
            key,
            count,
            "1 to 10000000; `queue_all = true` admits no visitor",
        ))
    }

    fn room(&self, index: usize, file: RoomFile) -> Result<RoomSettings, SettingsError> {
        let key = |name: &str| format!("rooms[{index}].{name}");
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=MAX_NAME).contains(&file.name.len()) || !file.name.bytes().all(fits) {
            let expected = format!("1 to {MAX_NAME} lower-case letters, digits and hyphens");
            return Err(self.invalid(&key("name"), &file.name, &expected));
        }
        let path = file.path.unwrap_or_else(|| "/".to_owned());
        if !path.starts_with('/') || path.contains(['?', '#']) {
            return Err(self.invalid(
                &key("path"),
                &path,
                "a path that begins with a slash, such as \"/tickets\"",
            ));
        }
        let host = file
            .host
            .map(|host| self.host(&key("host"), &host))
            .transpose()?;
        let limits = Limits {
            total_active_users: self.count(&key("total_active_users"), file.total_active_users)?,
            new_users_per_minute: self
                .count(&key("new_users_per_minute"), file.new_users_per_minute)?,
        };
        let method = file.queueing_method.unwrap_or_default();
        let status = file.status_code.unwrap_or(200);
        let status = StatusCode::from_u16(status)
            .ok()
            .filter(|code| matches!(code.as_u16(), 200 | 202 | 400..=599));
        Ok(RoomSettings {
            host,
            path,
            limits,
            division: self.division(&key("curve_factor"), file.division, file.curve_factor)?,
            method,
            session: self.duration(
                &key("session_duration"),
                file.session_duration.as_deref(),
                Duration::from_mins(5),
                SESSION,
            )?,
            queue_all: file.queue_all,
            json: file.json_response.unwrap_or(true),
            status: status.ok_or_else(|| {
                self.invalid(
                    &key("status_code"),
                    file.status_code,
                    "200, 202 or 400 to 599",
                )
            })?,
            template: file
                .template
                .map(|template| self.template(&key("template"), &template))
                .transpose()?,
            bypass: file
                .bypass
                .into_iter()
                .enumerate()
                .map(|(rule, bypass)| self.bypass(&key(&format!("bypass[{rule}]")), bypass))
                .collect::<Result<_, _>>()?,
            event: file
                .event
                .map(|event| self.event(&key("event"), &event, limits, method))
                .transpose()?,
            name: file.name,
        })
    }

    fn division(
        &self,
        key: &str,
        name: Option<DivisionName>,
        factor: Option<f64>,
    ) -> Result<Division, SettingsError> {
        let factor = factor.unwrap_or(1.0);
        if !(0.0..=10.0).contains(&factor) {
            return Err(self.invalid(key, factor, "0 to 10"));
        }
        Ok(match name {
            Some(DivisionName::Even) => Division::Even,
            Some(DivisionName::Curve) => Division::Curve { factor },
            Some(DivisionName::Counters) | None => Division::Counters,
        })
    }

    fn template(&self, key: &str, template: &Path) -> Result<String, SettingsError> {
        let beside = self.path.parent().unwrap_or(Path::new("."));
        let path = beside.join(template);
        let refused = |why: String| {
            let expected = format!("a file with a page in HTML with Jinja's placeholders ({why})");
            self.invalid(key, &path, &expected)
        };
        let text = std::fs::read_to_string(&path).map_err(|error| refused(error.to_string()))?;
        crate::pages::template::check(&text).map_err(|error| refused(error.to_string()))?;
        Ok(text)
    }

    fn bypass(&self, key: &str, file: BypassFile) -> Result<Bypass, SettingsError> {
        let of = |name: &str| format!("{key}.{name}");
        let method = file.method.map(|text| {
            let expected = "a method in capitals, such as \"OPTIONS\"";
            text.parse()
                .map_err(|_| self.invalid(&of("method"), &text, expected))
        });
        let address = file.address.map(|text| {
            let expected = "an address or a block of addresses, such as \"10.0.0.0/8\"";
            text.parse()
                .map_err(|()| self.invalid(&of("address"), &text, expected))
        });
        let header = match (file.header, file.value) {
            (Some(name), Some(value)) => Some((self.header(&of("header"), &name)?, value)),
            (None, None) => None,
            _ => return Err(self.invalid(key, "half a header", "both `header` and `value`")),
        };
        let bypass = Bypass {
            path: file.path,
            method: method.transpose()?,
            address: address.transpose()?,
            header,
        };
        let Bypass {
            path,
            method,
            address,
            header,
        } = &bypass;
        if path.is_none() && method.is_none() && address.is_none() && header.is_none() {
            return Err(self.invalid(key, "empty", "at least one of `path`, `method`, `address`, `header`: an empty rule would let every request pass"));
        }
        Ok(bypass)
    }

    fn event(
        &self,
        key: &str,
        file: &EventFile,
        limits: Limits,
        method: Method,
    ) -> Result<Event, SettingsError> {
        let of = |name: &str| format!("{key}.{name}");
        let moment = |name: &str, text: &str| {
            let parsed = text.parse::<jiff::Timestamp>().ok();
            let millis = parsed.and_then(|at| u64::try_from(at.as_millisecond()).ok());
            millis.ok_or_else(|| {
                self.invalid(
                    &of(name),
                    text,
                    "a moment with its offset, such as \"2026-12-01T18:00:00Z\"",
                )
            })
        };
        let (starts, ends) = (moment("starts", &file.starts)?, moment("ends", &file.ends)?);
        if ends <= starts {
            return Err(self.invalid(&of("ends"), &file.ends, "a moment after `starts`"));
        }
        let zero = Duration::ZERO;
        let pre_queue = self.duration(
            &of("pre_queue"),
            file.pre_queue.as_deref(),
            zero,
            (zero, MAX_PRE_QUEUE),
        )?;
        Ok(Event {
            pre_queue: starts.saturating_sub(pre_queue.as_millis() as u64),
            starts,
            ends,
            shuffle: file.shuffle,
            limits: Limits {
                total_active_users: self.count(
                    &of("total_active_users"),
                    file.total_active_users.unwrap_or(limits.total_active_users),
                )?,
                new_users_per_minute: self.count(
                    &of("new_users_per_minute"),
                    file.new_users_per_minute
                        .unwrap_or(limits.new_users_per_minute),
                )?,
            },
            method: file.queueing_method.unwrap_or(method),
        })
    }
}
