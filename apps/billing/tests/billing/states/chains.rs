//! Chains that were written by each version of the data, kept as they were: `chains/MACHINE-VERSION.json`.
//!
//! A chain without what it came to has that written by `BILLING_WRITE_CHAINS=1`; one that has it is never written.

use std::{collections::BTreeSet, fs, path::PathBuf};

use abide::outcomes::{Entry, Machine, Schema, replay};
use billing::{
    resource::Live,
    states::{Customer, Invoice, PaymentIntent, Price, Product, Refund, Subscription},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A chain, and what it came to for the program that wrote it.
#[derive(Serialize, Deserialize)]
struct Fixture {
    name: String,
    chain: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    live: Option<Value>,
}

/// Whether a value has everything of another. It may have fields that the program of then did not know.
fn is_in(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted
            .iter()
            .all(|(key, wanted)| found.get(key).is_some_and(|found| is_in(wanted, found))),
        _ => wanted == found,
    }
}

fn path<M: Machine>(version: u32) -> PathBuf {
    let name = format!(
        "tests/billing/states/chains/{}-{version}.json",
        M::SCHEMA.name
    );
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn fixtures<M: Machine>(version: u32) -> Vec<Fixture> {
    let path = path::<M>(version);
    let text = fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| {
        panic!("{}: {error}: a version needs its chains", path.display());
    });
    serde_json::from_str(&text).unwrap()
}

/// Replays the chains of every version of a machine. Each transition is in one of them.
fn replays<M: Live>() {
    let mut made = BTreeSet::new();
    let schema = Schema::of::<M>().unwrap();
    for version in 1..=M::VERSION {
        let mut fixtures = fixtures::<M>(version);
        for fixture in &mut fixtures {
            let name = format!("{} {version} `{}`", M::SCHEMA.name, fixture.name);
            let reached = replay::<M>(fixture.chain.clone());
            let reached = reached.unwrap_or_else(|error| panic!("{name}: {error}"));
            let live = serde_json::to_value(&reached.machine).unwrap();
            if std::env::var_os("BILLING_WRITE_CHAINS").is_some() {
                fixture.state.get_or_insert(reached.state.to_owned());
                fixture.live.get_or_insert_with(|| live.clone());
            }
            assert_eq!(fixture.state.as_deref(), Some(reached.state), "{name}");
            let wanted = fixture.live.as_ref().unwrap();
            assert!(is_in(wanted, &live), "{name}: {wanted} is not in {live}");
            let mut state = schema.declaration().initial;
            for entry in &fixture.chain {
                let next = schema.next(state, &entry.action, &entry.outcome);
                made.insert((state, entry.action.clone(), entry.outcome.clone()));
                state = next.unwrap_or(state);
            }
        }
        if std::env::var_os("BILLING_WRITE_CHAINS").is_some() {
            let text = serde_json::to_string_pretty(&fixtures).unwrap();
            fs::write(path::<M>(version), text + "\n").unwrap();
        }
    }
    for (from, action, outcome, _) in schema.declaration().transitions {
        let transition = (*from, (*action).to_owned(), (*outcome).to_owned());
        assert!(
            made.contains(&transition),
            "no chain has `{action}` with `{outcome}` in `{from}`"
        );
    }
}

#[test]
fn every_recorded_chain_still_replays() {
    replays::<Product>();
    replays::<Price>();
    replays::<Customer>();
    replays::<Subscription>();
    replays::<Invoice>();
    replays::<PaymentIntent>();
    replays::<Refund>();
}

#[test]
fn what_goes_beyond_todays_rules_is_refused_when_it_is_new() {
    fn refused<M: Machine>() {
        let chains = fixtures::<M>(1).into_iter();
        let beyond = chains.filter(|fixture| fixture.name.starts_with("beyond"));
        for fixture in beyond {
            let accepts = |entry: &Entry| {
                let before = fixture.chain.iter().filter(|other| other.seq < entry.seq);
                let reached = replay::<M>(before.cloned()).unwrap();
                reached.machine.validate(entry).is_ok()
            };
            let name = format!("{} `{}`", M::SCHEMA.name, fixture.name);
            assert!(!fixture.chain.iter().all(accepts), "{name}");
        }
    }
    refused::<Product>();
    refused::<Price>();
    refused::<Customer>();
    refused::<Subscription>();
}
