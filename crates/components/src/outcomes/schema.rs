//! A state machine as data: states, actions, outcomes, and the allowed transitions.
//!
//! Contract: a [`Schema`] is valid. Every name in it is declared once and used, every state is reachable, and a state
//! is terminal exactly if no transition leaves it. An invalid declaration is refused with a list of all its errors.

use std::{
    any::TypeId,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use abide::{Error, ErrorKind};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::{Allowed, Machine, limits};

/// An allowed transition: in this state, this action may have this outcome, which leads to this state.
pub type Transition = (&'static str, &'static str, &'static str, &'static str);

/// The declaration of a state machine. Names consist of `a` to `z`, `0` to `9` and `_`, and begin with a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The machine's name.
    pub name: &'static str,
    /// The state before the first outcome.
    pub initial: &'static str,
    /// Every state, including the initial and the terminal ones.
    pub states: &'static [&'static str],
    /// The states that are never left. They may have transitions to themselves, for late outcomes.
    pub terminal: &'static [&'static str],
    /// The actions.
    pub actions: &'static [&'static str],
    /// The outcomes.
    pub outcomes: &'static [&'static str],
    /// State, action, outcome, next state.
    pub transitions: &'static [Transition],
}

/// An invalid declaration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the schema `{name}` is invalid: {}", .problems.join("; "))]
pub struct SchemaError {
    /// The schema's name.
    pub name: &'static str,
    /// All its errors.
    pub problems: Vec<String>,
}

impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Self {
        Self::with_kind(ErrorKind::Input, error.to_string())
    }
}

/// A state machine with a valid declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    declaration: Declaration,
    hash: [u8; 32],
}

impl Schema {
    /// Checks a declaration.
    pub fn new(declaration: Declaration) -> Result<Self, SchemaError> {
        let problems = problems(&declaration);
        if !problems.is_empty() {
            let name = declaration.name;
            return Err(SchemaError { name, problems });
        }
        let hash = hash(&declaration);
        Ok(Self { declaration, hash })
    }

    /// The schema of a machine. It is checked once per process.
    pub fn of<M: Machine>() -> Result<Arc<Self>, SchemaError> {
        static KNOWN: Mutex<BTreeMap<TypeId, Arc<Schema>>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = known.get(&TypeId::of::<M>()) {
            return Ok(Arc::clone(schema));
        }
        let schema = Arc::new(Self::new(M::SCHEMA)?);
        known.insert(TypeId::of::<M>(), Arc::clone(&schema));
        Ok(schema)
    }

    /// The declaration.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// The state that an action with an outcome leads to, if it is allowed.
    pub fn next(&self, state: &str, action: &str, outcome: &str) -> Option<&'static str> {
        self.from(state)
            .find(|(_, a, o, _)| *a == action && *o == outcome)
            .map(|(.., to)| *to)
    }

    /// What is allowed in a state, in the order of the declaration.
    pub fn allowed(&self, state: &str) -> Vec<Allowed> {
        self.from(state)
            .map(|(_, action, outcome, _)| Allowed {
                action: (*action).to_owned(),
                outcome: (*outcome).to_owned(),
            })
            .collect()
    }

    /// True if a state is never left.
    pub fn is_terminal(&self, state: &str) -> bool {
        self.declaration.terminal.contains(&state)
    }

    /// The name of a state as it is declared.
    pub(super) fn state(&self, name: &str) -> Option<&'static str> {
        let mut states = self.declaration.states.iter();
        states.find(|state| **state == name).copied()
    }

    /// The fingerprint of this schema.
    pub(super) fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    fn from(&self, state: &str) -> impl Iterator<Item = &'static Transition> {
        let transitions = self.declaration.transitions.iter();
        transitions.filter(move |(from, ..)| *from == state)
    }
}

fn problems(declaration: &Declaration) -> Vec<String> {
    let mut found = Vec::new();
    if !is_name(declaration.name) {
        found.push(format!("its name {}", not_a_name(declaration.name)));
    }
    for (what, names) in [
        ("state", declaration.states),
        ("terminal state", declaration.terminal),
        ("action", declaration.actions),
        ("outcome", declaration.outcomes),
    ] {
        found.extend(names_alone(what, names));
    }
    if declaration.transitions.len() > limits::MAX_NAMES {
        found.push(too_many("transitions", declaration.transitions.len()));
    }
    found.extend(transitions_alone(declaration));
    // If names are wrong, further errors would only repeat that.
    if found.is_empty() {
        found.extend(together(declaration));
    }
    found
}

