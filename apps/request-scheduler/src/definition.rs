//! A scheduled request as its client describes it.
//!
//! Contract: [`Definition::check`] refuses a definition that could not be scheduled or sent, before anything is
//! stored, and its text says what is expected. A definition that passes can always be armed.

mod headers;

use std::{collections::BTreeMap, time::Duration};

use abide::{
    outbox::handlers::{HttpCall, HttpDelivery},
    outbox::{Deliver, OutboxMessage},
    schedule::{Overlap, ScheduleError, Spec},
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{limits, sending};

/// What timers of the schedule are for.
const KIND: &str = "run";

/// What to send, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Definition {
    /// Where to.
    pub url: String,
    /// The first time, in milliseconds since 1970. Absent, or in the past: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_at: Option<i64>,
    /// The interval between runs. Absent: it runs once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_every_seconds: Option<u64>,
    /// A cron expression, in place of a time and an interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The time zone whose clocks the expression means. Default `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Method, headers and body.
    #[serde(default)]
    pub request_init: RequestInit,
    /// The waits before retries, in place of the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<Vec<u64>>,
}

/// The part of `fetch`'s `RequestInit` that can be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestInit {
    /// `GET` unless said otherwise, as in `fetch`.
    #[serde(default = "get")]
    pub method: String,
    /// By name. Described as an object, or as a list of pairs of name and value, as `fetch` accepts both.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "headers::deserialize"
    )]
    pub headers: BTreeMap<String, String>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

fn get() -> String {
    "GET".to_owned()
}

impl Default for RequestInit {
    fn default() -> Self {
        Self {
            method: get(),
            headers: BTreeMap::new(),
            body: None,
        }
    }
}

/// Why a definition is refused; the text is a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct Invalid {
    /// Which field is wrong, as a code: `invalid_url`.
    pub code: InvalidCode,
    /// What is expected.
    pub text: String,
}

/// Which field is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InvalidCode {
    /// `triggerAt`, `triggerEverySeconds`, `cron`, `timeZone`, or two that exclude each other.
    Schedule,
    /// `url` or `requestInit`.
    Request,
    /// The body is too large.
    TooLarge,
    /// `retryAfterSeconds`.
    Retry,
}

fn invalid(code: InvalidCode, text: impl Into<String>) -> Invalid {
    let mut text = text.into();
    // A field keeps its name as it is.
    let is_field = text
        .split(' ')
        .next()
        .is_some_and(|word| word.contains(|c: char| c.is_ascii_uppercase()));
    if !is_field && let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    if !text.ends_with('.') {
        text.push('.');
    }
    Invalid { code, text }
}

impl Definition {
    /// True if it runs more than once.
    pub fn repeats(&self) -> bool {
        self.trigger_every_seconds.is_some() || self.cron.is_some()
    }

    /// Refuses what cannot be scheduled or sent.
    pub fn check(&self, now: i64) -> Result<(), Invalid> {
        self.check_schedule(now)
            .map_err(|text| invalid(InvalidCode::Schedule, text))?;
        self.check_retries()
            .map_err(|text| invalid(InvalidCode::Retry, text))?;
        let init = &self.request_init;
        let bytes = init.body.as_ref().map_or(0, String::len);
        if bytes > limits::MAX_BODY_BYTES {
            let text = format!(
                "requestInit.body has {bytes} bytes and at most {} are taken: keep large content in storage and send its address",
                limits::MAX_BODY_BYTES
            );
            return Err(invalid(InvalidCode::TooLarge, text));
        }
        self.check_request()
            .map_err(|text| invalid(InvalidCode::Request, text))
    }

    fn check_request(&self) -> Result<(), String> {
        let init = &self.request_init;
        if init.body.is_some() && matches!(&*init.method.to_ascii_uppercase(), "GET" | "HEAD") {
            return Err(format!(
                "a {} request has no body: set requestInit.method, to POST for instance",
                init.method.to_ascii_uppercase()
            ));
        }
        let own = |name: &String| {
            sending::SIGNATURE_HEADERS
                .iter()
                .any(|own| name.eq_ignore_ascii_case(own))
        };
        if let Some(name) = init.headers.keys().find(|name| own(name)) {
            return Err(format!(
                "the scheduler itself sets header `{name}`: leave it out"
            ));
        }
        HttpDelivery::new().check(&self.call())
    }

