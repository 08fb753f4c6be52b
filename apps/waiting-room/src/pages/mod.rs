//! The queue page, what clients that are no browsers get in its place, and the dashboard.

pub mod dashboard;
mod queue;
pub mod template;

use std::time::Duration;

use serde_json::{Value, json};

pub use queue::{POLICY, queue};

use crate::room::Place;

/// What a visitor who does not enter is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Waiting {
    /// There is a place in the queue.
    Queued(Place),
    /// The room keeps no places.
    TurnedAway,
}

/// Minutes as people say them.
pub(crate) fn spoken(minutes: f64) -> String {
    match minutes {
        minutes if minutes < 1.0 => "less than a minute".to_owned(),
        minutes if minutes < 1.5 => "about a minute".to_owned(),
        minutes if minutes < 90.0 => format!("about {} minutes", minutes.round()),
        minutes if minutes < 24.0 * 60.0 => format!("about {} hours", (minutes / 60.0).round()),
        _ => "more than a day".to_owned(),
    }
}

/// The same in JSON.
pub fn json(waiting: &Waiting, refresh: Duration) -> Value {
    match waiting {
        Waiting::Queued(place) => json!({
            "status": if place.is_held { "held" } else { "queued" },
            "people_ahead": place.ahead,
            "wait_minutes": place.minutes.map(|minutes| (minutes * 10.0).round() / 10.0),
            "refresh_seconds": refresh.as_secs().max(1),
        }),
        Waiting::TurnedAway => json!({
            "status": "full",
            "refresh_seconds": refresh.as_secs().max(1),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_said_as_people_say_them() {
        for (minutes, said) in [
            (0.2, "less than a minute"),
            (1.2, "about a minute"),
            (112.0 / 30.0, "about 4 minutes"),
            (150.0, "about 3 hours"),
            (9_999.0, "more than a day"),
        ] {
            assert_eq!(spoken(minutes), said);
        }
    }
}
