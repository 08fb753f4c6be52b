//! Each checker, on histories made by hand: good ones pass, and each broken promise is found by the checker of its name.

use abide_sim::{
    checkers,
    history::{Carrier, Event, MessageState, Moment, Op, OutboxMessage, Outcome},
};

const ACKNOWLEDGED: &str = "acknowledged writes survive";
const WHOLE: &str = "unacknowledged writes are whole or absent";
const RELEASED: &str = "nothing leaves an object before its writes are durable";
const SINGLE: &str = "an object has one instance at a time";
const ALARMS: &str = "alarms go off at least once and never before their time";
const SOCKETS: &str = "a socket's messages keep their order";
const OUTBOX: &str =
    "messages of an outbox are never lost, repeated without need or out of their keys' order";
const KEYED: &str = "a call with an idempotency key is applied once";
const LINEAR: &str = "each object's history is linearizable";
const SLATES: &str = "an erased object is gone until it is written again";
const ALIVE: &str = "the node starts, continues and answers";

fn broken(events: &[Event]) -> Option<&'static str> {
    checkers::check(events)
        .err()
        .map(|violation| violation.property)
}

fn append(id: u32, values: &[u32]) -> Event {
    Event::Began(id, Op::Append(0, values.to_vec()))
}

fn placed(id: u32, places: &[u32]) -> Event {
    Event::Ended(id, Outcome::Placed(places.to_vec()))
}

fn read(id: u32) -> Event {
    Event::Began(id, Op::Read(0))
}

fn list(id: u32, values: &[u32]) -> Event {
    Event::Ended(id, Outcome::List(values.to_vec()))
}

fn holds(values: &[u32]) -> Event {
    Event::Holds(0, values.to_vec())
}

fn seen(version: u32, last: u32) -> Event {
    Event::Seen {
        object: 0,
        version,
        last: Some(last),
        by: Carrier::Answer,
    }
}

#[test]
fn a_history_in_which_nothing_is_wrong_passes() {
    let events = [
        Event::Made(0, 1),
        append(1, &[10, 11]),
        Event::Ran(0, 1),
        placed(1, &[0, 1]),
        seen(2, 11),
        append(2, &[20]),
        Event::Died(abide_sim::history::ProcessEnd::PowerLoss),
        read(3),
        list(3, &[10, 11]),
        holds(&[10, 11]),
    ];
    assert_eq!(broken(&events), None);
}

#[test]
fn an_acknowledged_write_that_is_lost_or_elsewhere_is_found() {
    let lost = [append(1, &[10]), placed(1, &[0]), holds(&[])];
    assert_eq!(broken(&lost), Some(ACKNOWLEDGED));
    let moved = [
        append(1, &[10]),
        append(2, &[20]),
        placed(1, &[0]),
        holds(&[20, 10]),
    ];
    assert_eq!(broken(&moved), Some(ACKNOWLEDGED));
}

#[test]
fn a_part_of_a_transaction_is_found() {
    assert_eq!(broken(&[append(1, &[10, 11]), holds(&[10])]), Some(WHOLE));
    let apart = [append(1, &[10, 11]), append(2, &[20]), holds(&[10, 20, 11])];
    assert_eq!(broken(&apart), Some(WHOLE));
    let torn = [Event::Torn(0, "a row is missing".to_owned())];
    assert_eq!(broken(&torn), Some(WHOLE));
}

#[test]
fn values_never_written_or_undone_are_found() {
    assert_eq!(broken(&[holds(&[10])]), Some(WHOLE));
    let twice = [append(1, &[10]), holds(&[10, 10])];
    assert_eq!(broken(&twice), Some(WHOLE));
    let undone = [
        append(1, &[10]),
        Event::Ended(1, Outcome::NotRun("busy".to_owned())),
        holds(&[10]),
    ];
    assert_eq!(broken(&undone), Some(WHOLE));
    let panicked = [Event::Began(1, Op::Panic(0, 10)), holds(&[10])];
    assert_eq!(broken(&panicked), Some(WHOLE));
}