    fn check_retries(&self) -> Result<(), String> {
        let Some(waits) = &self.retry_after_seconds else {
            return Ok(());
        };
        if waits.len() > limits::MAX_RETRIES
            || waits.iter().any(|wait| *wait > limits::MAX_RETRY_SECONDS)
        {
            return Err(format!(
                "retryAfterSeconds lists at most {} waits of 0 to {} seconds",
                limits::MAX_RETRIES,
                limits::MAX_RETRY_SECONDS
            ));
        }
        Ok(())
    }

    fn check_schedule(&self, now: i64) -> Result<(), String> {
        if self.cron.is_some()
            && (self.trigger_at.is_some() || self.trigger_every_seconds.is_some())
        {
            return Err(
                "a cron expression sets all times: give it without triggerAt and triggerEverySeconds"
                    .to_owned(),
            );
        }
        if self.cron.is_none() && self.time_zone.is_some() {
            return Err("timeZone is for cron: give both, or neither".to_owned());
        }
        if let Some(at) = self.trigger_at
            && !(0..=limits::MAX_TIME).contains(&at)
        {
            return Err(format!(
                "triggerAt is a time in milliseconds since 1970, from 0 to {}, and not {at}",
                limits::MAX_TIME
            ));
        }
        if let Some(seconds) = self.trigger_every_seconds
            && !(1..=limits::MAX_EVERY_SECONDS).contains(&seconds)
        {
            return Err(format!(
                "triggerEverySeconds is 1 to {} seconds, and not {seconds}",
                limits::MAX_EVERY_SECONDS
            ));
        }
        let Some(spec) = self.spec(now, now) else {
            return Ok(());
        };
        spec.check(now).map_err(|error| match error {
            ScheduleError::Invalid(text) => text,
            other => other.to_string(),
        })
    }

    /// When a repeated request runs after a time. Intervals are counted from `anchor`.
    pub(crate) fn spec(&self, anchor: i64, now: i64) -> Option<Spec> {
        let spec = match (&self.cron, self.trigger_every_seconds) {
            (Some(cron), _) => {
                let zone = self.time_zone.as_deref().unwrap_or("UTC");
                Spec::cron(KIND, cron, zone)
            }
            (None, Some(seconds)) => {
                let interval = Duration::from_secs(seconds);
                Spec::every(KIND, interval).starting(after(anchor, interval, now))
            }
            (None, None) => return None,
        };
        // The outbox handles the result of a run: the next run need not wait for it.
        Some(spec.overlap(Overlap::Allow))
    }

    /// Its interval or its cron expression, for people.
    pub(crate) fn rhythm(&self) -> Option<String> {
        match (&self.cron, self.trigger_every_seconds) {
            (Some(cron), _) => {
                let zone = self.time_zone.as_deref().unwrap_or("UTC");
                Some(format!("{cron} ({zone})"))
            }
            (None, Some(seconds)) => Some(format!("every {seconds} s")),
            (None, None) => None,
        }
    }

    /// What is sent.
    fn call(&self) -> HttpCall {
        let init = &self.request_init;
        let mut call = HttpCall::new(init.method.to_ascii_uppercase(), &self.url);
        call.headers.clone_from(&init.headers);
        match &init.body {
            Some(body) => call.text(body),
            None => call,
        }
    }

    /// The message of a run that is due at a time.
    pub(crate) fn message(&self, due_at: i64) -> abide::Result<OutboxMessage> {
        let message = HttpDelivery::message(&self.call())?.not_before(due_at);
        Ok(match &self.retry_after_seconds {
            None => message,
            Some(waits) => {
                let waits: Vec<_> = waits.iter().copied().map(Duration::from_secs).collect();
                message.schedule(&waits)
            }
        })
    }

    /// The same without the values of headers that may be secrets.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        for (name, value) in &mut self.request_init.headers {
            if is_secret(name) {
                "[redacted]".clone_into(value);
            }
        }
        self
    }
}

/// The first time after another that is a whole number of intervals after an anchor, or the anchor itself.
fn after(anchor: i64, interval: Duration, now: i64) -> i64 {
    let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
    if anchor > now {
        return anchor;
    }
    let past = (now - anchor) / interval;
    anchor
        .saturating_add(interval.saturating_mul(past + 1))
        .min(limits::MAX_TIME)
}

