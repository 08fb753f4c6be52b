//! The queue page. It needs no script: the browser is told to come back, and enters when it may. A script only shows when that is.

use maud::{DOCTYPE, PreEscaped, html};

use super::{Waiting, spoken, template};
use crate::room::Room;

const STYLE: &str = include_str!("../assets/queue.css");
const SCRIPT: &str = include_str!("../assets/queue.js");

/// The page is one file and asks only its own server.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page of a visitor who does not enter.
pub fn queue(room: &Room, waiting: &Waiting) -> Result<String, minijinja::Error> {
    let name = &room.settings.name;
    if let Some(own) = &room.settings.template {
        return template::render(own, name, waiting, room.refresh);
    }
    let seconds = room.refresh.as_secs().max(1);
    let (title, lead) = match waiting {
        Waiting::Queued(place) if place.is_held => (
            "You are in the queue",
            "The doors are not open yet. You keep your place, and this page lets you in as soon as it can.",
        ),
        Waiting::Queued(_) => (
            "You are in the queue",
            "Many people want to come in right now. You keep your place, and this page lets you in as soon as it can.",
        ),
        Waiting::TurnedAway => (
            "We are full at the moment",
            "Please come back a little later. This page tries again automatically.",
        ),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    div.doors aria-hidden="true" { span {} span {} span {} span {} span {} }
                    h1 { (title) }
                    p.lead { (lead) }
                    @if let Waiting::Queued(place) = waiting {
                        dl {
                            div {
                                dt { "People ahead of you" }
                                dd { (place.ahead) }
                            }
                            div {
                                dt { "Estimated wait" }
                                dd #wait {
                                    @match place.minutes {
                                        Some(minutes) if !place.is_held => (spoken(minutes)),
                                        _ => "not known yet",
                                    }
                                }
                            }
                        }
                    }
                    p.next { span #bar aria-hidden="true" {} "Looks again every " (seconds) " seconds. Keep this page open." }
                }
                script data-seconds=(seconds) { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(page.into_string())
}
