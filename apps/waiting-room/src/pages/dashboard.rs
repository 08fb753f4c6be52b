//! The dashboard: who is inside, who waits and how many were let in, by data centre, with the limit as a line.

use std::{fmt::Write, sync::Arc};

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::room::{CentreSample, Room, Sample};

const STYLE: &str = include_str!("../assets/dashboard.css");
/// Asks for the inner part every other second, and shows when that fails.
const SCRIPT: &str = "setInterval(async () => {
  const main = document.querySelector('main');
  try {
    const answer = await fetch('/.waiting-room/live');
    if (!answer.ok) throw answer.status;
    main.innerHTML = await answer.text();
    main.classList.remove('stale');
  } catch { main.classList.add('stale'); }
}, 2000);";

/// The page is one file and asks only its own server.
pub const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                          base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Hues that the style sheet has.
const HUES: usize = 5;
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 36.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 18.0;

/// The whole page.
pub fn page(all: &[Arc<Room>]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Waiting rooms" }
                style { (PreEscaped(STYLE)) }
                noscript { meta http-equiv="refresh" content="5"; }
            }
            body {
                header {
                    h1 { "Waiting rooms" }
                    p { "the last half hour, since the server started; dashed: the limit" }
                }
                main { (rooms(all)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// What changes.
pub fn rooms(rooms: &[Arc<Room>]) -> Markup {
    html! { @for room in rooms { (describe(room)) } }
}

fn describe(room: &Room) -> Markup {
    let samples = room.samples.all();
    let plan = room.plan();
    let limit = plan
        .as_ref()
        .map_or(room.settings.limits, |plan| plan.rules.limits);
    let newest = samples.last();
    let active = newest.map_or(0, |sample| sample.sum(|centre| centre.active));
    let queued = newest.map_or(0, |sample| sample.sum(|centre| centre.queued));
    let slots = plan.as_ref().map_or(0, |plan| plan.slots);
    let pace = plan
        .as_ref()
        .map_or(0.0, |plan| plan.state.admissions_per_minute);
    let is_held = plan.as_ref().is_some_and(|plan| plan.rules.holds_all);
    html! {
        section.room {
            h2 {
                (room.settings.name)
                @if is_held { span.pill { "holds all visitors" } } @else if slots <= 0 { span.pill { "full" } }
            }
            dl.numbers {
                div { dt { "Active" } dd { (active) " " small { "of " (limit.total_active_users) } } }
                div { dt { "Queued" } dd { (queued) } }
                div { dt { "Free slots" } dd { (slots.max(0)) } }
                div { dt { "Admissions per minute" } dd { (format!("{pace:.0}")) } }
            }
            div.charts {
                (chart("Active users", &samples, |centre| centre.active, Some(limit.total_active_users)))
                (chart("Queued users", &samples, |centre| centre.queued, None))
                (chart("Admissions in the last full minute", &samples, |centre| centre.admitted, Some(limit.new_users_per_minute)))
            }
            div.wide tabindex="0" role="region" aria-label={ "Data centres of " (room.settings.name) } {
                table {
                    thead { tr { th { "Data centre" } th { "Active" } th { "Queued" } th { "Admitted" } th { "Workers" } } }
                    tbody {
                        @for (index, centre) in samples.last().map_or(&[][..], |sample| &sample.centres).iter().enumerate() {
                            tr {
                                td { span class={ "dot h" (index % HUES) } {} (centre.data_centre) }
                                td { (centre.active) }
                                td { (centre.queued) }
                                td { (centre.admitted) }
                                td { (room.centres.get(index).map_or(0, |centre| centre.workers.len())) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Data centres stacked on each other.
fn chart(
    title: &str,
    samples: &[Sample],
    of: impl Fn(&CentreSample) -> u64,
    limit: Option<u64>,
) -> Markup {
    let highest = samples
        .iter()
        .map(|sample| sample.sum(&of))
        .max()
        .unwrap_or(0);
    // A limit that is far above everything would flatten what there is to see.
    let limit = limit.filter(|limit| *limit <= highest.saturating_mul(4).max(10));
    let top = round_up(highest.max(limit.unwrap_or(0)).max(1));
    let y = |value: u64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - value as f64 / top as f64);
    let end = samples.last().map_or(0, |sample| sample.at);
    let length = samples
        .first()
        .map_or(0, |sample| end - sample.at)
        .max(60_000);
    // The newest sample is at the right edge, also while there are few.
    let x = |at: u64| WIDTH - 4.0 - (WIDTH - LEFT - 4.0) * ((end - at) as f64 / length as f64);
    let count = samples.last().map_or(0, |sample| sample.centres.len());
    let area = |index: usize| {
        let mut path = String::new();
        let below =
            |sample: &Sample, index: usize| sample.centres.iter().take(index).map(&of).sum::<u64>();
        for (step, sample) in samples.iter().enumerate() {
            let command = if step == 0 { 'M' } else { 'L' };
            let _ = write!(
                path,
                "{command}{:.1} {:.1}",
                x(sample.at),
                y(below(sample, index + 1))
            );
        }
        for sample in samples.iter().rev() {
            let _ = write!(path, "L{:.1} {:.1}", x(sample.at), y(below(sample, index)));
        }
        path + "Z"
    };
    let now = samples.last().map_or(0, |sample| sample.sum(&of));
    html! {
        figure {
            figcaption { (title) }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (title) ": " (now) " now, " (highest) " at most" } {
                @for value in [0, top / 2, top] {
                    line.grid x1=(LEFT) x2=(WIDTH - 4.0) y1=(format!("{:.1}", y(value))) y2=(format!("{:.1}", y(value))) {}
                    text x=(LEFT - 6.0) y=(format!("{:.1}", y(value) + 4.0)) text-anchor="end" { (value) }
                }
                @for index in 0..count { path class={ "area h" (index % HUES) } d=(area(index)) {} }
                @if let Some(limit) = limit {
                    line.limit x1=(LEFT) x2=(WIDTH - 4.0) y1=(format!("{:.1}", y(limit))) y2=(format!("{:.1}", y(limit))) {}
                }
                text x=(LEFT) y=(HEIGHT - 4.0) { (format!("{} min ago", length / 60_000)) }
                text x=(WIDTH - 4.0) y=(HEIGHT - 4.0) text-anchor="end" { "now" }
            }
        }
    }
}

/// An even number with one or two digits that count.
fn round_up(value: u64) -> u64 {
    let step = 10_u64.pow(value.max(1).ilog10()).div_ceil(5).max(2);
    value.div_ceil(step) * step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_chart_is_a_round_number_that_is_not_lower() {
        for (value, top) in [
            (1, 2),
            (9, 10),
            (10, 10),
            (11, 12),
            (199, 200),
            (201, 220),
            (10_000, 10_000),
        ] {
            assert_eq!(round_up(value), top, "{value}");
        }
    }
}
