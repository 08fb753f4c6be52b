//! Clients: they send operations to objects and record the results.

use std::future::Future;

use abide::outbox::{Record, Status};
use abide::{Call, Error, ErrorKind, Stub};

use crate::{
    classes::{Appended, Ledger, Sender, Slate},
    history::{
        Carrier, Event, MessageState, ObjectNo, Op, OpId, OutboxMessage, Outcome, Recorder,
        SenderNo, SlateNo,
    },
    life::Life,
};

/// Sends an operation now; its end is recorded when it comes.
pub(crate) fn send(life: &Life, id: OpId, op: &Op, pad: u32) {
    let recorder = life.recorder.clone();
    recorder.note(Event::Began(id, op.clone()));
    let ledger = |number: ObjectNo| {
        life.env()
            .object::<Ledger>()
            .get_by_name(&number.to_string())
    };
    match op.clone() {
        Op::Append(object, values) => {
            let call = ledger(object).append(values, pad);
            spawn(life, id, true, appended(call, recorder, object));
        }
        Op::Pair(object, values) => {
            let call = ledger(object).pair(values, pad);
            spawn(life, id, false, appended(call, recorder, object));
        }
        Op::Alone(object, values) => {
            let call = ledger(object).alone(values, pad);
            spawn(life, id, false, appended(call, recorder, object));
        }
        Op::Twice(object, value) => {
            let stub = ledger(object).with_idempotency_key(value.to_string());
            let (first, again) = (stub.append(vec![value], pad), stub.append(vec![value], pad));
            let (first, again) = (
                appended(first, recorder.clone(), object),
                appended(again, recorder.clone(), object),
            );
            spawn(life, id, false, async move {
                let first = first.await;
                let again = again.await;
                if let (Err(error), Err(other)) = (&first, &again) {
                    return Err(if error.retryable() {
                        other.clone()
                    } else {
                        error.clone()
                    });
                }
                if let Ok(Outcome::Placed(places)) = &first {
                    // The second may not have been answered; then nothing is known about it.
                    let differs = match &again {
                        Ok(Outcome::Placed(other)) if other == places => None,
                        Ok(other) => Some(format!("{other:?}")),
                        Err(error) => error.remote().then(|| error.to_string()),
                    };
                    if let Some(again) = differs {
                        recorder.note(Event::Differs(id, places.clone(), again));
                    }
                    return first;
                }
                again
            });
        }
        Op::Refused(object, value) => {
            let call = ledger(object).refuse(value, pad);
            spawn(life, id, true, appended(call, recorder, object));
        }
        Op::Panic(object, value) => {
            let call = ledger(object).panic(value, pad);
            spawn(life, id, true, appended(call, recorder, object));
        }
        Op::Tell(object, values) => {
            let call = ledger(object).tell(values, pad);
            spawn(life, id, false, appended(call, recorder, object));
        }
        Op::Relay(object, value, to, other) => {
            let call = ledger(object).relay(value, to, other, pad);
            spawn(life, id, false, async move {
                call.await?;
                Ok(Outcome::Placed(Vec::new()))
            });
        }
        Op::Alarm(object, values, after, fails) => {
            let call = ledger(object).wake(values, after, fails);
            spawn(life, id, true, appended(call, recorder, object));
        }
        Op::Cancel(object, value) => {
            let call = ledger(object).cancel(value);
            spawn(life, id, true, appended(call, recorder, object));
        }
        Op::Write(..) | Op::Erase(_) | Op::Look(_) => chalk(life, id, op, pad),
        Op::Post(..) | Op::Circulate(..) | Op::Redrive(_) | Op::Reset(_) => post(life, id, op),
        Op::Read(object) => {
            let call = ledger(object).read();
            spawn(life, id, true, async move {
                let values = call.await?;
                recorder.note(Event::Seen {
                    object,
                    version: values.len() as u32,
                    last: values.last().copied(),
                    by: Carrier::Answer,
                });
                Ok(Outcome::List(values))
            });
        }
    }
}

/// Records an object's content.
pub(crate) fn look(life: &Life, object: ObjectNo) {
    let recorder = life.recorder.clone();
    let ledger = life
        .env()
        .object::<Ledger>()
        .get_by_name(&object.to_string());
    let call = ledger.read();
    life.executor.spawn(async move {
        match call.await {
            Ok(list) => recorder.note(Event::Holds(object, list)),
            Err(error) => recorder.note(Event::Failed(error.to_string())),
        }
    });
}

