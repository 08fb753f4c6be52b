//! How the outbox of a request delivers its runs.

use std::time::Duration;

use abide::outbox::{BehindDeadLetter, OutboxOptions};

use crate::{Definition, limits};

/// The options of a request's outbox: how long finished runs are kept depends on how often it runs.
pub(crate) fn outbox_options(definition: &Definition, now: i64) -> OutboxOptions {
    OutboxOptions::default()
        .keep_finished(history(definition, now))
        .max_queued(limits::MAX_OPEN_RUNS)
        .behind_dead_letter(BehindDeadLetter::GoOn)
}

/// How long the history of a request goes back.
fn history(definition: &Definition, now: i64) -> Duration {
    let kept = shortest_interval(definition, now).map_or(limits::MAX_HISTORY, |shortest| {
        shortest
            .saturating_mul(limits::HISTORY_RUNS)
            .clamp(limits::MIN_HISTORY, limits::MAX_HISTORY)
    });
    Duration::from_millis(kept.unsigned_abs())
}

/// The shortest interval between the next runs, in milliseconds.
fn shortest_interval(definition: &Definition, now: i64) -> Option<i64> {
    let times = definition.spec(now, now)?.preview(now, 10).ok()?;
    times.windows(2).map(|pair| pair[1] - pair[0]).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(definition: &str) -> Duration {
        history(&serde_json::from_str(definition).expect("a definition"), 0)
    }

    #[test]
    fn the_history_holds_about_a_hundred_runs_and_no_more_than_a_week() {
        let week = Duration::from_hours(7 * 24);
        assert_eq!(kept(r#"{"url":"https://a.example/"}"#), week);
        let of = |when: &str| kept(&format!(r#"{{"url":"https://a.example/",{when}}}"#));
        assert_eq!(of(r#""triggerEverySeconds":1"#), Duration::from_secs(100));
        assert_eq!(of(r#""triggerEverySeconds":60"#), Duration::from_mins(100));
        assert_eq!(of(r#""cron":"0 9 * * *""#), week);
        assert_eq!(of(r#""cron":"*/2 * * * * *""#), Duration::from_secs(200));
    }
}
