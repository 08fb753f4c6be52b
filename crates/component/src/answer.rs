//! The response to an outgoing request, read within bounds.
//!
//! Contract: the head of the response decides. Only as much of its body is read as [`limits`] allows, so a receiver
//! that streams forever takes neither memory nor time; a short body is read completely, so its connection can be
//! reused.

use std::time::Duration;

use abide::{
    Body, Env, NoRedirects, Request, Result,
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::BodyExt;
use jiff::{
    Timestamp,
    civil::DateTime,
    fmt::{rfc2822::DateTimeParser, strtime},
    tz::TimeZone,
};
use serde::de::DeserializeOwned;

use crate::{Failure, FailureKind, address::without_query, limits};

/// A receiver's response.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The beginning of the body: see [`limits::MAX_ANSWER_BYTES`].
    pub body: Vec<u8>,
    /// How reading the body ended.
    pub end: End,
    /// The pause that it asks for.
    pub after: Option<Duration>,
}

/// How reading a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was read completely.
    Whole,
    /// It is longer, or takes longer, than allowed.
    Longer,
    /// Its connection broke.
    Broken,
}

/// Sends a request and reads its response. Redirects are returned, not followed: a client that follows one may turn a
/// `POST` into a `GET`, and reveals headers to the redirect's target.
pub async fn fetch(env: &Env, mut request: Request) -> Result<Answer> {
    request.extensions_mut().insert(NoRedirects);
    let response = env.fetch(request).await;
    let (head, body) = response?.into_parts();
    let (body, end) = beginning(env, body).await;
    Ok(Answer {
        status: head.status,
        after: retry_after(&head.headers, env.clock().unix_millis()),
        headers: head.headers,
        body,
        end,
    })
}

impl Answer {
    /// The answer itself if it reports success.
    ///
    /// # Errors
    /// What else it means for the next attempt.
    pub fn check(self) -> Result<Self, Failure> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(Failure::of_answer(&self))
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// A temporary failure if the body is cut off or has another shape: the receiver may have done its work.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        if self.end != End::Whole {
            let text = format!("{}: the response is truncated or too long", self.status);
            return Err(Failure::temporary(text));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            let text = format!("{}: the response cannot be read: {error}", self.status);
            Failure::temporary(text)
        })
    }

    /// The status, a redirect's target, and the beginning of the body.
    pub fn text(&self) -> String {
        let to = self.headers.get(header::LOCATION);
        let to = to.filter(|_| self.status.is_redirection()).map(|to| {
            let to = String::from_utf8_lossy(to.as_bytes());
            let to = without_query(&to);
            format!("it leads to {to}, and redirects are not followed")
        });
        let quote = Some(self.quote()).filter(|quote| !quote.is_empty());
        let parts = [Some(self.status.to_string()), to, quote];
        parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
    }

    /// The beginning of the body, on one line.
    pub fn quote(&self) -> String {
        let some = &self.body[..self.body.len().min(limits::MAX_QUOTED_BYTES)];
        let some = String::from_utf8_lossy(some);
        let words: Vec<&str> = some
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty())
            .collect();
        words.join(" ")
    }
}

impl Failure {
    /// The failure that an unsuccessful response means.
    pub fn of_answer(answer: &Answer) -> Self {
        let kind = match answer.status {
            StatusCode::TOO_MANY_REQUESTS => FailureKind::Throttled,
            StatusCode::SERVICE_UNAVAILABLE if answer.after.is_some() => FailureKind::Throttled,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => FailureKind::Refused,
            // The receiver may have failed after it had done its work, and a gateway cannot know.
            status if status.is_server_error() => FailureKind::Temporary,
            _ => FailureKind::Permanent,
        };
        Self::new(kind, answer.text()).retry_after(answer.after)
    }
}

/// Reads the beginning of a body.
async fn beginning(env: &Env, mut body: Body) -> (Vec<u8>, End) {
    let clock = env.clock();
    let mut read = Vec::new();
    let mut patience = abide::clock::time_limit(&**clock, limits::ANSWER_PATIENCE);
    while read.len() < limits::MAX_ANSWER_BYTES {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            () = &mut patience => return (read, End::Longer),
        };
        match frame {
            None => return (read, End::Whole),
            Some(Err(_)) => return (read, End::Broken),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    let room = limits::MAX_ANSWER_BYTES - read.len();
                    read.extend_from_slice(&data[..data.len().min(room)]);
                }
            }
        }
    }
    (read, End::Longer)
}

