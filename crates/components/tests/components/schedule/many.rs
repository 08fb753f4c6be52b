//! Many timers in one object.

use abide::schedule::Spec;

use crate::schedule::support::{World, plain, run, secs};

const TIMERS: i64 = 10_000;

#[test]
fn ten_thousand_timers_in_one_object_each_go_off_once() {
    run(async {
        let world = World::new(plain());
        let start = world.now();
        for batch in 0..10 {
            let specs = (0..TIMERS / 10).map(|number| {
                let number = batch * (TIMERS / 10) + number;
                // Half of them at one time, the others over an hour.
                let at = if number % 2 == 0 {
                    start + 1_000
                } else {
                    start + 2_000 + number * 360
                };
                (format!("{number:05}"), Spec::once("a", at))
            });
            let set = world.object().upsert_all(specs.collect()).await;
            set.unwrap();
        }
        let page = world.object().list(Some("04999".into()), 3).await.unwrap();
        let names: Vec<&str> = page.iter().map(|timer| timer.name.as_str()).collect();
        assert_eq!(names, ["05000", "05001", "05002"]);
        world.pass(secs(3_700), secs(600)).await;
        let effects = world.object().effects().await.unwrap();
        assert_eq!(effects.len(), usize::try_from(TIMERS).unwrap());
        let mut names: Vec<&String> = effects.iter().map(|(name, ..)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), effects.len());
        assert!(effects.is_sorted_by_key(|(_, due_at, _)| *due_at / 600_000));
    });
}
