//! The server does what the model of it does that the simulation and the model checker use.

use std::collections::BTreeMap;

use abide_cluster::{
    Answer, Generation, Grant, Lsn, Outcome, Peer, Run, SHARDS, SessionId, Shard, Statement,
    Stored, Tenancy, View,
};
use abide_cluster_sim::{Record, Tables};
use fastrand::Rng;

use crate::support::{Own, Server, connection_of, encode, read};

/// So few shards are used that sessions meet.
const USED: u16 = 4;
const DIRECTORIES: usize = 4;
const STEPS: usize = 500;

struct Twins {
    rng: Rng,
    server: Server,
    tables: Tables,
    sessions: BTreeMap<SessionId, Own>,
    attempts: u64,
    values: u64,
    done: BTreeMap<&'static str, usize>,
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn random_statements_have_the_outcomes_of_the_model() {
    for seed in 0..4 {
        let mut twins = Twins {
            rng: Rng::with_seed(seed),
            server: Server::start().await,
            tables: Tables::new(SHARDS),
            sessions: BTreeMap::new(),
            attempts: 0,
            values: 0,
            done: BTreeMap::new(),
        };
        for step in 0..STEPS {
            if twins.tables.sessions() == 0 || twins.rng.u8(..25) == 0 {
                twins.start().await;
            } else {
                twins.step(&format!("seed {seed}, step {step}")).await;
            }
        }
        for what in [
            "append",
            "fence",
            "claim",
            "hand over",
            "publish",
            "parts",
            "leave",
        ] {
            let reached = twins.done.get(what).copied().unwrap_or_default();
            assert!(
                reached >= 5,
                "seed {seed}: {reached} times {what}: {:?}",
                twins.done
            );
        }
    }
}

impl Twins {
    async fn start(&mut self) {
        let directory = self.rng.usize(..DIRECTORIES);
        // Now and then it is not the newest.
        self.attempts += 1;
        let attempt = self.attempts - self.rng.u64(..2) * self.rng.u64(..self.attempts);
        let nonce = self.rng.u128(..);
        let expected = self.tables.start(directory, attempt, nonce);
        let database = &self.server.database;
        let begun = database.begin(directory as u128, attempt, nonce).await;
        assert_eq!(begun.unwrap(), expected);
        if let Some(session) = expected {
            self.sessions.insert(session, Own::new(database, session));
        }
    }

    async fn step(&mut self, context: &str) {
        let view = self.view();
        // Mostly those that are live, now and then one that is fenced and not forgotten.
        let is_any = self.rng.u8(..8) == 0;
        let peers = view.peers.iter();
        let sessions = peers.filter(|(_, peer)| is_any || !peer.is_fenced);
        let sessions: Vec<SessionId> = sessions.map(|(session, _)| *session).collect();
        let Some(me) = self.rng.choice(&sessions).copied() else {
            return self.start().await;
        };
        let own = view.peers[&me];
        let (statement, records) = self.statement(me, own, &view);
        let expected = self.tables.execute(me, &statement, &records);
        let group = match &statement {
            Statement::Append { .. } => encode(&records),
            _ => Vec::new(),
        };
        let lines = &self.sessions[&me].lines;
        let outcome = lines
            .execute(connection_of(&statement), &statement, &group)
            .await;
        let context = format!("{context}: {me:?} says {statement:?}");
        assert_eq!(outcome, expected, "{context}");
        self.count(&statement, &outcome);
        let polled = self.sessions[&me].say(&Statement::Poll).await;
        assert_eq!(
            polled,
            Outcome::Done(Answer::View(self.view())),
            "{context}"
        );
        if let Outcome::Done(Answer::Granted(grants) | Answer::Held { grants, .. }) = &outcome {
            self.compare_parts(grants, &context).await;
        }
    }

    async fn compare_parts(&mut self, grants: &[Grant], context: &str) {
        for grant in grants {
            for part in &grant.parts {
                let shard = grant.tenancy.shard;
                let found = read(&self.server.database, shard, part).await.unwrap();
                assert_eq!(found, self.tables.read(shard, part), "{context}: {part:?}");
                *self.done.entry("parts").or_default() += 1;
            }
        }
    }

