//! The bank that both sides keep: accounts, and transfers between two of them.
//!
//! The workload is the one that `SpacetimeDB` published as `keynote-2`: 100,000 accounts; a transfer reads two balances, checks
//! that the one is enough, and changes both; the accounts are chosen uniformly or by Zipf's law.

use std::sync::Arc;

use crate::workload::Sequence;

pub(crate) const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)";
pub(crate) const FILL: &str =
    "WITH RECURSIVE ids (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM ids WHERE id + 1 < ?1)
    INSERT INTO accounts (id, balance) SELECT id, ?2 FROM ids";
pub(crate) const BALANCE: &str = "SELECT balance FROM accounts WHERE id = ?1";
pub(crate) const SET: &str = "UPDATE accounts SET balance = ?2 WHERE id = ?1";
pub(crate) const TOTAL: &str = "SELECT sum(balance) FROM accounts";

/// What each account has in the beginning.
pub(crate) const BALANCE_AT_FIRST: i64 = 10_000_000;

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) amount: i64,
}

/// Transfers at random, the same in each run.
#[derive(Clone, Debug)]
pub(crate) struct Transfers {
    /// The probability of an account or one before it.
    cumulative: Arc<[f64]>,
    sequence: Sequence,
}

impl Transfers {
    /// Between `accounts` accounts; the one of rank k is chosen with a probability of 1/k^alpha. Alpha 0 is uniform.
    pub(crate) fn new(accounts: usize, alpha: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=accounts)
            .map(|rank| {
                sum += (rank as f64).powf(-alpha);
                sum
            })
            .collect();
        for weight in &mut cumulative {
            *weight /= sum;
        }
        Self {
            cumulative: cumulative.into(),
            sequence: Sequence::new(seed),
        }
    }

    /// Others between the same accounts.
    pub(crate) fn reseeded(&self, seed: u64) -> Self {
        Self {
            cumulative: Arc::clone(&self.cumulative),
            sequence: Sequence::new(seed),
        }
    }

    fn account(&mut self) -> usize {
        let at = (self.sequence.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let found = self.cumulative.partition_point(|weight| *weight <= at);
        found.min(self.cumulative.len() - 1)
    }
}

impl Iterator for Transfers {
    type Item = Transfer;

    fn next(&mut self) -> Option<Transfer> {
        Some(self.draw())
    }
}

impl Transfers {
    /// The next transfer.
    pub(crate) fn draw(&mut self) -> Transfer {
        let from = self.account();
        let to = loop {
            let to = self.account();
            if to != from {
                break to;
            }
        };
        // Who is chosen first is more often one of the rich, and would soon be poor.
        let (from, to) = if self.sequence.below(2) == 0 {
            (from, to)
        } else {
            (to, from)
        };
        let number = |number: usize| i64::from(number as u32);
        Transfer {
            from: number(from),
            to: number(to),
            amount: 1 + number(self.sequence.below(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Transfer, Transfers};

    /// The share of transfers that touch the first account.
    fn share(alpha: f64) -> f64 {
        let transfers = Transfers::new(1_000, alpha, 1).take(10_000);
        transfers
            .filter(|transfer| transfer.from == 0 || transfer.to == 0)
            .count() as f64
            / 10_000.0
    }

    #[test]
    fn accounts_are_chosen_uniformly_or_by_zipfs_law() {
        assert!(share(0.0) < 0.01);
        assert!((0.5..0.8).contains(&share(1.5)), "{}", share(1.5));
    }

    #[test]
    fn an_account_pays_about_as_often_as_it_is_paid() {
        let paid = |transfer: &Transfer| transfer.from == 0;
        let got = |transfer: &Transfer| transfer.to == 0;
        let transfers: Vec<_> = Transfers::new(1_000, 1.5, 3).take(100_000).collect();
        let paid = transfers.iter().filter(|one| paid(one)).count();
        let got = transfers.iter().filter(|one| got(one)).count();
        assert!(paid.abs_diff(got) < 1_500, "{paid} and {got}");
    }

    #[test]
    fn every_transfer_is_between_two_different_existing_accounts() {
        for transfer in Transfers::new(10, 1.5, 7).take(1_000) {
            assert_ne!(transfer.from, transfer.to);
            assert!((0..10).contains(&transfer.from) && (0..10).contains(&transfer.to));
        }
    }
}
