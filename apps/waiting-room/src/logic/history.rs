//! Shares of the traffic, by which slots are divided between data centres.
//!
//! The shares that count are those of the minute before the last: whatever the delay between data centres, all of
//! them agree on it by then. Slots that belong to no data centre's share are left as *Anywhere*.

use std::collections::BTreeMap;

use super::plan::ANYWHERE;

/// How many minutes ago the traffic was that decides.
pub const LAG_MINUTES: u64 = 2;

/// A data centre with less of the traffic than this has no share: its visitors are served from *Anywhere*.
pub const LEAST_SHARE: f64 = 0.01;

/// The shares of one minute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    own: BTreeMap<String, f64>,
}

/// A whole number that was divided by shares. The parts make up the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    pub own: BTreeMap<String, u64>,
    pub anywhere: u64,
}

impl Parts {
    /// The part of a data centre, or of [`ANYWHERE`].
    pub fn of(&self, counter: &str) -> u64 {
        match counter {
            ANYWHERE => self.anywhere,
            name => self.own.get(name).copied().unwrap_or(0),
        }
    }
}

impl Shares {
    /// The shares, given as parts of 1.
    pub fn of(own: impl IntoIterator<Item = (String, f64)>) -> Self {
        Self {
            own: own.into_iter().collect(),
        }
    }

    /// The shares of data centres with these arrivals. `reachable` are those that still take part.
    pub fn of_arrivals(arrivals: &BTreeMap<String, u64>, reachable: &[String]) -> Self {
        // A single data centre shares with no other, whatever the history.
        if let [only] = reachable {
            return Self::of([(only.clone(), 1.0)]);
        }
        let total: u64 = arrivals.values().sum();
        if total == 0 {
            return Self::default();
        }
        let shares = arrivals.iter().filter(|(name, _)| reachable.contains(name));
        let shares = shares.map(|(name, count)| (name.clone(), *count as f64 / total as f64));
        Self::of(shares.filter(|(_, share)| *share >= LEAST_SHARE))
    }

    /// Each data centre's own share.
    pub fn own(&self) -> &BTreeMap<String, f64> {
        &self.own
    }

    /// What is left.
    pub fn anywhere(&self) -> f64 {
        (1.0 - self.own.values().sum::<f64>()).max(0.0)
    }

    /// Divides a number of slots. What rounding leaves goes to the largest remainders, to *Anywhere* first among equals, so that the
    /// parts are neither more nor fewer than the slots.
    pub fn divide(&self, slots: u64) -> Parts {
        let exact = |share: f64| share * slots as f64;
        let mut parts = Parts {
            own: BTreeMap::new(),
            anywhere: whole(exact(self.anywhere())),
        };
        let mut remainders = vec![(exact(self.anywhere()) - parts.anywhere as f64, None)];
        for (name, share) in &self.own {
            let part = whole(exact(*share));
            parts.own.insert(name.clone(), part);
            remainders.push((exact(*share) - part as f64, Some(name)));
        }
        let given = parts.anywhere + parts.own.values().sum::<u64>();
        // The sort is stable: Anywhere stays first among equals.
        remainders.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, name) in remainders
            .iter()
            .cycle()
            .take(usize::try_from(slots.saturating_sub(given)).unwrap_or(0))
        {
            match name {
                None => parts.anywhere += 1,
                Some(name) => *parts.own.entry((*name).clone()).or_default() += 1,
            }
        }
        parts
    }
}

/// Rounds down, forgiving what binary fractions are short of: 0.45 × 1,000 is 450.
#[allow(clippy::cast_sign_loss, reason = "shares are not negative")]
fn whole(exact: f64) -> u64 {
    (exact + 1e-6).floor() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(counts: &[(&str, u64)]) -> Shares {
        let counts: BTreeMap<_, _> = counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        let names: Vec<_> = counts.keys().cloned().collect();
        Shares::of_arrivals(&counts, &names)
    }

    #[test]
    fn slots_are_divided_by_the_shares_of_an_earlier_minute() {
        let at_16_33 = arrivals(&[("a", 50), ("b", 50)]).divide(1_000);
        assert_eq!((at_16_33.own["a"], at_16_33.own["b"]), (500, 500));
        let at_16_34 = arrivals(&[("a", 45), ("b", 55)]).divide(1_000);
        assert_eq!((at_16_34.own["a"], at_16_34.own["b"]), (450, 550));
        assert_eq!((at_16_33.anywhere, at_16_34.anywhere), (0, 0));
    }

    #[test]
    fn small_shares_go_to_anywhere_and_rounding_keeps_the_sum() {
        let shares = Shares::of([("San Jose".to_owned(), 0.10), ("London".to_owned(), 0.15)]);
        let parts = shares.divide(150);
        assert_eq!(parts.own["San Jose"], 15);
        assert_eq!(parts.anywhere, 113); // 112.5, rounded up
        assert_eq!(parts.own["London"], 22); // 22.5, rounded down: there are 150
    }

    #[test]
    fn the_parts_are_as_many_as_the_slots() {
        for slots in 0..500 {
            let parts = arrivals(&[("a", 1), ("b", 1), ("c", 1), ("d", 4)]).divide(slots);
            assert_eq!(parts.anywhere + parts.own.values().sum::<u64>(), slots);
        }
    }

    #[test]
    fn without_history_all_slots_are_anywhere_s_unless_alone() {
        let two = ["a".to_owned(), "b".to_owned()];
        let none = Shares::of_arrivals(&BTreeMap::new(), &two);
        assert_eq!(none.divide(10).anywhere, 10);
        let alone = Shares::of_arrivals(&BTreeMap::new(), &two[..1]);
        assert_eq!(alone.divide(10).own["a"], 10);
    }

    #[test]
    fn the_share_of_a_data_centre_that_has_gone_is_anywhere_s() {
        let counts = BTreeMap::from([
            ("a".to_owned(), 30),
            ("b".to_owned(), 30),
            ("c".to_owned(), 40),
        ]);
        let shares = Shares::of_arrivals(&counts, &["a".to_owned(), "b".to_owned()]);
        assert_eq!(shares.divide(100).anywhere, 40);
    }
}
