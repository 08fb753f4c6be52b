//! A node on an in-memory disk whose objects are accounts with a chain of outcomes.

use abide::outcomes::{
    Checked, Declaration, Entry, Machine, Outcomes, OutcomesError, OutcomesOptions, Transition,
    Until,
};
use abide::{ErrorKind, NodeBuilder, prelude::*, storage::SimDisk};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::world::{self, Setup};

/// A customer's money.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) balance: i64,
    pub(crate) notes: Vec<String>,
    /// Outcomes that were applied since the account came to memory.
    #[serde(skip)]
    pub(crate) applied: i64,
}

pub(crate) const TRANSITIONS: &[Transition] = &[
    ("fresh", "open", "opened", "open"),
    ("open", "deposit", "credited", "open"),
    ("open", "withdraw", "debited", "open"),
    ("open", "withdraw", "declined", "open"),
    ("open", "close", "closed", "closed"),
];

pub(crate) const ACCOUNT: Declaration = Declaration {
    name: "account",
    initial: "fresh",
    states: &["fresh", "open", "closed"],
    terminal: &["closed"],
    actions: &["open", "deposit", "withdraw", "close"],
    outcomes: &["opened", "credited", "debited", "declined", "closed"],
    transitions: TRANSITIONS,
};

impl Machine for Account {
    const SCHEMA: Declaration = ACCOUNT;

    fn validate(&self, entry: &Entry) -> Result<()> {
        if entry.outcome == "debited" && entry.data::<i64>()? > self.balance {
            return Err("there is not so much".into());
        }
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<()> {
        self.applied += 1;
        match entry.outcome.as_str() {
            "credited" => {
                self.balance += entry.data::<i64>()?;
                if self.balance > 1_000_000 {
                    return Err("no account has that much".into());
                }
            }
            "debited" => self.balance -= entry.data::<i64>()?,
            "declined" => self.notes.push(entry.data()?),
            _ => {}
        }
        Ok(())
    }
}

/// What is seen of an account: seq, state, balance, and outcomes that were applied since it came to memory.
pub(crate) type Seen = (i64, String, i64, i64);

/// How accounts are kept in a test.
#[derive(Clone, Default)]
pub(crate) struct Settings(pub(crate) OutcomesOptions);

#[durable_object]
pub(crate) struct Bank {
    ctx: Ctx,
    outcomes: Outcomes<Account>,
}

impl DurableObject for Bank {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let sql = ctx.sql();
        sql.exec("CREATE TABLE IF NOT EXISTS model (seq INTEGER, outcome TEXT, state TEXT, balance INTEGER)", ())?;
        let options = env.require::<Settings>()?.0;
        let outcomes = Outcomes::projected(&ctx, options, move |entry, reached| {
            let Account { balance, .. } = reached.machine;
            if balance == 666 {
                return Err("the hook fears this number".into());
            }
            let row = (reached.seq, &entry.outcome, reached.state, balance);
            sql.exec("INSERT INTO model VALUES (?1, ?2, ?3, ?4)", row)
                .map(drop)
        })?;
        Ok(Self { ctx, outcomes })
    }
}

#[rpc]
impl Bank {
    pub async fn transition(
        &self,
        action: String,
        outcome: String,
        data: Value,
    ) -> Result<i64, OutcomesError> {
        Ok(self.outcomes.transition(&action, &outcome, &data)?.seq)
    }

    /// Transitions in a transaction that is then undone.
    pub async fn undone(&self, deposits: Vec<i64>) -> Result<Seen, OutcomesError> {
        let error = self.ctx.storage().transaction(|| {
            for amount in deposits {
                self.outcomes.transition("deposit", "credited", &amount)?;
            }
            Err::<(), OutcomesError>(Error::new("undone").into())
        });
        assert_eq!(error.unwrap_err().to_string(), "undone");
        self.see()
    }

    /// A transition from within a look at the live state.
    pub async fn nested(&self) -> Result<String, OutcomesError> {
        self.outcomes.read(|_| {
            let refused = self.outcomes.transition("deposit", "credited", &1);
            refused.unwrap_err().to_string()
        })
    }

    pub async fn seen(&self) -> Result<Seen, OutcomesError> {
        self.see()
    }

    pub async fn allowed(&self) -> Result<Vec<String>, OutcomesError> {
        let allowed = self.outcomes.allowed()?.into_iter();
        Ok(allowed.map(|allowed| allowed.outcome).collect())
    }