#[test]
fn what_was_shown_outside_and_taken_back_is_found() {
    assert_eq!(broken(&[seen(1, 10), holds(&[])]), Some(RELEASED));
    let other = [
        append(1, &[10]),
        append(2, &[20]),
        seen(1, 10),
        holds(&[20]),
    ];
    assert_eq!(broken(&other), Some(RELEASED));
    let relayed = [
        Event::Began(1, Op::Relay(0, 10, 1, 11)),
        holds(&[]),
        Event::Holds(1, vec![11]),
    ];
    assert_eq!(broken(&relayed), Some(RELEASED));
}

#[test]
fn an_instance_that_runs_after_its_successor_was_made_is_found() {
    let events = [Event::Made(0, 1), Event::Made(0, 2), Event::Ran(0, 1)];
    assert_eq!(broken(&events), Some(SINGLE));
}

#[test]
fn an_alarm_that_is_early_deleted_or_missing_is_found() {
    let set = |fires: bool| {
        let mut events = vec![
            Event::Began(1, Op::Alarm(0, [10, 11], 500, 0)),
            placed(1, &[0]),
        ];
        events.push(holds(if fires { &[10, 11] } else { &[10] }));
        events
    };
    assert_eq!(broken(&set(true)), None);
    assert_eq!(broken(&set(false)), Some(ALARMS));
    let rang = |now| Event::Rang {
        object: 0,
        value: 10,
        at: 500,
        now,
    };
    let mut early = set(true);
    early.insert(2, rang(499));
    assert_eq!(broken(&early), Some(ALARMS));
    let deleted = [
        Event::Began(1, Op::Alarm(0, [10, 11], 500, 0)),
        Event::Began(2, Op::Cancel(0, 20)),
        placed(2, &[1]),
        rang(600),
        holds(&[10, 20]),
    ];
    assert_eq!(broken(&deleted), Some(ALARMS));
    // An attempt that runs is not taken back: if it breaks, it is repeated.
    let mut running = deleted.to_vec();
    running.insert(2, rang(550));
    assert_eq!(broken(&running), None);
}

#[test]
fn frames_and_messages_that_change_places_or_are_left_out_are_found() {
    let heard = |casts| Event::Heard(1, 0, casts);
    assert_eq!(broken(&[heard(3), heard(4), heard(5)]), None);
    assert_eq!(broken(&[heard(3), heard(5)]), Some(SOCKETS));
    assert_eq!(broken(&[heard(4), heard(3)]), Some(SOCKETS));
    let end = Event::Disk(0);
    let other = Event::Heard(2, 0, 3);
    assert_eq!(broken(&[heard(3), other.clone(), end.clone()]), None);
    assert_eq!(
        broken(&[
            heard(3),
            heard(4),
            other.clone(),
            Event::Closed(2),
            end.clone()
        ]),
        None
    );
    assert_eq!(broken(&[heard(3), heard(4), other, end]), Some(SOCKETS));
    let said = |values: &[u32]| [Event::Said(1, 0, 10), Event::Said(1, 0, 20), holds(values)];
    assert_eq!(broken(&said(&[10, 20])), None);
    assert_eq!(broken(&said(&[10])), None);
    assert_eq!(broken(&said(&[20, 10])), Some(SOCKETS));
    assert_eq!(broken(&said(&[20])), Some(SOCKETS));
}

fn message(value: u32, state: MessageState) -> OutboxMessage {
    OutboxMessage {
        value,
        key: Some("key".to_owned()),
        state,
        attempts: 2,
    }
}

fn post(id: u32, value: u32) -> [Event; 2] {
    [
        Event::Began(id, Op::Post(0, 0, value, Some(0), Vec::new())),
        Event::Ended(id, Outcome::Done),
    ]
}