/// Sends an operation on an outbox.
fn post(life: &Life, id: OpId, op: &Op) {
    match op.clone() {
        Op::Post(from, to, value, key, acts) => {
            life.receiver.plan(value, &acts);
            let call = sender(life, from).post(from, to, value, key);
            spawn(life, id, true, async move {
                call.answer().await?.map_err(Error::from_std)?;
                Ok(Outcome::Done)
            });
        }
        Op::Circulate(from, values) => {
            let call = sender(life, from).circulate(from, values);
            spawn(life, id, true, async move {
                call.answer().await?.map_err(Error::from_std)?;
                Ok(Outcome::Done)
            });
        }
        Op::Redrive(from) => {
            let call = sender(life, from).redrive();
            spawn(life, id, true, async move {
                call.answer().await?.map_err(Error::from_std)?;
                Ok(Outcome::Done)
            });
        }
        Op::Reset(from) => {
            let call = sender(life, from).reset();
            spawn(life, id, true, async move {
                call.await?;
                Ok(Outcome::Done)
            });
        }
        _ => {}
    }
}

/// Sends an operation on a slate.
fn chalk(life: &Life, id: OpId, op: &Op, pad: u32) {
    match *op {
        Op::Write(number, value, after) => {
            let call = slate(life, number).write(value, after, pad);
            spawn(
                life,
                id,
                true,
                async move { call.await.map(|()| Outcome::Done) },
            );
        }
        Op::Erase(number) => {
            let call = slate(life, number).erase();
            spawn(
                life,
                id,
                true,
                async move { call.await.map(|()| Outcome::Done) },
            );
        }
        Op::Look(number) => {
            let call = slate(life, number).look();
            spawn(
                life,
                id,
                true,
                async move { call.await.map(Outcome::State) },
            );
        }
        _ => {}
    }
}

fn slate(life: &Life, number: SlateNo) -> Stub<Slate> {
    life.env()
        .object::<Slate>()
        .get_by_name(&number.to_string())
}

/// Records whether a slate exists.
pub(crate) fn find(life: &Life, slate: SlateNo) -> abide::Result<()> {
    let slates = life.env().object::<Slate>();
    let stub = slates.get_existing(&slate.to_string())?;
    let listed = slates.untyped().written()?;
    life.recorder.note(Event::Exists {
        slate,
        found: stub.is_some(),
        listed: listed.contains(&slates.id_from_name(&slate.to_string())),
    });
    Ok(())
}

/// Records a slate's state.
pub(crate) fn look_at_slate(life: &Life, number: SlateNo) {
    let recorder = life.recorder.clone();
    let call = slate(life, number).look();
    life.executor.spawn(async move {
        match call.await {
            Ok(state) => recorder.note(Event::Shows(number, state)),
            Err(error) => recorder.note(Event::Failed(error.to_string())),
        }
    });
}

fn sender(life: &Life, number: SenderNo) -> Stub<Sender> {
    life.env()
        .object::<Sender>()
        .get_by_name(&number.to_string())
}

/// Records an outbox's content.
pub(crate) fn look_at_outbox(life: &Life, number: SenderNo) {
    let recorder = life.recorder.clone();
    let call = sender(life, number).records();
    life.executor.spawn(async move {
        match call.await {
            Ok(mut records) => {
                records.sort_by_key(|record| record.id);
                let messages = records.iter().map(message).collect();
                recorder.note(Event::Posted(number, messages));
            }
            Err(error) => recorder.note(Event::Failed(error.to_string())),
        }
    });
}

fn message(record: &Record) -> OutboxMessage {
    OutboxMessage {
        value: record.summary.parse().unwrap_or_default(),
        key: record.ordering_key.clone(),
        state: match record.status {
            Status::Sent => MessageState::Sent,
            Status::Failed if record.last_error.is_some() => MessageState::Dead,
            Status::Queued if record.blocked => MessageState::Behind,
            _ => MessageState::Open,
        },
        attempts: record.attempts,
    }
}

async fn appended(
    call: Call<Appended>,
    recorder: Recorder,
    object: ObjectNo,
) -> abide::Result<Outcome> {
    let appended = call.await?;
    recorder.note(Event::Seen {
        object,
        version: appended.version,
        last: appended.last,
        by: Carrier::Answer,
    });
    Ok(Outcome::Placed(appended.places))
}

/// `one_turn`: all writes of the operation are in one transaction.
fn spawn(
    life: &Life,
    id: OpId,
    one_turn: bool,
    answer: impl Future<Output = abide::Result<Outcome>> + 'static,
) {
    let recorder = life.recorder.clone();
    life.executor.spawn(async move {
        let outcome = answer
            .await
            .unwrap_or_else(|error| classify(&error, one_turn));
        recorder.note(Event::Ended(id, outcome));
    });
}

fn classify(error: &Error, one_turn: bool) -> Outcome {
    let text = error.to_string();
    if error.retryable() {
        Outcome::NotRun(text)
    } else if one_turn && !error.remote() && error.kind() == ErrorKind::NoSpace {
        Outcome::Undone(text)
    } else {
        Outcome::Unknown(text)
    }
}
