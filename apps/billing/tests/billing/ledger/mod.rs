//! A model of money: random lives of subscriptions, and an independent ledger that computes what is owed. Engine and ledger
//! agree to the minor unit on invoices, payments, credit and debts, and on who is served.
//!
//! `ABIDE_LEDGER_FIRST_SEED` and `ABIDE_LEDGER_SEEDS` say which lives, and `ABIDE_LEDGER_SHRINKS` how many are lived to find a shorter one
//! that fails, too.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod account;
mod bank;
mod calendar;
mod compare;
mod life;
mod model;
mod world;

use std::time::Duration;

use abide_harness::{on_all_cores, run, setting};

use crate::ledger::life::Life;

const ENDLESS: &str = "it does not end";

/// No life takes so long.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is wrong with a life, if anything is.
fn fault(life: &Life) -> Option<String> {
    run(async {
        let lived = tokio::time::timeout(PATIENCE, world::lives(life)).await;
        lived.unwrap_or_else(|_| Err(ENDLESS.to_owned())).err()
    })
}

/// A shorter life that shows a fault.
fn shrunk(mut life: Life, mut text: String) -> (Life, String) {
    let most = setting("ABIDE_LEDGER_SHRINKS", 60);
    let mut tries = 0;
    let mut chunk = life.steps.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < life.steps.len() && tries < most {
            let mut shorter = life.clone();
            shorter.steps.drain(at..(at + chunk).min(life.steps.len()));
            tries += 1;
            match fault(&shorter) {
                Some(found) => (life, text) = (shorter, found),
                None => at += chunk,
            }
        }
        chunk /= 2;
    }
    (life, text)
}

#[test]
fn the_ledger_agrees_with_the_engine() {
    let first = setting("ABIDE_LEDGER_FIRST_SEED", 1);
    let seeds = first..first + setting("ABIDE_LEDGER_SEEDS", 30);
    on_all_cores(seeds, |seed| {
        let life = Life::new(seed);
        println!("seed {seed}");
        if let Some(text) = fault(&life) {
            println!("{text}\n{life}");
            // One that does not end is not tried again and again.
            let (life, text) = if text == ENDLESS {
                (life, text)
            } else {
                shrunk(life, text)
            };
            panic!("{text}\n{life}");
        }
    });
}