fn names_alone(what: &str, names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    if names.len() > limits::MAX_NAMES {
        found.push(too_many(&format!("{what}s"), names.len()));
    }
    let mut seen = BTreeSet::new();
    for name in names {
        if !is_name(name) {
            found.push(format!("the {what} {}", not_a_name(name)));
        }
        if !seen.insert(name) {
            found.push(format!("the {what} `{name}` is declared twice"));
        }
    }
    found
}

fn transitions_alone(declaration: &Declaration) -> Vec<String> {
    let mut found = Vec::new();
    let mut unknown = BTreeSet::new();
    let mut check = |what: &'static str, known: &[&str], name: &'static str| {
        if !known.contains(&name) && unknown.insert((what, name)) {
            found.push(format!("the {what} `{name}` is not declared"));
        }
    };
    check("state", declaration.states, declaration.initial);
    for state in declaration.terminal {
        check("state", declaration.states, state);
    }
    for (from, action, outcome, to) in declaration.transitions {
        check("state", declaration.states, from);
        check("action", declaration.actions, action);
        check("outcome", declaration.outcomes, outcome);
        check("state", declaration.states, to);
    }
    let mut seen = BTreeSet::new();
    for (from, action, outcome, _) in declaration.transitions {
        if !seen.insert((from, action, outcome)) {
            found.push(format!(
                "`{from}` has two transitions for `{action}` with `{outcome}`"
            ));
        }
    }
    found
}

fn together(declaration: &Declaration) -> Vec<String> {
    let mut found = Vec::new();
    let transitions = declaration.transitions;
    let mut reached = BTreeSet::from([declaration.initial]);
    let mut before = 0;
    while before != reached.len() {
        before = reached.len();
        for (from, .., to) in transitions {
            if reached.contains(from) {
                reached.insert(to);
            }
        }
    }
    for state in declaration.states {
        if !reached.contains(state) {
            found.push(format!(
                "the state `{state}` is unreachable from `{}`",
                declaration.initial
            ));
        }
        let leads_on = transitions
            .iter()
            .any(|(from, .., to)| from == state && to != state);
        match (declaration.terminal.contains(state), leads_on) {
            (true, true) => found.push(format!(
                "the state `{state}` is terminal, but a transition leads to another"
            )),
            (false, false) => found.push(format!(
                "nothing leads from the state `{state}` to another: declare it as terminal"
            )),
            _ => {}
        }
    }
    let unused = |what: &str, names: &[&str], used: &dyn Fn(&str) -> bool| -> Vec<String> {
        let names = names.iter().filter(|name| !used(name));
        names
            .map(|name| format!("no transition has the {what} `{name}`"))
            .collect()
    };
    found.extend(unused("action", declaration.actions, &|name| {
        transitions.iter().any(|(_, action, ..)| *action == name)
    }));
    found.extend(unused("outcome", declaration.outcomes, &|name| {
        transitions
            .iter()
            .any(|(_, _, outcome, _)| *outcome == name)
    }));
    found
}

fn is_name(name: &str) -> bool {
    name.len() <= limits::MAX_NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

fn not_a_name(name: &str) -> String {
    format!(
        "`{}` is not a valid name: use 1 to {} of a-z, 0-9 and _, a letter first",
        name.escape_debug(),
        limits::MAX_NAME_BYTES
    )
}

fn too_many(what: &str, count: usize) -> String {
    format!(
        "it has {count} {what}; at most {} are allowed",
        limits::MAX_NAMES
    )
}

/// Names have no spaces and no newlines, so different declarations are different texts.
fn hash(declaration: &Declaration) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(format!("{} {}", declaration.name, declaration.initial));
    for names in [
        declaration.states,
        declaration.terminal,
        declaration.actions,
        declaration.outcomes,
    ] {
        hash.update(format!("\n{}", names.join(" ")));
    }
    for (from, action, outcome, to) in declaration.transitions {
        hash.update(format!("\n{from} {action} {outcome} {to}"));
    }
    hash.finalize().into()
}
