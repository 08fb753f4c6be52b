//! A custom queue page: a template in Jinja's language.
//!
//! | Placeholder | Is |
//! |---|---|
//! | `room` | the room's name |
//! | `status` | `queued`, `held` or `full` |
//! | `people_ahead` | a number; absent if `full` |
//! | `wait_minutes` | a number; absent if it cannot be estimated |
//! | `wait` | the same in words |
//! | `refresh_seconds` | when the page looks again |

use minijinja::{Environment, UndefinedBehavior, context};

use super::{Waiting, spoken};
use crate::room::Place;
use std::time::Duration;

/// Renders a template. What it puts into the page is escaped.
pub fn render(
    template: &str,
    room: &str,
    waiting: &Waiting,
    refresh: Duration,
) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_template("queue.html", template)?;
    let template = environment.get_template("queue.html")?;
    let (status, place) = match waiting {
        Waiting::Queued(place) if place.is_held => ("held", Some(place)),
        Waiting::Queued(place) => ("queued", Some(place)),
        Waiting::TurnedAway => ("full", None),
    };
    template.render(context! {
        room,
        status,
        people_ahead => place.map(|place| place.ahead),
        wait_minutes => place.and_then(|place| place.minutes).map(|minutes| minutes.ceil() as i64),
        wait => place.and_then(|place| place.minutes).map(spoken),
        refresh_seconds => refresh.as_secs().max(1),
    })
}

/// Refuses a template that could not be rendered when it is needed.
pub fn check(template: &str) -> Result<(), minijinja::Error> {
    let place = |minutes, is_held| {
        Waiting::Queued(Place {
            ahead: 7,
            minutes,
            is_held,
        })
    };
    for waiting in [
        place(Some(2.5), false),
        place(None, false),
        place(None, true),
        Waiting::TurnedAway,
    ] {
        render(template, "room", &waiting, Duration::from_secs(20))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_in_and_escaped() {
        let template = "<h1>{{ room }}</h1>{% if people_ahead %}{{ people_ahead }} ahead, {{ wait }}{% endif %}";
        let place = Waiting::Queued(Place {
            ahead: 112,
            minutes: Some(2.0),
            is_held: false,
        });
        let page = render(template, "a<b", &place, Duration::from_secs(20)).unwrap();
        assert_eq!(page, "<h1>a&lt;b</h1>112 ahead, about 2 minutes");
        let full = render(template, "a", &Waiting::TurnedAway, Duration::from_secs(20)).unwrap();
        assert_eq!(full, "<h1>a</h1>");
    }

    #[test]
    fn a_template_that_could_not_be_rendered_is_refused_before_it_is_needed() {
        assert!(
            check("{{ peple_ahead }}")
                .unwrap_err()
                .to_string()
                .contains("undefined")
        );
        assert!(check("{% if %}").is_err());
        assert!(check("<p>{{ people_ahead }}</p>").is_ok());
    }
}
