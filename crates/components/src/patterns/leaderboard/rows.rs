//! Players as rows.

use abide::{Result, Sql, Storage};
use serde::{Deserialize, Serialize};

use abide_component::tables;

/// The version of the tables, kept in `leaderboard_meta`.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE leaderboard (
        player  TEXT PRIMARY KEY,
        score   INTEGER NOT NULL,
        reached INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX leaderboard_order ON leaderboard (score DESC, reached);
    CREATE TABLE leaderboard_meta (
        version INTEGER NOT NULL,
        players INTEGER NOT NULL DEFAULT 0,
        reached INTEGER NOT NULL DEFAULT 0
    );
    CREATE TRIGGER leaderboard_added AFTER INSERT ON leaderboard BEGIN
        UPDATE leaderboard_meta SET players = players + 1;
    END;
    CREATE TRIGGER leaderboard_removed AFTER DELETE ON leaderboard BEGIN
        UPDATE leaderboard_meta SET players = players - 1;
    END;
";

/// A player's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// 1 is the highest score.
    pub rank: i64,
    /// Who.
    pub player: String,
    /// What they have.
    pub score: i64,
}

pub(super) struct Rows(Sql);

/// A player's row.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Standing {
    pub(super) score: i64,
    /// Grows with each change of a score.
    pub(super) reached: i64,
}

impl Rows {
    pub(super) fn open(storage: &Storage) -> Result<Self> {
        tables::prepare(storage, "leaderboard", "leaderboard_meta", VERSION, |sql| {
            sql.exec(TABLES, ()).map(drop)
        })?;
        Ok(Self(storage.sql()))
    }

    pub(super) fn count(&self) -> Result<i64> {
        self.0
            .exec("SELECT players FROM leaderboard_meta", ())?
            .one()
    }

    pub(super) fn get(&self, player: &str) -> Result<Option<Standing>> {
        let select = "SELECT score, reached FROM leaderboard WHERE player = ?1";
        self.0.exec(select, (player,))?.optional()
    }

    pub(super) fn set(&self, player: &str, score: i64) -> Result<Standing> {
        let count = "UPDATE leaderboard_meta SET reached = reached + 1 RETURNING reached";
        let reached = self.0.exec(count, ())?.one()?;
        let upsert = "INSERT INTO leaderboard (player, score, reached) VALUES (?1, ?2, ?3)
            ON CONFLICT DO UPDATE SET score = ?2, reached = ?3";
        self.0.exec(upsert, (player, score, reached))?;
        Ok(Standing { score, reached })
    }

    pub(super) fn remove(&self, player: &str) -> Result<bool> {
        let delete = "DELETE FROM leaderboard WHERE player = ?1 RETURNING 1";
        Ok(!self.0.exec(delete, (player,))?.is_empty())
    }

    pub(super) fn rank(&self, standing: Standing) -> Result<i64> {
        let higher = "SELECT count(*) FROM leaderboard WHERE score > ?1";
        let earlier = "SELECT count(*) FROM leaderboard WHERE score = ?1 AND reached < ?2";
        let higher: i64 = self.0.exec(higher, (standing.score,))?.one()?;
        let earlier: i64 = self
            .0
            .exec(earlier, (standing.score, standing.reached))?
            .one()?;
        Ok(1 + higher + earlier)
    }

    pub(super) fn page(&self, offset: i64, limit: i64) -> Result<Vec<Place>> {
        let select =
            "SELECT player, score FROM leaderboard ORDER BY score DESC, reached LIMIT ?1 OFFSET ?2";
        let players: Vec<(String, i64)> = self.0.exec(select, (limit, offset))?.all()?;
        let ranks = offset + 1..;
        let places = ranks.zip(players).map(|(rank, (player, score))| Place {
            rank,
            player,
            score,
        });
        Ok(places.collect())
    }
}
