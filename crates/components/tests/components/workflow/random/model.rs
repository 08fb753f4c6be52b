//! What the result of a program is, by its history alone.

use std::collections::{BTreeMap, HashMap};

use abide::workflow::{FailureKind, StepKind, StepName};

use super::program::{Program, code, codes, mix};

type Outcome = Result<i64, FailureKind>;

/// What an instance was given.
#[derive(Debug, Default)]
pub(super) struct History {
    /// In the order in which it was given them.
    pub(super) results: BTreeMap<i64, (StepName, StepKind, Outcome)>,
}

impl History {
    /// The events of a name that were taken, in order.
    pub(super) fn events(&self, name: &str) -> Vec<i64> {
        let results = self.results.values();
        let taken = results.filter(|(step, kind, _)| *kind == StepKind::Event && step.name == name);
        taken.filter_map(|(_, _, outcome)| outcome.ok()).collect()
    }
}

/// A part of a program that has begun.
enum Part<'a> {
    Done(Outcome),
    Leaf(StepName),
    Chain(&'a [Program], i64, Box<Self>),
    Join(Vec<Self>),
    Race(Vec<Self>),
    Try(Box<Self>),
    Patched(Box<Self>),
    /// The history ends here.
    Anew,
}

#[derive(Default)]
struct Model {
    uses: HashMap<String, u32>,
    version: i64,
}

/// The result of a program with this history that goes by this version of the change; `None` if it has none yet.
pub(super) fn result_of(program: &Program, history: &History, version: i64) -> Option<Outcome> {
    let mut model = Model {
        version,
        ..Model::default()
    };
    let mut whole = model.begin(program);
    for (step, _, outcome) in history.results.values() {
        whole = model.give(whole, step, *outcome);
    }
    match whole {
        Part::Done(outcome) => Some(outcome),
        _ => None,
    }
}

impl Model {
    fn begin<'a>(&mut self, program: &'a Program) -> Part<'a> {
        let part = match program {
            Program::Step { name, .. }
            | Program::Sleep { name, .. }
            | Program::Until { name, .. }
            | Program::Event { name, .. }
            | Program::Child { name, .. } => {
                let uses = self.uses.entry(name.clone()).or_default();
                *uses += 1;
                Part::Leaf((name.as_str(), *uses).into())
            }
            Program::Chain(parts) => Part::Chain(&parts[1..], 0, Box::new(self.begin(&parts[0]))),
            Program::Join(_, parts) => Part::Join(self.begin_all(parts)),
            Program::Race(parts) => Part::Race(self.begin_all(parts)),
            Program::Try(part) => Part::Try(Box::new(self.begin(part))),
            Program::Patched(part) => Part::Patched(Box::new(self.begin(part))),
            Program::Anew(_) => Part::Anew,
        };
        self.settle(part)
    }

    fn begin_all<'a>(&mut self, parts: &'a [Program]) -> Vec<Part<'a>> {
        parts.iter().map(|part| self.begin(part)).collect()
    }

    /// One step has its result.
    fn give<'a>(&mut self, part: Part<'a>, step: &StepName, outcome: Outcome) -> Part<'a> {
        let mut give = |part| self.give(part, step, outcome);
        let part = match part {
            Part::Leaf(leaf) if leaf == *step => Part::Done(outcome),
            Part::Done(_) | Part::Leaf(_) | Part::Anew => part,
            Part::Chain(rest, sum, part) => Part::Chain(rest, sum, Box::new(give(*part))),
            Part::Join(parts) => Part::Join(parts.into_iter().map(give).collect()),
            Part::Race(parts) => Part::Race(parts.into_iter().map(give).collect()),
            Part::Try(part) => Part::Try(Box::new(give(*part))),
            Part::Patched(part) => Part::Patched(Box::new(give(*part))),
        };
        self.settle(part)
    }

    /// Continues from what has ended.
    fn settle<'a>(&mut self, part: Part<'a>) -> Part<'a> {
        match part {
            Part::Chain(rest, sum, part) => match (*part, rest) {
                (Part::Done(Ok(value)), []) => Part::Done(Ok(mix(sum, value))),
                (Part::Done(Ok(value)), [next, rest @ ..]) => {
                    let next = Box::new(self.begin(next));
                    self.settle(Part::Chain(rest, mix(sum, value), next))
                }
                (Part::Done(Err(failure)), _) => Part::Done(Err(failure)),
                (part, rest) => Part::Chain(rest, sum, Box::new(part)),
            },
            Part::Join(parts) => {
                let done = parts.iter().filter_map(|part| match part {
                    Part::Done(outcome) => Some(*outcome),
                    _ => None,
                });
                let done: Vec<Outcome> = done.collect();
                if done.len() == parts.len() {
                    return Part::Done(Ok(codes(&done)));
                }
                Part::Join(parts)
            }
            Part::Race(parts) => {
                for (first, part) in (0..).zip(&parts) {
                    if let Part::Done(outcome) = part {
                        return Part::Done(outcome.map(|value| mix(first, value)));
                    }
                }
                Part::Race(parts)
            }
            Part::Try(part) => match *part {
                Part::Done(outcome) => Part::Done(Ok(code(&outcome))),
                part => Part::Try(Box::new(part)),
            },
            Part::Patched(part) => match *part {
                Part::Done(outcome) => Part::Done(outcome.map(|value| mix(self.version, value))),
                part => Part::Patched(Box::new(part)),
            },
            part => part,
        }
    }
}
