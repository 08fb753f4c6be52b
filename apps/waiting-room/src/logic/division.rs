//! Three ways to divide a data centre's slots between its workers.
//!
//! *Even* and *curve* let a worker decide alone. *Counters* hand out numbers: one call inside the data centre for a visitor who is
//! new, and a far one if the number is to come from *Anywhere*.

use serde::{Deserialize, Serialize};

/// How a data centre's slots are divided.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// The same number for each worker.
    Even,
    /// Workers are counted as fewer while the room is empty: their number times `utilisation^factor`.
    Curve {
        /// How much fewer.
        factor: f64,
    },
    /// Numbers from a counter object.
    Counters,
}

/// Slots in one minute that one data centre and its workers have, and those that all data centres share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Of the data centre.
    pub here: u64,
    /// Of all data centres.
    pub anywhere: u64,
}

impl Part {
    /// What a data centre has of it: its own part, and the part of *Anywhere* that falls to its workers.
    pub fn of_data_centre(self, workers: Workers) -> u64 {
        let shared = self.anywhere.saturating_mul(workers.here) / workers.world.max(1);
        self.here + shared
    }
}

/// Active workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Of the data centre.
    pub here: u64,
    /// Of all data centres.
    pub world: u64,
}

impl Division {
    /// How many visitors one worker may admit without a call in this minute; `None` if a counter decides.
    pub fn allowance(self, part: Part, workers: Workers, utilisation: f64) -> Option<u64> {
        let weight = match self {
            Self::Even => 1.0,
            Self::Curve { factor } => utilisation.clamp(0.0, 1.0).powf(factor),
            Self::Counters => return None,
        };
        Some(share(part.here, workers.here, weight) + share(part.anywhere, workers.world, weight))
    }
}

/// One worker's share. No worker has more than there is.
#[allow(clippy::cast_sign_loss, reason = "a count of workers is at least 1")]
fn share(slots: u64, workers: u64, weight: f64) -> u64 {
    let counted = (workers as f64 * weight).max(1.0);
    (slots as f64 / counted + 1e-9).floor() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAN_JOSE: Part = Part {
        here: 15,
        anywhere: 113,
    };
    const THREE_OF_TEN: Workers = Workers { here: 3, world: 10 };
    /// 50 of 200.
    const QUARTER: f64 = 0.25;

    /// How many of the visitors at each worker enter, if workers decide alone.
    fn entered(allowance: u64, visitors: &[u64]) -> u64 {
        visitors.iter().map(|count| (*count).min(allowance)).sum()
    }

    /// The same with a counter: it does not matter where a visitor is.
    fn entered_by_number(slots: u64, visitors: &[u64]) -> u64 {
        let numbers = 0..visitors.iter().sum::<u64>();
        numbers.filter(|number| *number < slots).count() as u64
    }

    #[test]
    fn even_gives_each_worker_the_same_part() {
        let own = Part {
            anywhere: 0,
            ..SAN_JOSE
        };
        let anywhere = Part {
            here: 0,
            ..SAN_JOSE
        };
        let of = |part| Division::Even.allowance(part, THREE_OF_TEN, QUARTER);
        assert_eq!(of(own), Some(5));
        assert_eq!(of(anywhere), Some(11));
        assert_eq!(of(SAN_JOSE), Some(16));
    }

    #[test]
    fn even_queues_2_of_8_visitors_although_there_are_10_slots() {
        let workers = Workers { here: 2, world: 2 };
        let part = Part {
            here: 10,
            anywhere: 0,
        };
        let each = Division::Even.allowance(part, workers, QUARTER).unwrap();
        assert_eq!(each, 5);
        assert_eq!(8 - entered(each, &[7, 1]), 2);
    }

    #[test]
    fn curve_counts_10_workers_as_2_and_a_half_at_25_percent() {
        let anywhere = Part {
            here: 0,
            ..SAN_JOSE
        };
        let curve = Division::Curve { factor: 1.0 };
        assert_eq!(curve.allowance(anywhere, THREE_OF_TEN, QUARTER), Some(45));
    }

    #[test]
    fn curve_lets_in_15_although_there_are_10_slots() {
        let workers = Workers { here: 2, world: 2 };
        let part = Part {
            here: 10,
            anywhere: 0,
        };
        let curve = Division::Curve { factor: 1.0 };
        let each = curve.allowance(part, workers, 0.625).unwrap();
        assert_eq!(each, 8);
        assert_eq!(entered(each, &[8, 7]), 15);
    }

    #[test]
    fn curve_gives_at_most_all_slots_and_as_even_in_a_full_room() {
        let curve = Division::Curve { factor: 2.0 };
        assert_eq!(curve.allowance(SAN_JOSE, THREE_OF_TEN, 0.0), Some(128));
        let even = Division::Even.allowance(SAN_JOSE, THREE_OF_TEN, 1.0);
        assert_eq!(curve.allowance(SAN_JOSE, THREE_OF_TEN, 1.0), even);
        assert_eq!(curve.allowance(SAN_JOSE, THREE_OF_TEN, 1.5), even);
    }

    #[test]
    fn counters_let_in_all_8_of_7_and_1_and_10_of_8_and_7_so_that_5_wait() {
        assert_eq!(entered_by_number(10, &[7, 1]), 8);
        assert_eq!(entered_by_number(10, &[8, 7]), 10);
        assert_eq!(15 - entered_by_number(10, &[8, 7]), 5);
    }

    #[test]
    fn counters_let_one_worker_in_san_jose_let_in_128() {
        assert_eq!(
            Division::Counters.allowance(SAN_JOSE, THREE_OF_TEN, QUARTER),
            None
        );
        let own = entered_by_number(SAN_JOSE.here, &[200]);
        let far = entered_by_number(SAN_JOSE.anywhere, &[200 - own]);
        assert_eq!(own + far, 128);
    }
}
