//! Tables of resources.

use maud::{Markup, html};

use super::{
    frame::{Tab, day, frame, money, pill, time, words},
    view::Listed,
};
use crate::machines::{SUBSCRIPTION, states};

/// Subscriptions of one state, or all.
pub(crate) fn subscriptions(state: Option<&str>, rows: &[Listed], next: Option<&str>) -> Markup {
    let title = state.map_or_else(
        || "Subscriptions".to_owned(),
        |state| format!("Subscriptions: {}", words(state)),
    );
    let body = html! {
        h1.unseen { "Subscriptions" }
        nav.chips aria-label="States" {
            a href="/subscriptions" aria-current=[state.is_none().then_some("page")] { "all" }
            @for each in states(&SUBSCRIPTION) {
                a href={ "/subscriptions?state=" (each) } data-state=(each) aria-current=[(state == Some(each)).then_some("page")] { (words(each)) }
            }
        }
        @if rows.is_empty() {
            div.card.empty { p { b { "No such subscriptions." } } }
        } @else {
            (table(&title, rows))
        }
        @if let Some(next) = next {
            nav.more aria-label="More" {
                @let state = state.map(|state| format!("&state={state}")).unwrap_or_default();
                a.plain href={ "/subscriptions?after=" (next) (state) } { "More" }
            }
        }
    };
    frame("Subscriptions", Tab::Subscriptions, &body)
}

/// A table of subscriptions.
pub(super) fn table(title: &str, rows: &[Listed]) -> Markup {
    html! {
        section.card.list {
            h2 { (title) }
            table {
                thead { tr { th { "Subscription" } th { "State" } th.aside { "Customer" } th.num { "Price" } th.aside { "Since" } th.aside { "Changed" } } }
                tbody {
                    @for row in rows {
                        tr {
                            td { a href={ "/subscriptions/" (row.id) } { (row.id) } }
                            td { (pill(&row.state)) }
                            td.aside { (row.customer) }
                            td.num { @if let Some(amount) = row.amount { (money(amount)) } }
                            td.aside.soft { (day(row.created_at)) }
                            td.aside.soft { (time(row.updated_at)) }
                        }
                    }
                }
            }
        }
    }
}

/// A table of a subscription's invoices.
pub(super) fn invoices(rows: &[Listed]) -> Markup {
    html! {
        section.card {
            h2 { "Invoices" }
            @if rows.is_empty() { p.soft { "None yet." } } @else {
                table {
                    thead { tr { th { "Invoice" } th { "State" } th.num { "Amount" } } }
                    tbody {
                        @for row in rows {
                            tr {
                                td { code { (row.id) } br; span.soft.small { (day(row.created_at)) } }
                                td { (pill(&row.state)) }
                                td.num {
                                    @if let Some(amount) = row.amount { (money(amount)) }
                                    br;
                                    span.soft.small { (row.attempts) @if row.attempts == 1 { " attempt" } @else { " attempts" } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
