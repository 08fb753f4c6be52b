//! The queues of a program, and their consumers.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, atomic::AtomicU32},
};

use super::{
    Consumer, DeadLetters, QueueError, QueueOptions,
    consumer::{AnyConsumer, Typed},
    limits,
};

/// The queues of a program. Share it with [`install`](super::install), or with the builder's `with`.
#[derive(Default)]
pub struct Queues(BTreeMap<String, Arc<Declared>>);

/// A queue as the program has declared it.
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) options: QueueOptions,
    pub(super) consumer: Option<Arc<dyn AnyConsumer>>,
    /// The shard for the next message without a key; an increasing counter.
    pub(super) turn: AtomicU32,
}

impl Queues {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a queue.
    ///
    /// # Panics
    /// If there is one of this name, the name has no or more than [`limits::MAX_NAME_BYTES`] bytes or a `/`, or the
    /// options are invalid.
    #[must_use]
    pub fn with<C: Consumer>(
        self,
        name: impl Into<String>,
        options: QueueOptions,
        consumer: C,
    ) -> Self {
        self.add(
            &name.into(),
            options,
            Some(Arc::new(Typed(Arc::new(consumer)))),
        )
    }

    /// Adds a queue without a consumer, such as one for dead letters that an operator inspects.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[must_use]
    pub fn without_consumer(self, name: impl Into<String>, options: QueueOptions) -> Self {
        self.add(&name.into(), options, None)
    }

    fn add(
        mut self,
        name: &str,
        options: QueueOptions,
        consumer: Option<Arc<dyn AnyConsumer>>,
    ) -> Self {
        assert!(
            (1..=limits::MAX_NAME_BYTES).contains(&name.len()) && !name.contains('/'),
            "a queue's name has 1 to {} bytes and no `/`: `{name}`",
            limits::MAX_NAME_BYTES
        );
        if let Err(error) = options.check() {
            panic!("invalid options of queue `{name}`: {error}");
        }
        let declared = Arc::new(Declared {
            name: name.to_owned(),
            options,
            consumer,
            turn: AtomicU32::new(0),
        });
        let before = self.0.insert(name.to_owned(), declared);
        assert!(before.is_none(), "there are two queues `{name}`");
        self
    }

    /// The names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn get(&self, name: &str) -> Result<&Arc<Declared>, QueueError> {
        let declared = self.0.get(name).ok_or_else(|| self.unknown(name))?;
        let mut way = vec![name];
        let mut last = declared;
        while let DeadLetters::Queue(other) = &last.options.dead_letters {
            let from = &last.name;
            let Some(next) = self.0.get(other).filter(|next| next.name != *from) else {
                return Err(QueueError::Invalid(format!(
                    "the dead letters of queue `{from}` go to `{other}`, which is not another queue of this program"
                )));
            };
            if way.contains(&other.as_str()) {
                return Err(QueueError::Invalid(format!(
                    "dead letters go in a ring, from queue `{}` to `{other}`: let one of these queues keep its dead letters",
                    way.join("` to `")
                )));
            }
            way.push(other);
            last = next;
        }
        Ok(declared)
    }

    pub(super) fn unknown(&self, name: &str) -> QueueError {
        let known: Vec<String> = self.names().map(|name| format!("`{name}`")).collect();
        QueueError::Unknown {
            queue: name.to_owned(),
            known: if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            },
        }
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queues").field(&self.0.keys()).finish()
    }
}

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declared")
            .field("name", &self.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
