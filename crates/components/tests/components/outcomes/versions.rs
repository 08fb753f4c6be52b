//! A program whose data, schema and state have changed reads what the older one wrote.

use abide::outcomes::{
    Declaration, Entry, Machine, OldOutcome, Outcomes, OutcomesError, OutcomesOptions, Transition,
};
use abide::{Node, clock::TestClock, prelude::*, storage::SimDisk};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{outcomes::support::damage, world::store};

/// The first program: lengths are centimetres, and a plank is `cut`.
#[derive(Default, Serialize, Deserialize)]
struct First {
    centimetres: i64,
}

const fn plank(
    transitions: &'static [Transition],
    outcomes: &'static [&'static str],
) -> Declaration {
    Declaration {
        name: "plank",
        initial: "raw",
        states: &["raw", "used"],
        terminal: &["used"],
        actions: &["saw", "use"],
        outcomes,
        transitions,
    }
}

impl Machine for First {
    const SCHEMA: Declaration = plank(
        &[
            ("raw", "saw", "cut", "raw"),
            ("raw", "use", "built_in", "used"),
        ],
        &["cut", "built_in"],
    );

    fn apply(&mut self, entry: &Entry) -> Result<()> {
        if entry.outcome == "cut" {
            self.centimetres += entry.data::<i64>()?;
        }
        Ok(())
    }
}

/// The third: lengths are millimetres since the second version, `cut` is `shortened` and says why since the third.
#[derive(Default, Serialize, Deserialize)]
struct Third {
    millimetres: i64,
    reasons: Vec<String>,
    #[serde(skip)]
    applied: i64,
}

#[derive(Deserialize)]
struct Shortened {
    by: i64,
    why: String,
}

impl Machine for Third {
    const SCHEMA: Declaration = plank(
        &[
            ("raw", "saw", "shortened", "raw"),
            ("raw", "use", "built_in", "used"),
        ],
        &["shortened", "built_in"],
    );
    const VERSION: u32 = 3;

    fn apply(&mut self, entry: &Entry) -> Result<()> {
        self.applied += 1;
        if entry.outcome == "shortened" {
            let Shortened { by, why } = entry.data()?;
            self.millimetres += by;
            self.reasons.push(why);
        }
        Ok(())
    }

    fn upcast(from: u32, old: &mut OldOutcome) -> Result<()> {
        match (from, old.outcome.as_str()) {
            (1, "cut") => old.data = json!(old.data.as_i64().unwrap_or(0) * 10),
            (2, "cut") => {
                "shortened".clone_into(&mut old.outcome);
                old.data = json!({"by": old.data, "why": "not told"});
            }
            _ => {}
        }
        Ok(())
    }
}

/// Like the third, with another state of the same data.
#[derive(Default, Serialize, Deserialize)]
struct Fourth(Third);

impl Machine for Fourth {
    const SCHEMA: Declaration = Third::SCHEMA;
    const VERSION: u32 = Third::VERSION;
    const STATE_VERSION: u32 = 2;

    fn apply(&mut self, entry: &Entry) -> Result<()> {
        self.0.apply(entry)
    }

    fn upcast(from: u32, old: &mut OldOutcome) -> Result<()> {
        Third::upcast(from, old)
    }
}

/// A program that has forgotten how old data is brought forward.
#[derive(Default, Serialize, Deserialize)]
struct Forgetful;

impl Machine for Forgetful {
    const SCHEMA: Declaration = Third::SCHEMA;
    const VERSION: u32 = 3;

    fn apply(&mut self, _entry: &Entry) -> Result<()> {
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Program {
    First,
    Third,
    Fourth,
    Forgetful,
}

enum Chain {
    First(Outcomes<First>),
    Third(Outcomes<Third>),
    Fourth(Outcomes<Fourth>),
    Forgetful(Outcomes<Forgetful>),
}

#[durable_object]
struct Plank {
    chain: Chain,
}

impl DurableObject for Plank {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options = OutcomesOptions::default().snapshot_every(2);
        let chain = match *env.require::<Program>()? {
            Program::First => Chain::First(Outcomes::open(&ctx, options)?),
            Program::Third => Chain::Third(Outcomes::open(&ctx, options)?),
            Program::Fourth => Chain::Fourth(Outcomes::open(&ctx, options)?),
            Program::Forgetful => Chain::Forgetful(Outcomes::open(&ctx, options)?),
        };
        Ok(Self { chain })
    }
}

#[rpc]
impl Plank {
    pub async fn transition(
        &self,
        action: String,
        outcome: String,
        data: Value,
    ) -> Result<i64, OutcomesError> {
        let made = match &self.chain {
            Chain::First(chain) => chain.transition(&action, &outcome, &data),
            Chain::Third(chain) => chain.transition(&action, &outcome, &data),
            Chain::Fourth(chain) => chain.transition(&action, &outcome, &data),
            Chain::Forgetful(chain) => chain.transition(&action, &outcome, &data),
        };
        Ok(made?.seq)
    }

