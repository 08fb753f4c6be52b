//! A fake of Azure Communication Services' e-mail API with fault injection: it throttles, fails, loses responses, is
//! slow, and fails later.
//!
//! It implements [`POST /emails:send`](https://learn.microsoft.com/rest/api/communication/email/send) and `GET
//! /emails/operations/{id}`, checks [signatures](https://learn.microsoft.com/rest/api/communication/authentication),
//! and accepts a mail once for each `Repeatability-Request-Id` or `Operation-Id`, however often it arrives. Like the
//! service with [repeatable requests](https://learn.microsoft.com/rest/api/communication/repeatable-requests), it
//! answers 412 to a request that was first sent more than 5 minutes ago. It takes the time from the request itself,
//! because tests have their own clocks.

use std::sync::{Arc, Mutex};

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{Method, Response, StatusCode, header};
use jiff::{SignedDuration, fmt::rfc2822::DateTimeParser};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    Random, Received,
    http_double::{self, Reply},
    listener::Listener,
    record::{Record, Script},
};

/// How long the service remembers repeatable requests.
const TRACKED: SignedDuration = SignedDuration::from_mins(5);

/// The configuration of the fake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcsOptions {
    /// The address to listen on; port 0 takes a free one.
    pub listen: String,
    /// The key, in base64, that requests must be signed with.
    pub access_key: String,
    /// Seconds that it asks clients to wait before they poll (`Retry-After`).
    pub poll_after: Option<u64>,
    /// Faults when no script applies.
    pub mischief: AcsMischief,
}

impl Default for AcsOptions {
    /// A free port of this machine, no faults, and no `Retry-After`.
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            access_key: BASE64_STANDARD.encode("a key for tests"),
            poll_after: None,
            mischief: AcsMischief::NONE,
        }
    }
}

/// How often it misbehaves, in percent each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcsMischief {
    /// The same seed and the same requests give the same faults.
    pub seed: u64,
    /// Submissions that get 429, with a `Retry-After` of one second.
    pub throttled: u32,
    /// Submissions that get 429 although the mail was accepted.
    pub throttled_but_taken: u32,
    /// Submissions that get 503.
    pub unavailable: u32,
    /// Submissions whose response is lost although the mail was accepted.
    pub lost: u32,
    /// Polls that get 503.
    pub bad_polls: u32,
    /// Operations that fail.
    pub failed: u32,
    /// The maximum number of polls that report a running operation.
    pub longest: u32,
}

impl AcsMischief {
    /// No faults and no delays.
    pub const NONE: Self = Self {
        seed: 1,
        throttled: 0,
        throttled_but_taken: 0,
        unavailable: 0,
        lost: 0,
        bad_polls: 0,
        failed: 0,
        longest: 0,
    };

    /// Many faults: about half of the submissions fail, and some mails are undeliverable.
    pub const fn lively(seed: u64) -> Self {
        Self {
            seed,
            throttled: 15,
            throttled_but_taken: 5,
            unavailable: 15,
            lost: 10,
            bad_polls: 15,
            failed: 10,
            longest: 4,
        }
    }
}

/// The handling of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcsSend {
    /// 202.
    Accept,
    /// This status, with a `Retry-After` in seconds; nothing is accepted.
    Refuse(u16, Option<u64>),
    /// The same, although the mail was accepted; `Operation-Location` has the operation.
    AcceptAndSay(u16, Option<u64>),
    /// The mail is accepted, and the connection closed without a response.
    Lose,
    /// The connection is closed without a response, and nothing is accepted.
    Drop,
}

/// The handling of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcsPoll {
    /// The state of the operation.
    Answer,
    /// This status, with a `Retry-After` in seconds.
    Refuse(u16, Option<u64>),
    /// The connection is closed without a response.
    Drop,
}

/// The course of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcsCourse {
    /// The number of polls that report it as running.
    pub running: u32,
    /// Its result.
    pub end: AcsEnd,
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcsEnd {
    /// The mail is sent.
    Succeeded,
    /// It failed, for this reason.
    Failed {
        /// The error code.
        code: String,
        /// The error message.
        message: String,
    },
    /// It was canceled.
    Canceled,
}

