//! Leaderboards: who has the highest score.
//!
//! A [`Leaderboard`] is an object that ranks players by their scores; of two with the same score the one that reached it
//! first is ahead. A score is on disk before its caller hears of it.
//!
//! Ranks count from 1. The top and what is around a player are read from an index; a rank is found by counting those
//! ahead. Where the smallest score wins, as in a race, submit the time with a minus.
//!
//! ```
//! use abide::prelude::*;
//! use abide::patterns::leaderboard::{self, Leaderboard, LeaderboardError, LeaderboardOptions, Place};
//!
//! async fn finish(env: &Env, player: &str, score: i64) -> Result<Vec<Place>, LeaderboardError> {
//!     let board: Stub<Leaderboard> = env.object::<Leaderboard>().get_by_name("2026-W48");
//!     let place = board.submit(player.to_owned(), score).await?; // the best counts
//!     println!("{player} is number {}", place.rank);
//!     board.top(0, 10).await
//! }
//!
//! # fn main() {
//! let host = leaderboard::install(abide::Host::builder("data"), LeaderboardOptions::default());
//! # }
//! ```

mod error;
mod object;
mod options;
mod rows;

use std::time::Duration;

use abide::{AlarmRetry, ClassOptions, Registrar};

pub use error::LeaderboardError;
pub use object::{Leaderboard, LeaderboardStub};
pub use options::LeaderboardOptions;
pub use rows::Place;

/// Registers the class.
///
/// # Panics
/// If an option is invalid.
pub fn install<R: Registrar>(registrar: R, options: LeaderboardOptions) -> R {
    options.check();
    registrar
        .object_with::<Leaderboard>(class_options())
        .with(options)
}

/// How to run the class: its alarm is retried until it succeeds, at most a minute apart.
pub fn class_options() -> ClassOptions {
    ClassOptions::default().alarm_retry(AlarmRetry::for_ever(Duration::from_mins(1)))
}