    /// The length that was sawn off, the reasons, and outcomes that were applied since the plank came to memory.
    pub async fn sawn(&self) -> Result<(i64, Vec<String>, i64), OutcomesError> {
        let third = |third: &Third| (third.millimetres, third.reasons.clone(), third.applied);
        match &self.chain {
            Chain::First(chain) => {
                chain.read(|live| (live.machine.centimetres, Vec::new(), live.seq))
            }
            Chain::Third(chain) => chain.read(|live| third(&live.machine)),
            Chain::Fourth(chain) => chain.read(|live| third(&live.machine.0)),
            Chain::Forgetful(chain) => chain.read(|live| (0, Vec::new(), live.seq)),
        }
    }

    pub async fn history(&self) -> Result<Vec<Entry>> {
        match &self.chain {
            Chain::First(chain) => chain.history(0, 10),
            Chain::Third(chain) => chain.history(0, 10),
            Chain::Fourth(chain) => chain.history(0, 10),
            Chain::Forgetful(chain) => chain.history(0, 10),
        }
    }
}

/// A plank on a node that runs a program.
fn run(program: Program, disk: &SimDisk) -> (Node, Stub<Plank>) {
    let node = Node::builder(store(disk, &TestClock::new()))
        .class::<Plank>(ClassOptions::default())
        .with(program)
        .start()
        .unwrap();
    let plank = node.env().object::<Plank>().get_by_name("oak");
    (node, plank)
}

/// What the first program leaves: three outcomes, and a snapshot at the second.
async fn first() -> SimDisk {
    let disk = SimDisk::new();
    let (_node, plank) = run(Program::First, &disk);
    for centimetres in [1, 2, 3] {
        plank
            .transition("saw".into(), "cut".into(), json!(centimetres))
            .await
            .unwrap();
    }
    disk.after_kill()
}

#[tokio::test]
async fn old_outcomes_are_brought_forward_version_by_version() {
    let disk = first().await;
    let (_node, plank) = run(Program::Third, &disk);
    let told = vec!["not told".to_owned(); 3];
    assert_eq!(plank.sawn().await.unwrap(), (60, told, 3));
    let data = json!({"by": 5, "why": "too long"});
    let made = plank.transition("saw".into(), "shortened".into(), data);
    assert_eq!(made.await.unwrap(), 4);

    let history = plank.history().await.unwrap();
    let shown: Vec<_> = history
        .iter()
        .map(|entry| (entry.version, entry.outcome.as_str(), entry.json()))
        .collect();
    assert_eq!(
        shown[2..],
        [
            (1, "shortened", r#"{"by":30,"why":"not told"}"#),
            (3, "shortened", r#"{"by":5,"why":"too long"}"#),
        ]
    );

    // What the older program cannot read it does not touch.
    let (_node, plank) = run(Program::First, &disk.after_kill());
    let told = damage(plank.sawn().await);
    assert!(told.contains("outcome 4: its data has version 3"), "{told}");
}

#[tokio::test]
async fn a_snapshot_of_another_state_is_not_used() {
    let disk = first().await;
    let (_node, plank) = run(Program::Third, &disk);
    let data = json!({"by": 5, "why": "too long"});
    let made = plank.transition("saw".into(), "shortened".into(), data);
    made.await.unwrap();

    let disk = disk.after_kill();
    let (_node, plank) = run(Program::Third, &disk);
    assert_eq!(plank.sawn().await.unwrap().2, 0);
    let (_node, plank) = run(Program::Fourth, &disk.after_kill());
    let (sawn, _, applied) = plank.sawn().await.unwrap();
    assert_eq!((sawn, applied), (65, 4));
}

#[tokio::test]
async fn old_data_that_nothing_brings_forward_is_told() {
    let disk = first().await;
    let (_node, plank) = run(Program::Forgetful, &disk);
    assert_eq!(
        damage(plank.sawn().await),
        "the chain of the plank is damaged at outcome 1: nothing upcasts version 1: implement `Machine::upcast` for it"
    );
}