/// An accepted mail, and its operation.
#[derive(Clone, Debug, PartialEq)]
pub struct AcsMail {
    /// The operation's id.
    pub operation: String,
    /// The key that identifies repeats, if the client sent one.
    pub key: Option<String>,
    /// The mail as it was submitted.
    pub mail: Value,
    /// The course of its operation.
    pub course: AcsCourse,
    /// Accepted submissions of it: more than one are repeats.
    pub submissions: u32,
    /// Polls that were answered with its state.
    pub polls: u32,
}

impl AcsMail {
    /// The state that the last poll reported; `Running` before the first.
    pub fn status(&self) -> &'static str {
        match &self.course.end {
            _ if self.polls <= self.course.running => "Running",
            AcsEnd::Succeeded => "Succeeded",
            AcsEnd::Failed { .. } => "Failed",
            AcsEnd::Canceled => "Canceled",
        }
    }
}

#[derive(Debug)]
struct Shared {
    options: AcsOptions,
    random: Mutex<Random>,
    requests: Record<Received>,
    mails: Record<AcsMail>,
    sends: Script<Option<AcsSend>>,
    polls: Script<Option<AcsPoll>>,
    courses: Script<Option<AcsCourse>>,
}

/// A running fake. Ends when dropped, with its connections.
#[derive(Debug)]
pub struct AcsServer {
    listener: Listener,
    shared: Arc<Shared>,
}

impl AcsServer {
    /// Starts it. Call it inside a tokio runtime.
    pub async fn start(options: AcsOptions) -> Self {
        let listen = options.listen.clone();
        let shared = Arc::new(Shared {
            random: Mutex::new(Random::new(options.mischief.seed)),
            options,
            requests: Record::default(),
            mails: Record::default(),
            sends: Script::always(None),
            polls: Script::always(None),
            courses: Script::always(None),
        });
        let serving = Arc::clone(&shared);
        let listener = http_double::serve(&listen, move |request| {
            let reply = serving.answer(&request);
            serving.requests.change(|requests| requests.push(request));
            std::future::ready(reply)
        })
        .await;
        Self { listener, shared }
    }

    /// The endpoint, `http://HOST:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.listener.address())
    }

    /// The connection string for clients: `endpoint=…;accesskey=…`.
    pub fn connection_string(&self) -> String {
        format!(
            "endpoint={}/;accesskey={}",
            self.endpoint(),
            self.shared.options.access_key
        )
    }

    /// The key that requests must be signed with, in base64.
    pub fn access_key(&self) -> &str {
        &self.shared.options.access_key
    }

    /// Scripts the handling of the next submissions, one each.
    pub fn script_sends(&self, acts: impl IntoIterator<Item = AcsSend>) {
        self.shared.sends.append(acts.into_iter().map(Some));
    }

    /// Scripts the handling of the next polls, one each.
    pub fn script_polls(&self, acts: impl IntoIterator<Item = AcsPoll>) {
        self.shared.polls.append(acts.into_iter().map(Some));
    }

    /// Scripts the course of the next operations, one each.
    pub fn script_courses(&self, courses: impl IntoIterator<Item = AcsCourse>) {
        self.shared.courses.append(courses.into_iter().map(Some));
    }

    /// The accepted mails, without repeats, in order.
    pub fn mails(&self) -> Vec<AcsMail> {
        self.shared.mails.all()
    }

    /// Every request, in order.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.requests.all()
    }

    /// Waits until this many mails were accepted, and returns all.
    pub async fn wait_for(&self, count: usize) -> Vec<AcsMail> {
        self.shared.mails.wait_for(count, |_| true).await
    }

    /// Waits until clients were notified that this many mails were sent, and returns those.
    pub async fn wait_for_sent(&self, count: usize) -> Vec<AcsMail> {
        let sent = |mail: &AcsMail| mail.status() == "Succeeded";
        self.shared.mails.wait_for(count, sent).await
    }
}