/// `Retry-After`: seconds, or a date (RFC 9110, sections 10.2.3 and 5.6.7).
fn retry_after(headers: &HeaderMap, now_millis: u64) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than a number holds are very many.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let then = date(value)?;
    let now = Timestamp::from_millisecond(i64::try_from(now_millis).ok()?).ok()?;
    let wait = then.duration_since(now.to_zoned(TimeZone::UTC).datetime());
    // A time in the past means now.
    Some(wait.try_into().unwrap_or(Duration::ZERO))
}

/// A date in one of HTTP's three formats, in UTC. It may be later than the last [`Timestamp`], which is before the end of
/// the year 9999: servers say "never" with it.
fn date(text: &str) -> Option<DateTime> {
    if let Ok(then) = DateTimeParser::new().parse_timestamp(text) {
        return Some(then.to_zoned(TimeZone::UTC).datetime());
    }
    let forms = [
        "%a, %d %b %Y %H:%M:%S GMT",
        "%A, %d-%b-%y %H:%M:%S GMT",
        "%a %b %e %H:%M:%S %Y",
    ];
    let text = with_a_year_that_fits(text);
    let mut read = forms
        .iter()
        .filter_map(|form| strtime::parse(form, &text).ok()?.to_datetime().ok());
    read.next()
}

/// The text with the last year of a calendar in place of a later one. The weekday is then another, so it goes.
fn with_a_year_that_fits(text: &str) -> String {
    let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
    let is_late = |word: &str| word.len() > 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    if let [_, _, month, year, ..] = &mut words[..]
        && is_late(year)
    {
        (*month, *year) = ("Dec", "9999");
        words[0] = "Fri,";
        words[1] = "31";
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(value: &str, now: u64) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, value.parse().unwrap());
        retry_after(&headers, now)
    }

    #[test]
    fn a_body_is_read_as_json_if_it_is_whole() {
        let answer = |body: &str, end| Answer {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: body.into(),
            end,
            after: None,
        };
        assert_eq!(answer("[1, 2]", End::Whole).json(), Ok(vec![1, 2]));
        for wrong in [answer("[1, 2]", End::Broken), answer("{}", End::Whole)] {
            let failure = wrong.json::<Vec<u8>>().unwrap_err();
            assert!(failure.is_after_effect(), "{failure}");
            assert!(failure.message().starts_with("200 OK: "), "{failure}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = 784_111_777_000; // Sun, 06 Nov 1994 08:49:37 GMT
        assert_eq!(after("120", now), Some(Duration::from_mins(2)));
        assert_eq!(
            after("Sun, 06 Nov 1994 08:50:07 GMT", now),
            Some(Duration::from_secs(30))
        );
        assert_eq!(
            after("Sun, 06 Nov 1994 08:00:00 GMT", now),
            Some(Duration::ZERO)
        );
        assert_eq!(after("soon", now), None);
        assert_eq!(after("-5", now), None);
        assert_eq!(after("", now), None);
    }

    #[test]
    fn a_time_beyond_all_numbers_and_calendars_is_a_long_pause() {
        let now = 784_111_777_000;
        for never in [
            "99999999999999999999999",
            "Fri, 31 Dec 9999 23:59:59 GMT",
            "Sun, 01 Jan 10000 00:00:00 GMT",
            "Fri Dec 31 23:59:59 9999",
        ] {
            let pause = after(never, now).unwrap();
            assert!(pause > limits::MAX_RETRY_AFTER, "{never}: {pause:?}");
        }
        assert_eq!(
            after("Thu, 01 Jan 1970 00:00:00 GMT", now),
            Some(Duration::ZERO)
        );
    }

    #[test]
    fn a_date_may_have_each_of_the_three_forms_of_http() {
        let now = 784_111_777_000;
        for date in [
            "Sun, 06 Nov 1994 08:50:07 GMT",
            "Sunday, 06-Nov-94 08:50:07 GMT",
            "Sun Nov  6 08:50:07 1994",
        ] {
            assert_eq!(after(date, now), Some(Duration::from_secs(30)), "{date}");
        }
    }
}
