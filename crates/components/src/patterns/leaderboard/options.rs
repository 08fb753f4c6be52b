//! How leaderboards work.

use abide_macros::Setters;

use crate::patterns::limits::MAX_PLAYERS;

/// How the leaderboards of a program work.
#[derive(Clone, Debug, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct LeaderboardOptions {
    /// Most players of a board; further ones are refused. Default 100,000.
    pub max_players: u32,
}

impl Default for LeaderboardOptions {
    fn default() -> Self {
        Self {
            max_players: 100_000,
        }
    }
}

impl LeaderboardOptions {
    pub(super) fn check(&self) {
        assert!(
            (1..=MAX_PLAYERS).contains(&self.max_players),
            "a leaderboard has 1 to {MAX_PLAYERS} players, not {}",
            self.max_players
        );
    }
}