    fn count(&mut self, statement: &Statement, outcome: &Outcome) {
        let is_done = match outcome {
            Outcome::Done(Answer::Granted(grants)) => !grants.is_empty(),
            Outcome::Done(_) => true,
            _ => false,
        };
        let what = match statement {
            Statement::Append { .. } => "append",
            Statement::Fence { .. } => "fence",
            Statement::Claim(_) => "claim",
            Statement::HandOver { .. } => "hand over",
            Statement::Publish { .. } => "publish",
            Statement::Leave => "leave",
            _ => return,
        };
        *self.done.entry(what).or_default() += usize::from(is_done);
    }

    fn view(&mut self) -> View {
        let anyone = SessionId {
            number: 0,
            nonce: 0,
        };
        match self.tables.execute(anyone, &Statement::Poll, &[]) {
            Outcome::Done(Answer::View(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    /// What a session owns.
    fn held(&mut self, me: SessionId) -> Vec<Grant> {
        match self.tables.execute(me, &Statement::Hold, &[]) {
            Outcome::Done(Answer::Held { grants, .. }) => grants,
            _ => Vec::new(),
        }
    }

    /// A statement that may well be right, or is wrong in one point.
    fn statement(&mut self, me: SessionId, own: Peer, view: &View) -> (Statement, Vec<Record>) {
        let wrong = self.rng.u8(..8) == 0;
        let off = u64::from(wrong);
        let peers: Vec<SessionId> = view.peers.keys().copied().collect();
        let other = peers[self.rng.usize(..peers.len())];
        let tenancy = |shard: u16| Tenancy {
            shard: Shard(shard),
            generation: view.shards[&Shard(shard)].generation,
        };
        let statement = match self.rng.u8(..20) {
            0..6 => return self.append(own, off, tenancy),
            6 => Statement::Settle,
            7 => Statement::Renew(own.renewals + self.rng.u64(..3)),
            8 => Statement::Fence {
                session: other,
                renewals: view.peers[&other].renewals + off,
            },
            9..13 => Statement::Claim((0..USED).map(tenancy).collect()),
            13 => Statement::Hold,
            14..17 => {
                let mut given = tenancy(self.rng.u16(..USED));
                if let Some(grant) = self.held(me).first() {
                    given = grant.tenancy;
                }
                given.generation = Generation(given.generation.0 + u32::from(wrong));
                Statement::HandOver {
                    tenancy: given,
                    to: other,
                    until: Lsn(own.lsn.0 + off * self.rng.u64(..2)),
                }
            }
            17..19 => self.publish(me, own, off),
            _ if self.rng.u8(..3) == 0 => Statement::Leave,
            _ => Statement::Trim,
        };
        (statement, Vec::new())
    }

    fn append(
        &mut self,
        own: Peer,
        off: u64,
        tenancy: impl Fn(u16) -> Tenancy,
    ) -> (Statement, Vec<Record>) {
        let begin = Lsn(own.lsn.0 + off * Record::BYTES);
        let mut end = begin;
        let records: Vec<Record> = (0..self.rng.u64(1..6))
            .map(|_| {
                end = Lsn(end.0 + Record::BYTES);
                self.values += 1;
                Record {
                    tenancy: tenancy(self.rng.u16(..USED)),
                    end,
                    value: self.values,
                }
            })
            .collect();
        (Statement::Append { begin, end }, records)
    }

    fn publish(&mut self, me: SessionId, own: Peer, off: u64) -> Statement {
        let grants = self.held(me);
        let archived = match self.tables.execute(me, &Statement::Hold, &[]) {
            Outcome::Done(Answer::Held { archived, .. }) => archived,
            _ => Lsn(0),
        };
        let parts = grants.iter().flat_map(|grant| {
            let shard = grant.tenancy.shard;
            grant.parts.iter().map(move |part| (shard, *part))
        });
        let mut tenancies: Vec<Tenancy> = grants.iter().map(|grant| grant.tenancy).collect();
        if off == 1
            && self.rng.bool()
            && let Some(first) = tenancies.first_mut()
        {
            first.generation = first.generation.next();
        }
        let run = Run {
            number: own.listed + 1 - off * self.rng.u64(..2),
            after: own.listed + off * self.rng.u64(..2),
            parts: parts.collect(),
            since: archived,
            until: own.lsn,
            tenancies,
        };
        let stored = self.rng.bool().then(|| Stored {
            about: "a run".to_owned(),
            place: format!("{} of {me:?} at {}", run.number, own.lsn.0),
        });
        Statement::Publish { run, stored }
    }
}