impl Shared {
    fn answer(&self, request: &Received) -> Reply {
        if let Err(why) = self.check(request) {
            return error(401, "Denied", &why);
        }
        if !request
            .uri
            .query()
            .unwrap_or_default()
            .contains("api-version=")
        {
            return error(400, "BadRequest", "The query names no api-version.");
        }
        let operation = request.path().strip_prefix("/emails/operations/");
        match (&request.method, request.path(), operation) {
            (&Method::POST, "/emails:send", _) => self.send(request),
            (&Method::GET, _, Some(operation)) => self.poll(operation),
            _ => error(404, "NotFound", "There is nothing here."),
        }
    }

    /// The signature, as the service's documentation describes it.
    fn check(&self, request: &Received) -> Result<(), String> {
        let hash = BASE64_STANDARD.encode(Sha256::digest(&request.body));
        if request.header("x-ms-content-sha256") != hash {
            return Err("x-ms-content-sha256 is not the body's hash.".to_owned());
        }
        let date = request.header("x-ms-date");
        let host = request.header("host");
        let (method, uri) = (&request.method, &request.uri);
        let signed = format!("{method}\n{uri}\n{date};{host};{hash}");
        let key = BASE64_STANDARD
            .decode(&self.options.access_key)
            .map_err(|error| format!("The double's own key is not base64: {error}."))?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
        mac.update(signed.as_bytes());
        let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
        let expected = format!(
            "HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature={signature}"
        );
        if date.is_empty() || request.header("authorization") != expected {
            return Err(format!("The signature does not fit {signed:?}."));
        }
        Ok(())
    }

    fn send(&self, request: &Received) -> Reply {
        let act = self.sends.next().unwrap_or_else(|| self.any_send());
        match act {
            AcsSend::Refuse(status, after) => return with_retry_after(refusal(status), after),
            AcsSend::Drop => return Reply::Drop,
            AcsSend::Accept | AcsSend::AcceptAndSay(..) | AcsSend::Lose => {}
        }
        let mail = match checked(&request.body) {
            Ok(mail) => mail,
            Err(why) => return error(400, "BadRequest", &why),
        };
        if is_old(request) {
            let why = "The repeatability first sent header is not within 5 minutes.";
            return error(412, "PreconditionFailed", why);
        }
        let operation = match self.take(request, mail) {
            Ok(operation) => operation,
            Err(why) => return error(400, "RepeatabilityMismatch", &why),
        };
        let location = format!(
            "http://{}/emails/operations/{operation}?{}",
            request.header("host"),
            request.uri.query().unwrap_or_default()
        );
        match act {
            AcsSend::AcceptAndSay(status, after) => with_retry_after(
                with(refusal(status), "operation-location", &location),
                after,
            ),
            AcsSend::Lose => Reply::Drop,
            _ => {
                let body = json!({ "id": operation, "status": "Running", "error": null });
                let accepted = with(answer(202, &body), "operation-location", &location);
                with_retry_after(accepted, self.options.poll_after)
            }
        }
    }

    /// Begins an operation, unless it has begun; returns its id.
    fn take(&self, request: &Received, mail: Value) -> Result<String, String> {
        let named = |name| Some(request.header(name)).filter(|id| !id.is_empty());
        let given = named("operation-id");
        let key = named("repeatability-request-id")
            .or(given)
            .map(str::to_owned);
        let course = || self.courses.next().unwrap_or_else(|| self.any_course());
        self.mails.change(|mails| {
            let before = mails
                .iter_mut()
                .find(|before| key.is_some() && before.key == key);
            if let Some(before) = before {
                if before.mail != mail {
                    return Err("The same id came with another mail before.".to_owned());
                }
                before.submissions += 1;
                return Ok(before.operation.clone());
            }
            let operation = match given.or(key.as_deref()) {
                Some(id) => id.to_owned(),
                None => format!("00000000-0000-4000-8000-{:012x}", mails.len() + 1),
            };
            mails.push(AcsMail {
                operation: operation.clone(),
                key,
                mail,
                course: course(),
                submissions: 1,
                polls: 0,
            });
            Ok(operation)
        })
    }

