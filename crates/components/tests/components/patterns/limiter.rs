//! Rate limiters.

use std::time::Duration;

use abide::limits::patterns::{MAX_LIMITER_KEYS, WINDOW_SLOTS};
use abide::patterns::limiter::{self, Limit, LimiterError, LimiterOptions, RateLimiter, Verdict};

use crate::patterns::support::{Random, World, each_seed, millis, run, secs};

fn world(options: LimiterOptions) -> World {
    World::new(move |node| {
        node.class::<RateLimiter>(limiter::class_options())
            .with(options.clone())
    })
}

async fn take(world: &World, limit: Limit, count: u32) -> Verdict {
    let ada = world.stub::<RateLimiter>("ada");
    ada.take("key".to_owned(), limit, count).await.unwrap()
}

fn admits(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Admitted { .. })
}

/// All that was admitted: when, how many, and whether no crash can have forgotten it.
#[derive(Default)]
struct Model(Vec<(i64, u32, bool)>);

impl Model {
    /// Whether a limit that remembers these may admit `count` more at a time. A part of a window counts `late` longer.
    fn may(&self, limit: Limit, count: u32, now: i64, all: bool, late: i64) -> bool {
        let known = self.0.iter().filter(|(.., sure)| all || *sure);
        match limit {
            Limit::Window { limit, window } => {
                let begin = now - ms(window) - late;
                let used: u32 = known
                    .filter(|(at, ..)| *at > begin)
                    .map(|(_, n, _)| n)
                    .sum();
                used + count <= limit
            }
            Limit::Bucket { burst, every } => {
                let every = ms(every);
                let full = i64::from(burst) * every;
                let (mut tokens, mut last) = (full, 0);
                for (at, count, _) in known {
                    tokens = full.min(tokens + at - last) - i64::from(*count) * every;
                    last = *at;
                }
                full.min(tokens + now - last) >= i64::from(count) * every
            }
            _ => unreachable!(),
        }
    }
}

fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap()
}

async fn simulate(seed: u64, mut random: Random, limit: Limit, late: i64) {
    // Every other limiter saves at once, and forgets nothing.
    let save_after = secs(seed % 2);
    let mut world = world(LimiterOptions::default().save_after(save_after));
    let mut model = Model::default();
    for step in 0..120 {
        match random.below(10) {
            0..=5 => {
                let count = 1 + random.below(3);
                let now = world.now();
                let verdict = take(&world, limit, count).await;
                let case = format!("seed {seed}, step {step}: {verdict:?}");
                if model.may(limit, count, now, true, late) {
                    assert!(admits(verdict), "{case}: refused although there is room");
                }
                match verdict {
                    Verdict::Admitted { .. } => {
                        assert!(model.may(limit, count, now, false, 0), "{case}: too many");
                        model.0.push((now, count, true));
                    }
                    Verdict::Refused { retry_after } if random.below(3) == 0 => {
                        assert!(!retry_after.is_zero(), "{case}");
                        world.advance(retry_after).await;
                        let again = take(&world, limit, count).await;
                        assert!(admits(again), "{case}: it said when");
                        assert!(
                            model.may(limit, count, world.now(), false, 0),
                            "{case}: it said when"
                        );
                        model.0.push((world.now(), count, true));
                    }
                    Verdict::Refused { .. } => {}
                }
            }
            6 | 7 => world.advance(millis(random.below(700))).await,
            8 => world.advance(millis(random.below(15_000))).await,
            _ => {
                let saved = world.now() - ms(save_after);
                for (at, _, sure) in &mut model.0 {
                    *sure &= *at <= saved;
                }
                world.node.settle().await.unwrap();
                world = world.killed_or_crashed(&mut random);
            }
        }
    }
    world.advance(secs(600)).await;
    world.advance(secs(600)).await;
    assert_eq!(world.alarms(), 0, "seed {seed}: it has emptied itself");
}

#[test]
fn a_window_admits_exactly_its_limit() {
    each_seed(async |seed, random| {
        let window = [1_000, 7_000, 60_000][usize::try_from(seed).unwrap() % 3];
        let late = i64::from(window) / WINDOW_SLOTS;
        let limit = Limit::window(5, millis(window));
        simulate(seed, random, limit, late).await;
    });
}

#[test]
fn a_bucket_admits_exactly_what_its_tokens_allow() {
    each_seed(async |seed, random| {
        let every = [100, 333, 4_000][usize::try_from(seed).unwrap() % 3];
        simulate(seed, random, Limit::bucket(5, millis(every)), 0).await;
    });
}