fn is_secret(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    [
        "auth",
        "cookie",
        "token",
        "secret",
        "key",
        "password",
        "signature",
    ]
    .iter()
    .any(|word| header.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Definition {
        serde_json::from_str(text).expect("a definition")
    }

    fn wrong(text: &str) -> String {
        parse(text)
            .check(1_000_000)
            .expect_err("it is refused")
            .text
    }

    #[test]
    fn an_interval_keeps_its_rhythm_and_never_begins_in_the_past() {
        let minute = Duration::from_mins(1);
        assert_eq!(after(500, minute, 400), 500);
        assert_eq!(after(500, minute, 500), 60_500);
        assert_eq!(after(500, minute, 60_499), 60_500);
        assert_eq!(after(500, minute, 60_500), 120_500);
    }

    #[test]
    fn an_invalid_definition_is_refused_with_what_is_expected() {
        for (text, part) in [
            (r#"{"url":"ftp://a.example/"}"#, "http:// or https://"),
            (r#"{"url":"nowhere"}"#, "is not a URL"),
            (r#"{"url":"https://u:p@a.example/"}"#, "belong in a header"),
            (
                r#"{"url":"https://a.example/","triggerAt":-1}"#,
                "milliseconds since 1970",
            ),
            (
                r#"{"url":"https://a.example/","triggerEverySeconds":0}"#,
                "1 to",
            ),
            (
                r#"{"url":"https://a.example/","cron":"* * *"}"#,
                "cannot be read",
            ),
            (
                r#"{"url":"https://a.example/","cron":"0 9 * * *","timeZone":"Mars/Base"}"#,
                "Europe/Berlin",
            ),
            (
                r#"{"url":"https://a.example/","cron":"0 9 * * *","triggerAt":5}"#,
                "without triggerAt",
            ),
            (
                r#"{"url":"https://a.example/","timeZone":"UTC"}"#,
                "timeZone is for cron",
            ),
            (
                r#"{"url":"https://a.example/","requestInit":{"body":"x"}}"#,
                "has no body",
            ),
            (
                r#"{"url":"https://a.example/","requestInit":{"method":"CONNECT"}}"#,
                "not a valid method",
            ),
            (
                r#"{"url":"https://a.example/","requestInit":{"headers":{"Host":"b"}}}"#,
                "cannot be set",
            ),
            (
                r#"{"url":"https://a.example/","requestInit":{"headers":{"Webhook-Id":"b"}}}"#,
                "leave it out",
            ),
            (
                r#"{"url":"https://a.example/","requestInit":{"headers":{"a":"\n"}}}"#,
                "characters",
            ),
            (
                r#"{"url":"https://a.example/","retryAfterSeconds":[99999999]}"#,
                "at most 20 waits",
            ),
        ] {
            let told = wrong(text);
            assert!(told.contains(part), "{text}: {told}");
            assert!(told.ends_with('.'), "{told}");
        }
    }

    #[test]
    fn headers_are_an_object_or_a_list_of_pairs() {
        let headers = |text: &str| {
            let text =
                format!(r#"{{"url":"https://a.example/","requestInit":{{"headers":{text}}}}}"#);
            serde_json::from_str::<Definition>(&text)
                .map(|definition| definition.request_init.headers)
        };
        let object = headers(r#"{"Accept":"a, b","X-One":"1"}"#).expect("an object");
        let pairs = r#"[["Accept","a"],["X-One","1"],["accept","b"]]"#;
        assert_eq!(headers(pairs).expect("a list"), object);
        assert_eq!(headers("[]").expect("an empty list"), BTreeMap::new());
        for wrong in [
            r#"[["Accept"]]"#,
            r#"[["a","b","c"]]"#,
            r#"["Accept","a"]"#,
            r#""Accept""#,
            "7",
        ] {
            let told = headers(wrong).expect_err("it is refused").to_string();
            assert!(told.contains("list of pairs"), "{wrong}: {told}");
        }
    }

    #[test]
    fn values_of_headers_that_may_be_secrets_are_not_shown() {
        let shown = parse(
            r#"{"url":"https://a.example/","requestInit":{"headers":{"Authorization":"Bearer x","X-Api-Key":"y","Accept":"z"}}}"#,
        );
        let headers = shown.redacted().request_init.headers;
        assert_eq!(headers["Authorization"], "[redacted]");
        assert_eq!(headers["X-Api-Key"], "[redacted]");
        assert_eq!(headers["Accept"], "z");
    }
}
