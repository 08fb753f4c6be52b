//! The class: one leaderboard.

use abide::prelude::*;

use super::{LeaderboardError, LeaderboardOptions, Place, rows::Rows};
use crate::patterns::{limits, wrong_length};
use abide_component::WakeUp;

/// The alarm that deletes the board.
const ALARM: &str = "leaderboard";

/// A leaderboard. Its name says what it ranks, such as a game, a level or a week.
#[durable_object]
pub struct Leaderboard {
    rows: Rows,
    options: LeaderboardOptions,
    alarm: WakeUp,
}

impl std::fmt::Debug for Leaderboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaderboard")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl DurableObject for Leaderboard {
    fn new(ctx: Ctx, env: Env) -> Result<Self> {
        let options = env
            .get::<LeaderboardOptions>()
            .map(|options| (*options).clone());
        let leaderboard = Self {
            rows: Rows::open(ctx.storage())?,
            options: options.unwrap_or_default(),
            alarm: WakeUp::new(&ctx, ALARM),
        };
        let deleting = ctx.clone();
        ctx.on_alarm(ALARM, move |_| {
            // The next event finds an empty board, with tables.
            deleting.restart();
            std::future::ready(deleting.storage().delete_all())
        })?;
        Ok(leaderboard)
    }
}

#[rpc]
impl Leaderboard {
    /// Takes a score if it is higher than the player's. Returns the player's place.
    pub async fn submit(&self, player: String, score: i64) -> Result<Place, LeaderboardError> {
        self.change(player, |known| {
            Ok(known.map_or(score, |known| known.max(score)))
        })
    }

    /// Replaces the player's score.
    pub async fn set(&self, player: String, score: i64) -> Result<Place, LeaderboardError> {
        self.change(player, |_| Ok(score))
    }

    /// Adds to the player's score, which begins at 0.
    pub async fn add(&self, player: String, points: i64) -> Result<Place, LeaderboardError> {
        self.change(player, |known| {
            let score = known.unwrap_or(0);
            score.checked_add(points).ok_or_else(|| {
                LeaderboardError::Invalid(format!(
                    "a score of {score} and {points} points are more than 64 bits"
                ))
            })
        })
    }

    /// Removes a player. False if there is none of this name.
    pub async fn remove(&self, player: String) -> Result<bool, LeaderboardError> {
        Ok(self.rows.remove(&player)?)
    }

    /// `count` places, after the first `skip`: at most [`MAX_PLACES`](limits::MAX_PLACES).
    pub async fn top(&self, skip: u32, count: u32) -> Result<Vec<Place>, LeaderboardError> {
        let count = count.min(limits::MAX_PLACES);
        Ok(self.rows.page(i64::from(skip), i64::from(count))?)
    }

    /// The place of a player.
    pub async fn place(&self, player: String) -> Result<Option<Place>, LeaderboardError> {
        let Some(standing) = self.rows.get(&player)? else {
            return Ok(None);
        };
        Ok(Some(Place {
            rank: self.rows.rank(standing)?,
            player,
            score: standing.score,
        }))
    }

    /// A player's place with `count` places before and after it. Nothing if there is no such player.
    pub async fn around(&self, player: String, count: u32) -> Result<Vec<Place>, LeaderboardError> {
        let Some(standing) = self.rows.get(&player)? else {
            return Ok(Vec::new());
        };
        let count = i64::from(count.min((limits::MAX_PLACES - 1) / 2));
        let before = self.rows.rank(standing)? - 1;
        let first = (before - count).max(0);
        Ok(self.rows.page(first, before + count + 1 - first)?)
    }

    /// How many players there are.
    pub async fn count(&self) -> Result<i64, LeaderboardError> {
        Ok(self.rows.count()?)
    }

    /// Sets when the whole board is deleted, in milliseconds since 1970, such as some weeks after the week that it
    /// ranks; `None` keeps it.
    pub async fn delete_at(&self, at: Option<i64>) -> Result<(), LeaderboardError> {
        Ok(self.alarm.set(at)?)
    }
}

impl Leaderboard {
    fn change(
        &self,
        player: String,
        score: impl FnOnce(Option<i64>) -> Result<i64, LeaderboardError>,
    ) -> Result<Place, LeaderboardError> {
        if let Some(wrong) = wrong_length("the player's name", &player, limits::MAX_PLAYER_BYTES) {
            return Err(LeaderboardError::Invalid(wrong));
        }
        let known = self.rows.get(&player)?;
        let max = self.options.max_players;
        if known.is_none() && self.rows.count()? >= i64::from(max) {
            return Err(LeaderboardError::Full { max });
        }
        let score = score(known.map(|known| known.score))?;
        let standing = match known.filter(|known| known.score == score) {
            Some(known) => known,
            None => self.rows.set(&player, score)?,
        };
        Ok(Place {
            rank: self.rows.rank(standing)?,
            player,
            score,
        })
    }
}