#[test]
fn messages_that_are_lost_stuck_repeated_or_out_of_order_are_found() {
    let [began, ended] = post(1, 10);
    let tried = Event::Tried(0, 10, 1, "a".to_owned(), Moment(0));
    let took = Event::Took(0, 10);
    let posted = |messages: &[OutboxMessage]| Event::Posted(0, messages.to_vec());
    let sent = [message(10, MessageState::Sent)];
    let opened = Event::Opened(0);
    let good = [
        began,
        ended,
        tried.clone(),
        took.clone(),
        posted(&sent),
        opened.clone(),
    ];
    assert_eq!(broken(&good), None);

    let mut lost = good.to_vec();
    lost[4] = posted(&[]);
    assert_eq!(broken(&lost), Some(OUTBOX));

    let mut stuck = good.to_vec();
    stuck[4] = posted(&[message(10, MessageState::Open)]);
    assert_eq!(broken(&stuck), Some(OUTBOX));

    let mut never = good.to_vec();
    never.remove(3);
    assert_eq!(broken(&never), Some(OUTBOX));

    let mut repeated = good.to_vec();
    repeated.insert(3, took.clone());
    assert_eq!(broken(&repeated), Some(OUTBOX));

    let mut other_key = good.to_vec();
    other_key.insert(3, Event::Tried(0, 10, 2, "b".to_owned(), Moment(5_000)));
    assert_eq!(broken(&other_key), Some(OUTBOX));

    let mut too_often = good.to_vec();
    let again = |attempt, at| Event::Tried(0, 10, attempt, "a".to_owned(), Moment(at));
    too_often.splice(3..3, [again(2, 1_000), again(3, 3_000)]);
    assert_eq!(broken(&too_often), Some(OUTBOX));

    let mut in_time = good.to_vec();
    in_time.insert(3, again(2, 1_000));
    assert_eq!(broken(&in_time), None);
    in_time[3] = again(2, 999);
    assert_eq!(broken(&in_time), Some(OUTBOX));

    let mut turned = [post(1, 10), post(2, 20)].concat();
    turned.extend([Event::Took(0, 20), took]);
    turned.push(posted(&[
        message(10, MessageState::Sent),
        message(20, MessageState::Sent),
    ]));
    assert_eq!(broken(&turned), Some(OUTBOX));
}

#[test]
fn a_call_that_is_applied_again_under_its_key_is_found() {
    let differs = Event::Differs(1, vec![0], "Placed([1])".to_owned());
    assert_eq!(broken(&[differs]), Some(KEYED));
}

#[test]
fn values_that_come_between_those_of_a_closed_gate_are_found() {
    let alone = Event::Began(1, Op::Alone(0, [10, 11]));
    let other = append(2, &[20]);
    assert_eq!(
        broken(&[alone.clone(), other.clone(), holds(&[20, 10, 11])]),
        None
    );
    assert_eq!(broken(&[alone, other, holds(&[10, 20, 11])]), Some(LINEAR));
}

#[test]
fn a_value_of_a_savepoint_that_failed_is_found() {
    let refused = Event::Began(1, Op::Refused(0, 10));
    assert_eq!(broken(&[refused.clone(), holds(&[])]), None);
    assert_eq!(broken(&[refused, holds(&[10])]), Some(WHOLE));
}

#[test]
fn a_read_that_fits_no_order_is_found() {
    let stale = [
        append(1, &[10]),
        placed(1, &[0]),
        read(2),
        list(2, &[]),
        holds(&[10]),
    ];
    assert_eq!(broken(&stale), Some(LINEAR));
    let back = [
        append(1, &[10]),
        read(2),
        list(2, &[10]),
        read(3),
        list(3, &[]),
        holds(&[10]),
    ];
    assert_eq!(broken(&back), Some(LINEAR));
    let forked = [
        append(1, &[10]),
        append(2, &[20]),
        read(3),
        list(3, &[20]),
        holds(&[10, 20]),
    ];
    assert_eq!(broken(&forked), Some(LINEAR));
    let overtaken = [
        append(1, &[10]),
        placed(1, &[1]),
        append(2, &[20]),
        holds(&[20, 10]),
    ];
    assert_eq!(broken(&overtaken), Some(LINEAR));
}

#[test]
fn reads_that_meet_may_be_in_either_order() {
    let events = [
        append(1, &[10]),
        read(2),
        read(3),
        list(3, &[10]),
        list(2, &[]),
        placed(1, &[0]),
        holds(&[10]),
    ];
    assert_eq!(broken(&events), None);
}

