//! What must hold in the end.

use abide_cluster::{Ended, Shard};

use super::World;
use crate::{Report, lists::Lists, tables::Tables};

impl<L: Lists> World<L> {
    /// Checks what the clients have seen, and the state in which the cluster is.
    pub(crate) fn check(&self) -> Result<Report, String> {
        let tables = self.server.tables();
        for shard in (0..self.plan.shards).map(Shard) {
            let published = tables.history(shard);
            let positions = published
                .iter()
                .map(|record| (record.tenancy.generation, record.end));
            if !positions.is_sorted_by(|a, b| a < b) {
                return Err(format!("{shard:?}: runs are out of order: {published:?}"));
            }
            let list: Vec<u64> = published.iter().map(|record| record.value).collect();
            if self.plan.is_synchronous {
                self.history.check(shard, &list)?;
            } else {
                self.check_losses(shard, &list)?;
            }
            let (host, tenancy) = tables
                .owner(shard)
                .ok_or_else(|| format!("{shard:?} has no owner in the end"))?;
            let node = self.hosts[host].node.as_ref();
            if !node.is_some_and(|node| node.session.admits(tenancy)) {
                return Err(format!("{shard:?} is not served in the end"));
            }
        }
        self.check_rest(tables)?;
        Ok(self.report())
    }

    /// What was confirmed and is lost was noticed: a session that has acknowledged it does not continue.
    fn check_losses(&self, shard: Shard, list: &[u64]) -> Result<(), String> {
        for session in self.history.losers(shard, list) {
            if !self.ended.contains_key(&session) {
                return Err(format!(
                    "{shard:?}: {session:?} has not noticed what is lost"
                ));
            }
        }
        Ok(())
    }

    fn check_rest(&self, tables: &Tables) -> Result<(), String> {
        if tables.sessions() > self.hosts.len() {
            return Err(format!(
                "{} sessions are left: {tables:?}",
                tables.sessions()
            ));
        }
        if tables.logged() > 0 {
            return Err(format!("{} records are left in logs", tables.logged()));
        }
        let is_lost = self
            .ended
            .values()
            .any(|why| *why == Some(Ended::LostCommits));
        if self.plan.is_synchronous && is_lost {
            return Err("a session has missed commits that are not lost".to_owned());
        }
        if self.history.answers() < 100 {
            return Err(format!("only {} answers", self.history.answers()));
        }
        Ok(())
    }

    fn report(&self) -> Report {
        let ended = |why| {
            self.ended
                .values()
                .filter(move |ended| **ended == Some(why))
        };
        Report {
            answers: self.history.answers(),
            fenced: ended(Ended::Fenced).count(),
            lost_commits: ended(Ended::LostCommits).count(),
            left: ended(Ended::Left).count(),
            fingerprint: self.history.fingerprint(),
            ..self.report.clone()
        }
    }
}
