//! Leaderboards.

use abide::limits::patterns::MAX_PLACES;
use abide::patterns::leaderboard::{
    self, Leaderboard, LeaderboardError, LeaderboardOptions, Place,
};

use crate::patterns::support::{Random, World, each_seed, run, secs};

fn world(max_players: u32) -> World {
    World::new(move |node| {
        node.class::<Leaderboard>(leaderboard::class_options())
            .with(LeaderboardOptions::default().max_players(max_players))
    })
}

/// Players with their scores, best first: sorted anew with each change, which keeps the order of equals.
#[derive(Default)]
struct Model(Vec<(String, i64)>);

impl Model {
    fn score(&self, player: &str) -> Option<i64> {
        let known = self.0.iter().find(|(name, _)| name == player);
        known.map(|(_, score)| *score)
    }

    fn set(&mut self, player: &str, score: i64) {
        if self.score(player) != Some(score) {
            self.0.retain(|(name, _)| name != player);
            self.0.push((player.to_owned(), score));
            self.0.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
        }
    }

    fn places(&self) -> Vec<Place> {
        let ranks = (1..).zip(&self.0);
        ranks
            .map(|(rank, (player, score))| Place {
                rank,
                player: player.clone(),
                score: *score,
            })
            .collect()
    }

    fn place(&self, player: &str) -> Option<Place> {
        self.places()
            .into_iter()
            .find(|place| place.player == player)
    }
}

const MAX: u32 = 12;

async fn simulate(seed: u64, mut random: Random) {
    let mut world = world(MAX);
    let mut model = Model::default();
    for step in 0..200 {
        let board = world.stub::<Leaderboard>("board");
        let player = format!("player {}", random.below(16));
        let score = i64::from(random.below(8)) - 3;
        let known = model.score(&player);
        let case = format!("seed {seed}, step {step}, {player}");
        let wanted = match random.below(12) {
            0..=3 => (
                board.submit(player.clone(), score),
                known.map_or(score, |known| known.max(score)),
            ),
            4 => (board.set(player.clone(), score), score),
            5 | 6 => (board.add(player.clone(), score), known.unwrap_or(0) + score),
            7 => {
                let removed = board.remove(player.clone()).await.unwrap();
                assert_eq!(removed, known.is_some(), "{case}");
                model.0.retain(|(name, _)| *name != player);
                continue;
            }
            8 => {
                let (skip, count) = (random.below(6), random.below(6));
                let top = board.top(skip, count).await.unwrap();
                let all = model.places().into_iter();
                let wanted: Vec<Place> = all.skip(skip as usize).take(count as usize).collect();
                assert_eq!(top, wanted, "{case}");
                continue;
            }
            9 => {
                let count = random.below(4);
                let around = board.around(player.clone(), count).await.unwrap();
                let here = model.place(&player).map(|place| place.rank);
                let mut wanted = model.places();
                wanted.retain(|place| {
                    here.is_some_and(|here| here.abs_diff(place.rank) <= u64::from(count))
                });
                assert_eq!(around, wanted, "{case}");
                continue;
            }
            10 => {
                let place = board.place(player.clone()).await.unwrap();
                assert_eq!(place, model.place(&player), "{case}");
                let count = board.count().await.unwrap();
                assert_eq!(count, i64::try_from(model.0.len()).unwrap(), "{case}");
                continue;
            }
            _ => {
                world = world.killed_or_crashed(&mut random);
                continue;
            }
        };
        let (call, score) = wanted;
        let got = call.await;
        if known.is_none() && model.0.len() >= MAX as usize {
            assert!(
                matches!(got, Err(LeaderboardError::Full { max: MAX })),
                "{case}: {got:?}"
            );
            continue;
        }
        model.set(&player, score);
        assert_eq!(got.unwrap(), model.place(&player).unwrap(), "{case}");
    }
}

#[test]
fn places_are_those_of_a_list_that_is_sorted_anew_each_time() {
    each_seed(simulate);
}

#[test]
fn no_page_is_longer_than_it_may_be() {
    run(async {
        let world = world(MAX_PLACES + 10);
        let board = world.stub::<Leaderboard>("board");
        for number in 0..MAX_PLACES + 10 {
            let submitted = board.submit(number.to_string(), i64::from(number));
            submitted.await.unwrap();
        }
        let most = usize::try_from(MAX_PLACES).unwrap();
        let middle = (MAX_PLACES / 2).to_string();
        let around = board.around(middle, u32::MAX).await.unwrap();
        assert!(around.len() <= most, "{}", around.len());
        assert_eq!(board.top(0, u32::MAX).await.unwrap().len(), most);
    });
}

#[test]
fn a_board_can_be_deleted_at_a_time_and_begins_anew() {
    run(async {
        let world = world(MAX);
        let board = world.stub::<Leaderboard>("board");
        board.submit("ada".to_owned(), 7).await.unwrap();
        board.delete_at(Some(world.now() + 9_000)).await.unwrap();
        board.delete_at(None).await.unwrap();
        world.advance(secs(9)).await;
        assert_eq!(board.count().await.unwrap(), 1);
        board.delete_at(Some(world.now() + 5_000)).await.unwrap();
        world.advance(secs(4)).await;
        assert_eq!(board.count().await.unwrap(), 1);
        world.advance(secs(1)).await;
        assert_eq!(board.count().await.unwrap(), 0);
        let place = board.submit("bob".to_owned(), 1).await.unwrap();
        assert_eq!((place.rank, world.alarms()), (1, 0));
    });
}

#[test]
fn invalid_input_is_refused_and_changes_nothing() {
    run(async {
        let world = world(MAX);
        let board = world.stub::<Leaderboard>("board");
        for player in [String::new(), "p".repeat(256)] {
            let refused = board.submit(player, 1).await;
            assert!(matches!(refused, Err(LeaderboardError::Invalid(_))));
        }
        board.submit("ada".to_owned(), i64::MAX).await.unwrap();
        board.submit("bob".to_owned(), i64::MIN).await.unwrap();
        for (player, points) in [("ada", 1), ("bob", -1)] {
            let refused = board.add(player.to_owned(), points).await;
            assert!(matches!(refused, Err(LeaderboardError::Invalid(_))));
        }
        let top = board.top(0, u32::MAX).await.unwrap();
        let scores: Vec<i64> = top.iter().map(|place| place.score).collect();
        assert_eq!(scores, [i64::MAX, i64::MIN]);
        assert_eq!(board.top(u32::MAX, 1).await.unwrap(), []);
        assert_eq!(
            board
                .around("bob".to_owned(), u32::MAX)
                .await
                .unwrap()
                .len(),
            2
        );
    });
}