const WRITE: Event = Event::Began(1, Op::Write(0, 10, None));
const WRITTEN: Event = Event::Ended(1, Outcome::Done);
const ERASE: Event = Event::Began(2, Op::Erase(0));
const ERASED: Event = Event::Ended(2, Outcome::Done);
const KILLED: Event = Event::Died(abide_sim::history::ProcessEnd::Kill);
const LOOK: Event = Event::Began(3, Op::Look(0));

fn state(state: Option<u32>) -> Event {
    Event::Ended(3, Outcome::State(state))
}

fn shows(state: Option<u32>) -> Event {
    Event::Shows(0, state)
}

#[test]
fn a_value_that_is_lost_or_comes_back_is_found() {
    let good = [
        WRITE,
        WRITTEN,
        ERASE,
        ERASED,
        LOOK,
        state(None),
        shows(None),
    ];
    assert_eq!(broken(&good), None);
    let lost = [WRITE, WRITTEN, shows(None)];
    assert_eq!(broken(&lost), Some(SLATES));
    let back = [WRITE, WRITTEN, ERASE, ERASED, shows(Some(10))];
    assert_eq!(broken(&back), Some(SLATES));
    assert_eq!(broken(&[shows(Some(10))]), Some(SLATES));
    let not_run = Event::Ended(1, Outcome::NotRun("busy".to_owned()));
    assert_eq!(broken(&[WRITE, not_run, shows(Some(10))]), Some(SLATES));
}

#[test]
fn an_erasure_without_an_answer_happens_before_the_process_ends_or_never() {
    let before = [WRITE, WRITTEN, ERASE, KILLED];
    for state in [None, Some(10)] {
        let events = [&before[..], &[shows(state)]].concat();
        assert_eq!(broken(&events), None, "{state:?}");
    }
    let later = [LOOK, state(Some(10)), shows(None)];
    assert_eq!(broken(&[&before[..], &later].concat()), Some(SLATES));
    let undone = [LOOK, state(None), shows(Some(10))];
    assert_eq!(broken(&[&before[..], &undone].concat()), Some(SLATES));
}

#[test]
fn a_value_that_its_alarm_leaves_is_found() {
    let write = Event::Began(1, Op::Write(0, 10, Some(500)));
    let wiped = [write.clone(), WRITTEN, Event::Wiped(0), shows(None)];
    assert_eq!(broken(&wiped), None);
    assert_eq!(broken(&[write, WRITTEN, shows(Some(10))]), Some(SLATES));
}

#[test]
fn an_object_that_exists_without_a_value_or_not_with_one_is_found() {
    let exists = |found| Event::Exists {
        slate: 0,
        found,
        listed: found,
    };
    let power = Event::Died(abide_sim::history::ProcessEnd::PowerLoss);
    let erased = [WRITE, WRITTEN, Event::Healed, ERASE, ERASED];
    let gone = [exists(false), power.clone(), exists(false), shows(None)];
    assert_eq!(broken(&[&erased[..], &gone].concat()), None);
    let stays = [&erased[..], &[exists(true)]].concat();
    assert_eq!(broken(&stays), Some(SLATES));
    let back = [exists(false), power, exists(true)];
    assert_eq!(broken(&[&erased[..], &back].concat()), Some(SLATES));
    // Its end was lost with the process: it stays, empty.
    let empty = [WRITE, WRITTEN, ERASE, ERASED, KILLED, exists(true)];
    assert_eq!(broken(&empty), None);
    let unlisted = Event::Exists {
        slate: 0,
        found: true,
        listed: false,
    };
    assert_eq!(broken(&[unlisted]), Some(SLATES));
    let hidden = [WRITE, WRITTEN, exists(false), shows(Some(10))];
    assert_eq!(broken(&hidden), Some(SLATES));
    assert_eq!(broken(&[Event::Smudged(0)]), Some(SLATES));
}

#[test]
fn a_node_that_does_not_start_fails_or_hangs_is_found() {
    for event in [
        Event::Refused("damaged".to_owned()),
        Event::Failed("a panic".to_owned()),
        Event::Hangs(7),
    ] {
        assert_eq!(broken(&[event]), Some(ALIVE));
    }
}
