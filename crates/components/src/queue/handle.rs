//! The handle of a queue: it selects shards.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use abide::{Env, Error, Namespace, Stub};
use futures_util::future::try_join_all;
use sha2::{Digest, Sha256};

use super::{
    Counts, DeadLetter, MessageId, QueueError, QueueMessage, QueueShard, Queues, Sent, limits,
    queues::Declared,
};

/// A queue. Clones refer to the same queue.
#[derive(Clone, Debug)]
pub struct Queue {
    shards: Namespace<QueueShard>,
    declared: Arc<Declared>,
}

impl Queue {
    /// The queue of this name.
    ///
    /// # Errors
    /// If the program has not declared it, or has not [installed](super::install) queues.
    pub fn new(env: &Env, name: &str) -> Result<Self, QueueError> {
        let queues = env.require::<Queues>()?;
        Ok(Self {
            shards: env.try_object()?,
            declared: Arc::clone(queues.get(name)?),
        })
    }

    /// The queue's name.
    pub fn name(&self) -> &str {
        &self.declared.name
    }

    /// Sends a message. When this returns it is on disk.
    ///
    /// # Errors
    /// [`QueueError::Full`] if its shard is full. If the result is lost ([`QueueError::Object`] that is not
    /// [`retryable`](QueueError::retryable)), the message may have been accepted: sending it again with the same
    /// [`dedup_key`](QueueMessage::dedup_key) does not add it twice.
    pub async fn send(&self, message: QueueMessage) -> Result<Sent, QueueError> {
        let shard = self.shard_of(&message);
        let sent = self.shard(shard).send(vec![message]).await?;
        sent.first()
            .copied()
            .ok_or_else(|| Error::new("the shard returned no result for the message").into())
    }

    /// Sends messages and returns their results, in order. Those that go to one shard are accepted together or not at
    /// all. They go to one shard if none has a key or a dedup key, or all have the same key.
    ///
    /// # Errors
    /// As [`send`](Self::send). Other shards may have accepted theirs, so messages for several shards should have dedup
    /// keys.
    pub async fn send_batch(&self, messages: Vec<QueueMessage>) -> Result<Vec<Sent>, QueueError> {
        let turn = self.next_turn();
        let mut parts: BTreeMap<u32, (Vec<usize>, Vec<QueueMessage>)> = BTreeMap::new();
        let count = messages.len();
        for (index, message) in messages.into_iter().enumerate() {
            let shard = self.keyed(&message).unwrap_or(turn);
            let (indexes, part) = parts.entry(shard).or_default();
            indexes.push(index);
            part.push(message);
        }
        let parts =
            parts
                .into_iter()
                .map(async |(shard, (indexes, part))| -> Result<_, QueueError> {
                    let sent = self.shard(shard).send(part).await?;
                    Ok(indexes.into_iter().zip(sent))
                });
        let mut sent: Vec<(usize, Sent)> =
            try_join_all(parts).await?.into_iter().flatten().collect();
        sent.sort_by_key(|(index, _)| *index);
        if sent.len() != count {
            return Err(Error::new("a shard returned no result for some messages").into());
        }
        Ok(sent.into_iter().map(|(_, sent)| sent).collect())
    }

    /// The counts of all shards.
    pub async fn counts(&self) -> Result<Counts, QueueError> {
        let counts = try_join_all(self.all().map(async |shard| shard.counts().await)).await?;
        Ok(counts.into_iter().fold(Counts::default(), Counts::and))
    }

    /// Pauses the queue until [`resume`](Self::resume), even across restarts. Batches in flight continue.
    pub async fn pause(&self) -> Result<(), QueueError> {
        try_join_all(self.all().map(async |shard| shard.pause().await)).await?;
        Ok(())
    }

    /// Ends a [`pause`](Self::pause), and the pause of a failed consumer.
    pub async fn resume(&self) -> Result<(), QueueError> {
        try_join_all(self.all().map(async |shard| shard.resume().await)).await?;
        Ok(())
    }

    /// Dead letters, newest first, at most `limit` and at most [`limits::MAX_PAGE`].
    pub async fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, QueueError> {
        let limit = limit.min(limits::MAX_PAGE);
        let pages = self
            .all()
            .map(async |shard| shard.dead_letters(limit).await);
        let mut letters: Vec<DeadLetter> =
            try_join_all(pages).await?.into_iter().flatten().collect();
        letters.sort_by_key(|letter| std::cmp::Reverse((letter.died_at, letter.id)));
        letters.truncate(limit);
        Ok(letters)
    }

    /// Redrives a dead letter, like a new message.
    pub async fn redrive(&self, id: MessageId) -> Result<(), QueueError> {
        self.shard(id.shard).redrive(id.number).await
    }

    /// Removes a dead letter.
    pub async fn discard(&self, id: MessageId) -> Result<(), QueueError> {
        self.shard(id.shard).discard(id.number).await
    }

    /// Redrives all current dead letters; returns how many.
    pub async fn redrive_all(&self) -> Result<u64, QueueError> {
        self.sweep(true, i64::MAX).await
    }

    /// Removes every message that is a dead letter now; returns how many.
    pub async fn discard_all(&self) -> Result<u64, QueueError> {
        self.sweep(false, i64::MAX).await
    }

    /// Removes every message that became a dead letter before a time, in milliseconds since 1970; returns how many.
    pub async fn discard_before(&self, time: i64) -> Result<u64, QueueError> {
        self.sweep(false, time.saturating_sub(1)).await
    }

    async fn sweep(&self, redrive: bool, died_until: i64) -> Result<u64, QueueError> {
        let mut total = 0;
        for shard in self.all() {
            // No more than there are now: messages may die while others are redriven, and a sweep must end.
            let mut left = shard.counts().await?.dead.unsigned_abs();
            while left > 0 {
                let swept = shard.sweep(redrive, died_until, left).await?;
                if swept == 0 {
                    break;
                }
                total += swept;
                left = left.saturating_sub(swept);
            }
        }
        Ok(total)
    }

    /// The shard of a message.
    fn shard_of(&self, message: &QueueMessage) -> u32 {
        self.keyed(message).unwrap_or_else(|| self.next_turn())
    }

    /// The shard of a message with a key of either kind.
    fn keyed(&self, message: &QueueMessage) -> Option<u32> {
        let key = message.key.as_ref().or(message.dedup_key.as_ref())?;
        let hash = Sha256::digest(key.as_bytes());
        let mut number = [0; 8];
        number.copy_from_slice(&hash[..8]);
        Some((u64::from_le_bytes(number) % u64::from(self.declared.options.shards)) as u32)
    }

    fn next_turn(&self) -> u32 {
        let turn = self.declared.turn.fetch_add(1, Ordering::Relaxed);
        turn % self.declared.options.shards
    }

    fn all(&self) -> impl Iterator<Item = Stub<QueueShard>> + '_ {
        (0..self.declared.options.shards).map(|shard| self.shard(shard))
    }

    fn shard(&self, shard: u32) -> Stub<QueueShard> {
        self.shards
            .get_by_name(&format!("{}/{shard}", self.declared.name))
    }
}
