//! What the checkers say of machines that are lost, on histories made by hand.

use abide_sim::{
    checkers,
    history::{Event, Op, Outcome, ProcessEnd},
};

const ACKNOWLEDGED: &str = "acknowledged writes survive";
const COPIES: &str = "a lost machine loses a suffix, and nothing that was copied";

const LOST: Event = Event::Died(ProcessEnd::Loss);

fn broken(events: &[Event]) -> Option<&'static str> {
    let violation = checkers::check(events).err();
    violation.map(|violation| violation.property)
}

/// All properties that a history violates.
fn all_broken(events: &[Event]) -> Vec<&'static str> {
    let violations = checkers::PROPERTIES.iter();
    let violations = violations.filter_map(|property| property.check(events).err());
    violations.map(|violation| violation.property).collect()
}

/// A client appends a value to a ledger.
fn append(id: u32, object: u8, value: u32) -> Event {
    Event::Began(id, Op::Append(object, vec![value]))
}

fn placed(id: u32, place: u32) -> Event {
    Event::Ended(id, Outcome::Placed(vec![place]))
}

fn holds(object: u8, values: &[u32]) -> Event {
    Event::Holds(object, values.to_vec())
}

#[test]
fn awaited_copies_lose_nothing_that_was_acknowledged() {
    let begin = [
        Event::Copies(true),
        append(1, 0, 10),
        placed(1, 0),
        append(2, 0, 20),
        LOST,
    ];
    let kept = [&begin[..], &[holds(0, &[10])]].concat();
    assert_eq!(broken(&kept), None);
    let lost = [&begin[..], &[holds(0, &[])]].concat();
    assert_eq!(broken(&lost), Some(ACKNOWLEDGED));
}

#[test]
fn an_answer_after_the_replacement_that_is_not_there_is_found() {
    let events = [
        Event::Copies(true),
        append(1, 0, 10),
        LOST,
        placed(1, 0),
        holds(0, &[]),
    ];
    assert_eq!(broken(&events), Some(ACKNOWLEDGED));
}

#[test]
fn a_lost_suffix_is_no_violation_if_no_copy_was_awaited() {
    let events = [
        Event::Copies(false),
        append(1, 0, 10),
        placed(1, 0),
        Event::Durable(100),
        Event::Copied(100),
        append(2, 0, 20),
        placed(2, 1),
        append(3, 1, 30),
        placed(3, 0),
        LOST,
        append(4, 0, 40),
        placed(4, 1),
        holds(0, &[10, 40]),
        holds(1, &[]),
    ];
    assert_eq!(broken(&events), None);
}

#[test]
fn what_was_copied_and_is_lost_is_found() {
    let events = |copied| {
        [
            Event::Copies(false),
            append(1, 0, 10),
            placed(1, 0),
            Event::Durable(100),
            Event::Copied(copied),
            LOST,
            holds(0, &[]),
        ]
    };
    assert_eq!(broken(&events(99)), None);
    assert_eq!(all_broken(&events(100)), [ACKNOWLEDGED, COPIES]);
}

#[test]
fn a_copy_of_another_machine_counts_for_no_earlier_one() {
    let events = [
        Event::Copies(false),
        append(1, 0, 10),
        placed(1, 0),
        Event::Durable(100),
        LOST,
        Event::Copied(5_000),
        LOST,
        holds(0, &[]),
    ];
    assert_eq!(broken(&events), None);
}

#[test]
fn a_later_write_that_survives_an_earlier_one_is_found() {
    let events = [
        Event::Copies(false),
        append(1, 0, 10),
        placed(1, 0),
        append(2, 1, 20),
        LOST,
        holds(0, &[]),
        holds(1, &[20]),
    ];
    assert_eq!(broken(&events), Some(COPIES));
    let concurrent = [
        Event::Copies(false),
        append(1, 0, 10),
        append(2, 1, 20),
        placed(1, 0),
        LOST,
        holds(0, &[]),
        holds(1, &[20]),
    ];
    assert_eq!(broken(&concurrent), None);
}

#[test]
fn a_loss_excuses_nothing_that_happens_after_it() {
    let events = [
        Event::Copies(false),
        LOST,
        append(1, 0, 10),
        placed(1, 0),
        Event::Died(ProcessEnd::Kill),
        holds(0, &[]),
    ];
    assert_eq!(broken(&events), Some(ACKNOWLEDGED));
}
