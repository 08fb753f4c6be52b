//! Turns: which message of a destination is next.
//!
//! Contract: pure. Messages wait in six lines: for each priority, first attempts and retries. Each line is in the order
//! in which its messages became due. Of [`limits::TURNS`] consecutive attempts each line is the first choice of at
//! least one, so a message with `n` others before it in its line waits for at most `TURNS × (n + 1)` attempts at its
//! destination, however many others there are. A later message never overtakes it in its line; a message that is
//! retried and fails goes to the line's end.

use std::collections::VecDeque;

use abide_component::numbers::rows;

/// Lines at a destination: two for each priority.
pub(super) const LINES: usize = 6;

/// The line of messages of a priority, 0 to 2, that were tried before or not.
pub(super) const fn line(priority: usize, again: bool) -> usize {
    2 * priority + again as usize
}

/// The priorities in the order in which they are asked at a turn, of eight.
fn priorities(turn: i64) -> [usize; 3] {
    match turn {
        3 => [1, 0, 2],
        7 => [2, 0, 1],
        _ => [0, 1, 2],
    }
}

/// The order in which the lines are asked for the next message, at a destination's attempt of this number.
fn preferences(served: i64) -> [usize; LINES] {
    let (round, turn) = (served.div_euclid(8), served.rem_euclid(8));
    let again_first = (round + turn).rem_euclid(2) == 1;
    let mut order = [0; LINES];
    for (place, priority) in priorities(turn).into_iter().enumerate() {
        order[2 * place] = line(priority, again_first);
        order[2 * place + 1] = line(priority, !again_first);
    }
    order
}

/// Takes at most this many messages from their lines, in turn. `served` is the number of the destination's next
/// attempt.
pub(super) fn take(lines: &mut [VecDeque<i64>; LINES], served: i64, most: usize) -> Vec<i64> {
    let next = |attempt: usize| {
        let served = served.wrapping_add(rows(attempt));
        let found = preferences(served)
            .into_iter()
            .find(|line| !lines[*line].is_empty())?;
        lines[found].pop_front()
    };
    (0..most).map_while(next).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits;

    #[test]
    fn each_line_is_the_first_choice_of_some_attempt_among_sixteen_in_a_row() {
        for start in -20..20 {
            for wanted in 0..LINES {
                let end = start + limits::TURNS;
                assert!(
                    (start..end).any(|served| preferences(served)[0] == wanted),
                    "line {wanted} from {start}"
                );
            }
        }
    }

    #[test]
    fn what_is_urgent_has_three_of_four_turns_and_repetitions_have_half() {
        let mut lines: [VecDeque<i64>; LINES] = Default::default();
        lines[line(0, false)] = (0..1_000).collect();
        lines[line(2, false)] = (1_000..2_000).collect();
        lines[line(2, true)] = (2_000..3_000).collect();
        let taken = take(&mut lines, 0, 160);
        let of = |from: i64| {
            taken
                .iter()
                .filter(|id| (from..from + 1_000).contains(id))
                .count()
        };
        assert_eq!((of(0), of(1_000), of(2_000)), (140, 10, 10));
    }

    proptest! {
        #[test]
        fn no_destination_waits_longer_than_the_turns_of_those_before(
            lengths in prop::array::uniform6(0_i64..40),
            served in any::<i32>(),
            at_a_time in prop::collection::vec(1_usize..40, 1..400),
        ) {
            let mut lines: [VecDeque<i64>; LINES] = Default::default();
            for ((line, number), length) in lines.iter_mut().zip(0_i64..).zip(lengths) {
                *line = (0..length).map(|place| number * 100 + place).collect();
            }
            let mut served = i64::from(served);
            let mut taken = Vec::new();
            for most in at_a_time {
                let some = take(&mut lines, served, most);
                served += i64::try_from(some.len()).expect("a few");
                taken.extend(some);
            }
            for (at, id) in taken.iter().enumerate() {
                let before = usize::try_from(id % 100).expect("a place");
                prop_assert!(at < limits::TURNS as usize * (before + 1));
            }
        }
    }
}