    pub async fn seen_at(&self, until: Until) -> Result<Seen, OutcomesError> {
        let reached = self.outcomes.state_at(until)?;
        let Account {
            balance, applied, ..
        } = reached.machine;
        Ok((reached.seq, reached.state.to_owned(), balance, applied))
    }

    pub async fn history(&self, after: i64, limit: usize) -> Result<Vec<Entry>> {
        self.outcomes.history(after, limit)
    }

    /// Outcomes, state and the outcome of the snapshot.
    pub async fn check(&self) -> Result<(i64, String, Option<i64>), OutcomesError> {
        let Checked {
            outcomes,
            state,
            snapshot,
        } = self.outcomes.check()?;
        Ok((outcomes, state.to_owned(), snapshot))
    }

    pub async fn print(&self, until: Until) -> Result<String> {
        self.outcomes.print(until)
    }

    pub async fn delete_snapshot(&self) -> Result<()> {
        self.outcomes.delete_snapshot()
    }

    /// A number from the tables.
    pub async fn number(&self, sql: String) -> Result<i64> {
        self.ctx.sql().exec(&sql, ())?.one()
    }

    /// What the hook was given: seq and balance.
    pub async fn projected(&self) -> Result<Vec<(i64, i64)>> {
        let rows = "SELECT seq, balance FROM model ORDER BY rowid";
        self.ctx.sql().exec(rows, ())?.all()
    }

    /// Changes the tables behind the chain's back.
    pub async fn tamper(&self, sql: String) -> Result<()> {
        self.ctx.sql().exec(&sql, ()).map(drop)
    }

    fn see(&self) -> Result<Seen, OutcomesError> {
        self.outcomes.read(|live| {
            let Account {
                balance, applied, ..
            } = live.machine;
            (live.seq, live.state.to_owned(), balance, applied)
        })
    }
}

impl Setup for Settings {
    fn build(&self, node: NodeBuilder, _: &SimDisk) -> NodeBuilder {
        node.class::<Bank>(ClassOptions::default())
            .with(self.clone())
    }
}

pub(crate) type World = world::World<Settings>;

impl World {
    pub(crate) fn new() -> Self {
        Self::with(OutcomesOptions::default())
    }

    pub(crate) fn with(options: OutcomesOptions) -> Self {
        Self::of(Settings(options))
    }

    /// Another node on the same disk, with other options.
    pub(crate) fn reopened(self, options: OutcomesOptions) -> Self {
        self.restarted_with(|settings| settings.0 = options)
    }

    pub(crate) fn bank(&self) -> Stub<Bank> {
        self.stub("ada")
    }

    /// Transitions that must be taken. Returns the number of the last.
    pub(crate) async fn make(&self, transitions: &[(&str, &str, Value)]) -> i64 {
        let mut last = 0;
        for (action, outcome, data) in transitions {
            let (action, outcome) = ((*action).to_owned(), (*outcome).to_owned());
            let made = self.bank().transition(action, outcome, data.clone()).await;
            last = made.unwrap();
        }
        last
    }

    /// An account that is open, after this many deposits of 1.
    pub(crate) async fn opened(&self, deposits: usize) {
        self.make(&[("open", "opened", Value::Null)]).await;
        self.deposited(deposits).await;
    }

    /// This many deposits of 1.
    pub(crate) async fn deposited(&self, deposits: usize) {
        for _ in 0..deposits {
            self.make(&[("deposit", "credited", json!(1))]).await;
        }
    }

    /// A transition that must be refused.
    pub(crate) async fn refusal(&self, action: &str, outcome: &str, data: Value) -> OutcomesError {
        let asked = self
            .bank()
            .transition(action.to_owned(), outcome.to_owned(), data)
            .await;
        asked.unwrap_err()
    }

    pub(crate) async fn seen(&self) -> Seen {
        self.bank().seen().await.unwrap()
    }

    pub(crate) async fn seen_at(&self, until: Until) -> Seen {
        self.bank().seen_at(until).await.unwrap()
    }

    pub(crate) async fn tamper(&self, sql: &str) {
        self.bank().tamper(sql.to_owned()).await.unwrap();
    }

    pub(crate) async fn projected(&self) -> Vec<(i64, i64)> {
        self.bank().projected().await.unwrap()
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.bank().number(sql.to_owned()).await.unwrap()
    }
}

/// The text of an error that says that a chain is damaged.
pub(crate) fn damage<T: std::fmt::Debug>(result: Result<T, OutcomesError>) -> String {
    let error = Error::from(result.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    error.message().to_owned()
}