#[test]
fn a_limit_is_exact_at_its_edges() {
    run(async {
        let world = world(LimiterOptions::default());
        let limit = Limit::window(2, millis(256));
        assert_eq!(take(&world, limit, 1).await, Verdict::Admitted { left: 1 });
        world.advance(millis(100)).await;
        assert_eq!(take(&world, limit, 1).await, Verdict::Admitted { left: 0 });
        let retry_after = millis(156);
        assert_eq!(
            take(&world, limit, 1).await,
            Verdict::Refused { retry_after }
        );
        let retry_after = millis(256);
        assert_eq!(
            take(&world, limit, 2).await,
            Verdict::Refused { retry_after }
        );
        world.advance(millis(155)).await;
        assert!(!admits(take(&world, limit, 1).await));
        world.advance(millis(1)).await;
        assert!(admits(take(&world, limit, 1).await));
    });
}

#[test]
fn a_clock_set_back_blocks_no_key_longer_than_a_full_window() {
    run(async {
        for limit in [Limit::window(2, secs(60)), Limit::bucket(2, secs(30))] {
            let world = world(LimiterOptions::default());
            assert!(admits(take(&world, limit, 2).await));
            world.clock.set_wall(-3_600_000 * 24);
            let Verdict::Refused { retry_after } = take(&world, limit, 1).await else {
                panic!("what was used is not forgotten");
            };
            assert!(retry_after <= secs(61), "{retry_after:?}");
            world.advance(retry_after).await;
            assert!(admits(take(&world, limit, 1).await));
        }
    });
}

#[test]
fn keys_are_counted_apart_and_a_key_can_be_forgotten() {
    run(async {
        let world = world(LimiterOptions::default());
        let ada = world.stub::<RateLimiter>("ada");
        let limit = Limit::window(1, secs(60));
        for key in ["login", "comment"] {
            let first = ada.check(key.to_owned(), limit).await.unwrap();
            assert!(admits(first));
            let second = ada.check(key.to_owned(), limit).await.unwrap();
            assert!(!admits(second));
        }
        ada.forget("login".to_owned()).await.unwrap();
        assert!(admits(ada.check("login".to_owned(), limit).await.unwrap()));
        assert!(!admits(
            ada.check("comment".to_owned(), limit).await.unwrap()
        ));
        // A limit of another kind begins anew.
        let bucket = Limit::bucket(1, secs(60));
        assert!(admits(
            ada.check("comment".to_owned(), bucket).await.unwrap()
        ));
        let bob = world.stub::<RateLimiter>("bob");
        assert!(admits(
            bob.check("comment".to_owned(), limit).await.unwrap()
        ));
    });
}

#[test]
fn invalid_input_is_refused_and_counts_nothing() {
    run(async {
        let world = world(LimiterOptions::default().save_after(Duration::ZERO));
        let ada = world.stub::<RateLimiter>("ada");
        let fine = Limit::window(1, secs(60));
        let wrong = [
            ("", fine, 1),
            (&*"k".repeat(256), fine, 1),
            ("key", fine, 0),
            ("key", fine, 2),
            ("key", Limit::window(0, secs(60)), 1),
            ("key", Limit::window(1, Duration::ZERO), 1),
            ("key", Limit::window(1, Duration::from_micros(999)), 1),
            ("key", Limit::window(1, Duration::MAX), 1),
            ("key", Limit::bucket(0, secs(1)), 1),
            ("key", Limit::bucket(1, Duration::ZERO), 1),
            ("key", Limit::bucket(u32::MAX, Duration::MAX), 1),
        ];
        for (key, limit, count) in wrong {
            let refused = ada.take(key.to_owned(), limit, count).await;
            assert!(
                matches!(refused, Err(LimiterError::Invalid(_))),
                "{key} {limit:?} {count}: {refused:?}"
            );
        }
        assert_eq!(world.written::<RateLimiter>(), 0);
        for number in 0..MAX_LIMITER_KEYS {
            assert!(admits(ada.check(number.to_string(), fine).await.unwrap()));
        }
        let refused = ada.check("another".to_owned(), fine).await;
        assert!(matches!(refused, Err(LimiterError::TooManyKeys { .. })));
        world.advance(secs(62)).await;
        assert!(admits(ada.check("another".to_owned(), fine).await.unwrap()));
    });
}
