//! What a leaderboard answers when it refuses.

use abide::Error;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a leaderboard refused. Nothing changed.
#[derive(Clone, Debug, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LeaderboardError {
    /// The request is invalid; the text says what is expected.
    #[error("{0}")]
    Invalid(String),
    /// There are too many players.
    #[error(
        "the leaderboard has {max} players already: remove some, raise `max_players`, or use several boards"
    )]
    Full {
        /// How many there may be.
        max: u32,
    },
    /// The storage failed, or the object.
    #[error(transparent)]
    Object(#[from] Error),
}

abide_component::error_kinds!(LeaderboardError {
    Invalid => Input,
    Full => Limit,
});
