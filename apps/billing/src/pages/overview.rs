//! The overview page.

use maud::{Markup, html};

use super::{
    frame::{Tab, frame, money, words},
    list,
    view::{Cohort, Month, Overview},
};
use crate::{
    Money,
    machines::{SUBSCRIPTION, states},
    read::Lag,
    web::Troubles,
};

/// Height and width of a bar.
const BAR: (i64, i64) = (100, 20);

/// The text for a sum that exceeds the maximum amount.
const TOO_MUCH: &str = "more than can be added";

/// The first page.
pub(crate) fn overview(view: &Overview, lag: Lag, troubles: &Troubles) -> Markup {
    let body = html! {
        h1.unseen { "Overview" }
        @if let Some(text) = stopped(troubles) {
            p.card.troubles { (text) " " a href="/v1/troubles" { "Which, and why" } }
        }
        nav.tiles aria-label="Subscriptions by state" {
            @for state in states(&SUBSCRIPTION) {
                @let count = view.states.get(state).copied().unwrap_or(0);
                a.card href={ "/subscriptions?state=" (state) } data-state=(state) {
                    b.none[count == 0] { (count) }
                    span { (words(state)) }
                }
            }
        }
        div.two {
            section.card.revenue { (revenue(view)) }
            section.card { (dunning(&view.cohorts)) }
        }
        @if view.newest.is_empty() {
            div.card.empty { p { b { "No subscriptions yet." } br; span.soft { "What the API creates appears here." } } }
        } @else {
            (list::table("Changed last", &view.newest))
        }
        p.soft.small.lag { (behind(lag)) }
    };
    frame("Overview", Tab::Overview, &body)
}

/// The text for stalled timers and notices, if there are any.
fn stopped(troubles: &Troubles) -> Option<String> {
    let all = [
        ("payment", troubles.payments.len()),
        ("refund", troubles.refunds.len()),
        ("timer", troubles.timers.len()),
    ];
    let more = if troubles.more { "More than " } else { "" };
    let texts = all.iter().filter_map(|(what, many)| match many {
        0 => None,
        1 => Some(format!("1 {what} is stalled.")),
        many => Some(format!("{more}{many} {what}s are stalled.")),
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// How far the read model lags behind.
fn behind(lag: Lag) -> String {
    let waiting = match lag.waiting {
        0 => "These numbers are up to date.".to_owned(),
        1 => format!("One change is pending, for {} s.", seconds(lag)),
        many => format!(
            "{many} changes are pending, the oldest for {} s.",
            seconds(lag)
        ),
    };
    match lag.dead {
        0 => waiting,
        dead => format!("{waiting} {dead} were rejected: rebuild the read model."),
    }
}

fn seconds(lag: Lag) -> String {
    format!("{}.{}", lag.millis / 1_000, lag.millis % 1_000 / 100)
}

fn revenue(view: &Overview) -> Markup {
    let most = view.months.iter().map(amount).max();
    let most = most.unwrap_or(0).max(1);
    let paid: Option<Vec<Money>> = view.months.iter().map(|month| month.paid).collect();
    let total = paid.and_then(|paid| Money::sum(view.currency, paid).ok());
    html! {
        h2 { "Revenue" }
        p.soft.small { "Paid invoices of twelve months in " (view.currency) }
        @match total {
            Some(total) => p.figure { (money(total)) },
            None => p.figure { (TOO_MUCH) },
        }
        div.chart {
            @for month in &view.months {
                @let height = BAR.0 * amount(month).max(0) / most;
                @let paid = month.paid.map_or_else(|| TOO_MUCH.to_owned(), |paid| paid.to_string());
                div title={ (month.name) ": " (paid) ", " (month.invoices) " invoices" } {
                    svg viewBox={ "0 0 " (BAR.1) " " (BAR.0) } preserveAspectRatio="none" role="img" aria-label={ (month.name) ": " (paid) } {
                        rect x="0" y=(BAR.0 - height) width=(BAR.1) height=(height) rx="2" {}
                    }
                    small { (month.name.get(2..).unwrap_or(&month.name)) }
                }
            }
        }
    }
}

/// The height of a month's bar: full for a sum that exceeds the maximum amount.
fn amount(month: &Month) -> i64 {
    month.paid.map_or(Money::MAX_AMOUNT, Money::amount)
}

fn dunning(cohorts: &[Cohort]) -> Markup {
    html! {
        h2 { "Dunning" }
        p.soft.small { "Invoices whose first payment failed, by month, and how they ended" }
        @if cohorts.is_empty() {
            p.soft { br; "No payment has failed." }
        } @else {
            // A keyboard scrolls what it can reach.
            div.wide tabindex="0" role="region" aria-label="Dunning by month" {
                table.cohort {
                    thead {
                        tr {
                            th { "Month" } th.num { "Failed" }
                            @for (retry, day) in (1..).zip(crate::DUNNING_DAYS) {
                                th.num title={ "On day " (day) ", or by hand before" } { "Retry " (retry) }
                            }
                            th.num { "Later" } th.num { "Open" } th.num { "Lost" }
                        }
                    }
                    tbody {
                        @for cohort in cohorts {
                            tr {
                                td { (cohort.month) }
                                td.num { (cohort.failed) }
                                @for won in &cohort.won { (share(*won, cohort.failed, false)) }
                                td.num { (cohort.open) }
                                (share(cohort.lost, cohort.failed, true))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A count as a share of the total, shaded by its size.
fn share(count: u64, all: u64, lost: bool) -> Markup {
    let percent = (count * 100).checked_div(all).unwrap_or(0);
    let heat = match percent {
        0 => None,
        1..15 => Some(1),
        15..35 => Some(2),
        35..60 => Some(3),
        _ => Some(4),
    };
    html! {
        td.heat.lost[lost] data-heat=[heat] { span title={ (count) } { (percent) " %" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overview_shows_the_age_of_its_figures() {
        let lag = |waiting, millis, dead| {
            behind(Lag {
                waiting,
                millis,
                dead,
            })
        };
        assert_eq!(lag(0, 0, 0), "These numbers are up to date.");
        assert_eq!(lag(1, 260, 0), "One change is pending, for 0.2 s.");
        assert_eq!(
            lag(7, 61_900, 2),
            "7 changes are pending, the oldest for 61.9 s. 2 were rejected: rebuild the read model."
        );
    }
}
