//! Applies the results of a batch to its messages.

use std::time::Duration;

use abide::Result;

use super::{
    DeadLetter, Delivery, QueueMessage,
    consumer::Verdict,
    inner::Inner,
    limits,
    pump::{Finished, FinishedBatch},
    queues::Declared,
    rows::Claim,
};
use abide_component::{numbers::millis, throttle};

/// What a batch changes in the counts.
#[derive(Default)]
struct Change {
    consumed: i64,
    bytes: i64,
    buried: i64,
    failed: u64,
}

impl Inner {
    /// Writes a result. If that fails, it is written again.
    pub(super) fn land(&self, declared: &Declared, landed: &Finished, now: i64) -> Result<()> {
        let storage = &self.rows.storage;
        self.mind_clock(&mut self.rows.meta()?, now)?;
        match landed {
            Finished::Batch(tried) => {
                storage.transaction(|| self.settle(declared, tried, now))?;
                self.end_suspect(&tried.claim, now);
                Ok(())
            }
            Finished::Held(claim) => {
                storage.transaction(|| self.hold(claim, now))?;
                self.end_suspect(claim, now);
                Ok(())
            }
            Finished::Forwarded(letters, sent) => {
                if let Err(error) = sent {
                    tracing::warn!(%error, queue = self.rows.queue, "dead letters wait: the other queue has not accepted them");
                    let pause = millis(limits::FORWARD_PAUSE);
                    self.forward_after.set(now.saturating_add(pause));
                    return Ok(());
                }
                self.forwarded(letters)
            }
        }
    }

    /// Removes dead letters that another queue has accepted. One that was redriven meanwhile, and has died again, stays.
    fn forwarded(&self, letters: &[DeadLetter]) -> Result<()> {
        let mut numbers = Vec::with_capacity(letters.len());
        for letter in letters {
            if self.rows.died_at(letter.id.number)? == Some(letter.died_at) {
                numbers.push(letter.id.number);
            }
        }
        self.discard(&numbers).map(drop)
    }

    /// A batch has ended: if it was attempted alone, others may begin.
    fn end_suspect(&self, claim: &Claim, now: i64) {
        if claim.alone {
            self.suspects.end(now);
        }
    }

    /// Puts back the messages of a batch that was not delivered.
    fn hold(&self, claim: &Claim, now: i64) -> Result<()> {
        for delivery in &claim.deliveries {
            self.rows.give_back(delivery.id.number, claim.number, now)?;
        }
        Ok(())
    }

    /// A message that was throttled keeps its place, and the attempt is not counted.
    fn put_back_in_place(&self, number: i64, claim: &Claim, now: i64, error: &str) -> Result<()> {
        self.rows
            .put_back_untried(number, claim.number, now, error)
            .map(drop)
    }

    fn settle(&self, declared: &Declared, tried: &FinishedBatch, now: i64) -> Result<()> {
        let FinishedBatch {
            claim,
            marks,
            pause,
            rest,
        } = tried;
        let mut change = Change::default();
        let mut done = Vec::new();
        for (index, mark) in marks.iter().enumerate() {
            match verdict(mark.as_ref(), rest) {
                Verdict::Ack => done.push(claim.deliveries[index].id.number),
                Verdict::Retry { after, error } => {
                    change.failed += 1;
                    let delivery = &claim.deliveries[index];
                    let (number, attempt) = (delivery.id.number, delivery.attempt);
                    let Some(wait) = self.wait(declared, delivery, attempt, after) else {
                        let error = format!("{error}; attempt {attempt} was the last");
                        change.buried +=
                            i64::from(self.rows.bury(number, claim.number, &error, now)?);
                        continue;
                    };
                    let at = now.saturating_add(wait);
                    self.rows.put_back(number, claim.number, at, &error)?;
                }
                Verdict::Wait { error } => {
                    change.failed += 1;
                    let delivery = &claim.deliveries[index];
                    let wait = self.wait(declared, delivery, 1, None).unwrap_or_default();
                    let wait = wait.max(millis(throttle::pause(None, 0)));
                    let at = now.saturating_add(wait);
                    self.rows
                        .put_back_untried(delivery.id.number, claim.number, at, &error)?;
                }
                Verdict::InPlace { error } => {
                    change.failed += 1;
                    let number = claim.deliveries[index].id.number;
                    self.put_back_in_place(number, claim, now, &error)?;
                }
                Verdict::Dead { error } => {
                    change.failed += 1;
                    let number = claim.deliveries[index].id.number;
                    change.buried +=
                        i64::from(self.rows.bury(number, claim.number, &error, now)?);
                }
            }
        }
        (change.consumed, change.bytes) = self.rows.consumed(&done, claim.number)?;
        let is_alive = rest.is_ok() || change.consumed > 0;
        self.rows.change_meta(|meta| {
            meta.messages -= change.consumed + change.buried;
            meta.bytes -= change.bytes;
            meta.dead += change.buried;
            meta.consumed += change.consumed;
            match pause {
                Some(pause) => meta.batch_throttled(pause.asked, now),
                None if is_alive => meta.batch_consumed(now),
                None => meta.batch_failed(now),
            }
        })?;
        self.metrics.consumed(change.consumed.unsigned_abs());
        self.metrics.failed(change.failed);
        if let Err(error) = rest {
            tracing::warn!(
                error,
                queue = self.rows.queue,
                shard = self.rows.shard,
                messages = change.failed,
                "a consumer failed; its messages are retried or given up"
            );
        }
        Ok(())
    }

    /// The time until a message's next attempt after this many, in milliseconds, if there is one: not less than its
    /// consumer has asked for.
    fn wait(
        &self,
        declared: &Declared,
        delivery: &Delivery,
        attempts: u32,
        asked: Option<Duration>,
    ) -> Option<i64> {
        let parts: [&[u8]; 4] = [
            self.rows.queue.as_bytes(),
            &delivery.id.shard.to_le_bytes(),
            &delivery.id.number.to_le_bytes(),
            &delivery.attempt.to_le_bytes(),
        ];
        let parts = declared.options.jitter.then_some(&parts[..]);
        declared.options.retry.next(attempts, asked, parts)
    }
}

/// The verdict on a message: its mark, or else the result of its batch.
fn verdict(mark: Option<&Verdict>, rest: &Result<(), String>) -> Verdict {
    match rest {
        Ok(()) => mark.cloned().unwrap_or(Verdict::Ack),
        Err(error) => mark.cloned().unwrap_or_else(|| failed(error)),
    }
}

/// What is to become of a message whose batch has failed, and of which its consumer has said nothing.
fn failed(error: &str) -> Verdict {
    Verdict::Retry {
        after: None,
        error: error.to_owned(),
    }
}

impl DeadLetter {
    /// Its copy for another queue, which accepts it once, however often it is sent.
    pub(super) fn again(&self, from: &str) -> QueueMessage {
        let message = QueueMessage::from_json(self.body.clone())
            .dedup_key(format!("dead/{from}/{}/{}", self.id.number, self.died_at));
        match &self.key {
            Some(key) => message.key(key.clone()),
            None => message,
        }
    }
}