    fn poll(&self, operation: &str) -> Reply {
        match self.polls.next().unwrap_or_else(|| self.any_poll()) {
            AcsPoll::Refuse(status, after) => return with_retry_after(refusal(status), after),
            AcsPoll::Drop => return Reply::Drop,
            AcsPoll::Answer => {}
        }
        let told = self.mails.change(|mails| {
            let mail = mails.iter_mut().find(|mail| mail.operation == operation)?;
            mail.polls += 1;
            let why = match &mail.course.end {
                AcsEnd::Failed { code, message } if mail.status() == "Failed" => {
                    json!({ "code": code, "message": message })
                }
                _ => Value::Null,
            };
            Some((mail.status(), why))
        });
        let Some((status, why)) = told else {
            return error(404, "NotFound", "There is no such operation.");
        };
        let body = json!({ "id": operation, "status": status, "error": why });
        let after = self.options.poll_after.filter(|_| status == "Running");
        with_retry_after(answer(200, &body), after)
    }

    fn any_send(&self) -> AcsSend {
        let mischief = self.options.mischief;
        let mut roll = self.below(100);
        for (share, act) in [
            (mischief.throttled, AcsSend::Refuse(429, Some(1))),
            (
                mischief.throttled_but_taken,
                AcsSend::AcceptAndSay(429, Some(1)),
            ),
            (mischief.unavailable, AcsSend::Refuse(503, None)),
            (mischief.lost, AcsSend::Lose),
        ] {
            if roll < share {
                return act;
            }
            roll -= share;
        }
        AcsSend::Accept
    }

    fn any_poll(&self) -> AcsPoll {
        if self.below(100) < self.options.mischief.bad_polls {
            AcsPoll::Refuse(503, None)
        } else {
            AcsPoll::Answer
        }
    }

    fn any_course(&self) -> AcsCourse {
        let failed = self.below(100) < self.options.mischief.failed;
        AcsCourse {
            running: self.below(self.options.mischief.longest + 1),
            end: if failed {
                AcsEnd::Failed {
                    code: "EmailDroppedAllRecipientsSuppressed".to_owned(),
                    message: "Message dropped because all recipients were suppressed".to_owned(),
                }
            } else {
                AcsEnd::Succeeded
            },
        }
    }

    fn below(&self, bound: u32) -> u32 {
        let mut random = self.random.lock().expect("no panics under this lock");
        random.below(bound)
    }
}

/// Returns whether the service has forgotten a repeatable request.
fn is_old(request: &Received) -> bool {
    let at = |name| DateTimeParser::new().parse_timestamp(request.header(name));
    match (at("repeatability-first-sent"), at("x-ms-date")) {
        (Ok(first), Ok(now)) => now.duration_since(first) > TRACKED,
        _ => false,
    }
}

/// Validates the mail.
fn checked(body: &Bytes) -> Result<Value, String> {
    let mail: Value = serde_json::from_slice(body).map_err(|error| format!("No JSON: {error}."))?;
    let says = |pointer: &str| {
        let text = mail.pointer(pointer).and_then(Value::as_str);
        text.is_some_and(|text| !text.is_empty())
    };
    for pointer in [
        "/senderAddress",
        "/content/subject",
        "/recipients/to/0/address",
    ] {
        if !says(pointer) {
            return Err(format!("{pointer} is missing."));
        }
    }
    if !says("/content/plainText") && !says("/content/html") {
        return Err("The mail has no text.".to_owned());
    }
    Ok(mail)
}

fn answer(status: u16, body: &Value) -> Reply {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    with(
        Reply::Answer(response),
        header::CONTENT_TYPE.as_str(),
        "application/json",
    )
}

fn error(status: u16, code: &str, message: &str) -> Reply {
    let body = json!({ "error": { "code": code, "message": message } });
    with(answer(status, &body), "x-ms-error-code", code)
}

fn refusal(status: u16) -> Reply {
    match status {
        429 => error(status, "TooManyRequests", "Please try again later."),
        _ => error(status, "InternalServerError", "Something went wrong."),
    }
}

fn with_retry_after(reply: Reply, seconds: Option<u64>) -> Reply {
    match seconds {
        Some(seconds) => with(reply, header::RETRY_AFTER.as_str(), &seconds.to_string()),
        None => reply,
    }
}

fn with(reply: Reply, name: &'static str, value: &str) -> Reply {
    match reply {
        Reply::Answer(mut response) => {
            let value = value.parse().expect("a header's value");
            response.headers_mut().insert(name, value);
            Reply::Answer(response)
        }
        other => other,
    }
}
