//! Requests of clients, and results of objects for the router.

use std::{fmt, marker::PhantomData};

use abide::server::{ApiError, read_json};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{Change, OutboxError, OutboxMessage, Priority, Record, limits};

/// Waits of a schedule that are parsed: one more than allowed, so it is refused.
const WAITS: usize = limits::MAX_SCHEDULE + 1;

/// Messages of one request, at most; they are one transaction.
pub const MAX_MESSAGES: usize = 1_000;

/// A message in a client's request. Times are milliseconds, as everywhere in the API.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    kind: String,
    payload: Box<RawValue>,
    #[serde(default)]
    dedup_key: Option<String>,
    #[serde(default)]
    ordering_key: Option<String>,
    #[serde(default)]
    not_before: Option<i64>,
    #[serde(default)]
    delay: Option<u64>,
    #[serde(default)]
    deadline: Option<i64>,
    #[serde(default)]
    priority: Priority,
    #[serde(default)]
    schedule: Option<AtMost<u64, WAITS>>,
}

/// Several messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    messages: AtMost<Sent, MAX_MESSAGES>,
}

/// At most the allowed number of elements, and their total number: further ones are not created.
struct AtMost<T, const MOST: usize> {
    elements: Vec<T>,
    count: usize,
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for AtMost<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(array: D) -> Result<Self, D::Error> {
        struct Elements<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Elements<T, MOST> {
            type Value = AtMost<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while elements.len() < MOST {
                    match array.next_element()? {
                        Some(element) => elements.push(element),
                        None => break,
                    }
                }
                let mut count = elements.len();
                while array.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(AtMost { elements, count })
            }
        }

        array.deserialize_seq(Elements(PhantomData))
    }
}

/// A message with a delay from its enqueuing.
///
/// It cannot be deserialized from JSON: JSON RPC calls come from outside, which may not enqueue every kind of message.
/// They use the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delayed {
    /// The message.
    #[serde(deserialize_with = "from_program")]
    pub message: OutboxMessage,
    /// Milliseconds from its enqueuing, whose time the object knows. A message has this or [`OutboxMessage::not_before`].
    pub delay: Option<i64>,
}

/// The messages of a request, and the form of the request.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) messages: Vec<Delayed>,
    pub(super) one: bool,
}

/// Why none of a request's messages was enqueued.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The index of the refused message, from 0.
    pub index: usize,
    /// The reason.
    pub error: OutboxError,
}

/// A message with payload and history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Its state.
    pub record: Record,
    /// Its payload: a JSON text.
    pub payload: String,
    /// Its history, oldest first.
    pub history: Vec<Change>,
}

impl Messages {
    /// Reads one message, an array of them, or `{"messages":[…]}`.
    pub(super) fn read(body: &RawValue) -> Result<Self, ApiError> {
        let text = body.get();
        let (sent, one) = if text.starts_with('[') {
            (parse::<AtMost<Sent, MAX_MESSAGES>>(text)?, false)
        } else {
            match parse::<Sent>(text) {
                Ok(sent) => {
                    let one = AtMost {
                        elements: vec![sent],
                        count: 1,
                    };
                    (one, true)
                }
                Err(_) if has_messages(text) => (parse::<Several>(text)?.messages, false),
                Err(refused) => return Err(refused),
            }
        };
        if !(1..=MAX_MESSAGES).contains(&sent.count) {
            return Err(ApiError::bad_request(
                "invalid_body",
                format!(
                    "A request has 1 to {MAX_MESSAGES} messages, not {}.",
                    sent.count
                ),
            ));
        }
        let messages = sent.elements.into_iter().map(Sent::into_message).collect();
        Ok(Self { messages, one })
    }
}

impl Sent {
    fn into_message(self) -> Delayed {
        let wait = |millis: u64| i64::try_from(millis).unwrap_or(i64::MAX);
        Delayed {
            delay: self.delay.map(wait),
            message: OutboxMessage {
                dedup_key: self.dedup_key,
                ordering_key: self.ordering_key,
                not_before: self.not_before,
                deadline: self.deadline,
                priority: self.priority,
                schedule: self
                    .schedule
                    .map(|waits| waits.elements.into_iter().map(wait).collect()),
                ..OutboxMessage::from_json(self.kind, self.payload.get())
            },
        }
    }
}

/// Deserializes a message from the format of calls between objects, and from no other.
fn from_program<'de, D: Deserializer<'de>>(format: D) -> Result<OutboxMessage, D::Error> {
    if format.is_human_readable() {
        return Err(D::Error::custom(
            "only the program itself, or POST /outbox/{name}/messages, can enqueue messages",
        ));
    }
    OutboxMessage::deserialize(format)
}

impl Delayed {
    /// The message, as of this time.
    pub(super) fn at(self, now: i64) -> Result<OutboxMessage, OutboxError> {
        let mut message = self.message;
        if let Some(delay) = self.delay {
            if message.not_before.is_some() {
                return Err(OutboxError::Invalid(
                    "a message has `delay` or `not_before`, not both".to_owned(),
                ));
            }
            message.not_before = Some(now.saturating_add(delay));
        }
        Ok(message)
    }
}

fn has_messages(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Probe<'a> {
        #[serde(borrow)]
        #[allow(dead_code, reason = "it is enough that it is there")]
        messages: &'a RawValue,
    }
    serde_json::from_str::<Probe<'_>>(text).is_ok()
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    read_json(text.as_bytes()).map_err(|error| {
        ApiError::bad_request(
            "invalid_body",
            format!("The request body is not a message, nor several: {error}."),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Messages, String> {
        let body = serde_json::from_str::<Box<RawValue>>(text).unwrap();
        Messages::read(&body).map_err(|error| error.code().to_owned())
    }

    #[test]
    fn one_message_an_array_and_an_object_of_messages_are_read() {
        let one = r#"{"kind":"a","payload":{"big":12345678901234567890.5}}"#;
        let read_one = read(one).unwrap();
        assert!(read_one.one);
        assert_eq!(
            read_one.messages[0].message.payload, r#"{"big":12345678901234567890.5}"#,
            "the payload stays as it was written"
        );
        for several in [
            format!("[{one},{one}]"),
            format!("{{\"messages\":[{one},{one}]}}"),
        ] {
            let several = read(&several).unwrap();
            assert_eq!((several.messages.len(), several.one), (2, false));
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let too_many = format!("[{}]", vec![r#"{"kind":"a","payload":1}"#; 1_001].join(","));
        for bad in [
            "7",
            "[]",
            "{}",
            r#"{"messages":[]}"#,
            r#"{"kind":"a"}"#,
            r#"{"kind":"a","payload":1,"color":"red"}"#,
            r#"{"kind":"a","payload":1,"delay":-1}"#,
            r#"{"kind":"a","payload":1,"priority":"urgent"}"#,
            r#"{"messages":[],"kind":"a"}"#,
            &too_many,
        ] {
            assert_eq!(read(bad).unwrap_err(), "invalid_body", "{bad:.60}");
        }
    }

    #[test]
    fn a_delay_counts_from_when_the_message_is_enqueued() {
        let mut messages = read(r#"{"kind":"a","payload":1,"delay":500}"#).unwrap();
        let mut delayed = messages.messages.remove(0);
        assert_eq!(delayed.clone().at(1_000).unwrap().not_before, Some(1_500));
        delayed.message.not_before = Some(1);
        assert!(matches!(delayed.at(1_000), Err(OutboxError::Invalid(_))));
    }
}
