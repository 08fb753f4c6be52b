//! The rendering of the front page.

use std::{path::Path, sync::LazyLock};

use base64::{Engine, prelude::BASE64_STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    Front, FrontPage, Listener,
    overview::{ClassCount, OutboxSums, Overview},
};
use crate::{history::Report, readiness::Reason};

const STYLE: &str = include_str!("style.css");

/// The page's only style sheet is inline and allowed by its hash; nothing else is loaded or run.
pub(super) static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
});

const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' \
                    height='32' rx='8' fill='%234f46e5'/%3E%3Cpath d='M9 10h14M9 16h14M9 22h8' stroke='white' stroke-width='2.6' \
                    stroke-linecap='round'/%3E%3C/svg%3E";

/// A link on the page: its target and text.
struct Target {
    href: String,
    text: String,
}

/// A command on the page: its purpose and the complete line.
struct Line {
    purpose: String,
    command: String,
}

impl Target {
    fn new(href: String, text: &str) -> Self {
        let text = text.to_owned();
        Self { href, text }
    }
}

impl Line {
    fn new(purpose: &str, command: String) -> Self {
        let purpose = purpose.to_owned();
        Self { purpose, command }
    }
}

/// The content of the page, in either format.
struct Content<'a> {
    title: &'a str,
    about: &'a str,
    links: Vec<Target>,
    commands: Vec<Line>,
}

/// The page as JSON.
pub(super) fn json(front: &Front, overview: &Overview, address: &str) -> Value {
    let content = content(front, address);
    let links = content.links.iter();
    let links: Vec<_> = links
        .map(|link| json!({ "href": link.href, "text": link.text }))
        .collect();
    let mut page = json!({
        "title": content.title,
        "about": content.about,
        "version": env!("CARGO_PKG_VERSION"),
        "status": if overview.reasons.is_empty() { "ready" } else { "unavailable" },
        "reasons": overview.reasons,
        "classes": overview.classes,
        "outboxes": overview.outboxes,
        "links": links,
    });
    if let Some(backup) = backup(front, overview) {
        page["backup"] = json!(backup);
    }
    page
}

/// The state of the copy is the operator's: it is on the admin listener's page.
fn backup<'a>(front: &Front, overview: &'a Overview) -> Option<&'a Report> {
    let is_admin = matches!(front.listener, Listener::Admin { .. });
    overview.backup.as_ref().filter(|_| is_admin)
}

/// The page as HTML.
pub(super) fn overview(front: &Front, overview: &Overview, address: &str) -> Markup {
    let content = content(front, address);
    frame(
        content.title,
        &html! {
            header.head {
                (mark())
                div {
                    h1 { (content.title) }
                    p.soft { (content.about) }
                }
                (status(&overview.reasons))
            }
            @if !content.commands.is_empty() {
                section.card.wide {
                    h2 { "Try it" }
                    @if front.needs_token {
                        p.soft { "The commands read a token from the environment: " code { "export ABIDE_TOKEN=abide_…" } }
                    }
                    @for line in &content.commands {
                        p.purpose { (line.purpose) }
                        pre tabindex="0" { code { (line.command) } }
                    }
                }
            }
            (classes(&overview.classes, overview.outboxes.is_empty()))
            @if !overview.outboxes.is_empty() { (outboxes(&overview.outboxes)) }
            @if let Some(report) = backup(front, overview) { (backup_card(report)) }
            section.card.wide {
                h2 { "Links" }
                ul.links {
                    @for link in &content.links {
                        li { a href=(link.href) { (link.text) } }
                    }
                }
            }
            footer.soft { "abide " (env!("CARGO_PKG_VERSION")) }
        },
    )
}

/// The page for a browser without permission. `address`: where it can log in with a token. `open`: the paths without a
/// token.
pub(super) fn refusal(message: &str, address: Option<&str>, open: &[&str]) -> Markup {
    frame(
        "abide",
        &html! {
            header.head {
                (mark())
                div {
                    h1 { "abide" }
                    p.soft { "This is an abide node." }
                }
            }
            section.card.wide {
                @if let Some(address) = address {
                    h2 { "A token is needed" }
                    p { "In a browser, reload this page and log in with any name and the token as the password. Elsewhere:" }
                    pre tabindex="0" { code { "curl -H \"Authorization: Bearer $ABIDE_TOKEN\" " (address) "/" } }
                    p.soft { "The operator of the node creates tokens with " code { "abide token create" } "." }
                } @else {
                    h2 { "Not now, or not for this caller" }
                    p { (message) }
                }
                @if !open.is_empty() {
                    p { "No token is needed for:" @for path in open { " " a href=(path) { (path) } } }
                }
            }
        },
    )
}

fn content<'a>(front: &'a Front, address: &str) -> Content<'a> {
    let login = if front.needs_token {
        "-H \"Authorization: Bearer $ABIDE_TOKEN\" "
    } else {
        ""
    };
    match &front.listener {
        Listener::Clients { page, admin } => {
            let admin = admin.as_ref();
            let admin = admin.and_then(|admin| admin.address_beside(address));
            clients(page, admin.as_deref(), address, login)
        }
        Listener::Admin { data_dir, .. } => admin(data_dir.as_deref(), address, login),
    }
}

fn clients<'a>(
    page: &'a FrontPage,
    admin: Option<&str>,
    address: &str,
    login: &str,
) -> Content<'a> {
    let own = page.links.iter();
    let own = own.map(|link| Target::new(link.path.clone(), &link.text));
    let beside = [
        ("/", "The admin listener"),
        ("/readyz", "Health"),
        ("/metrics", "Metrics"),
    ];
    let beside = admin
        .into_iter()
        .flat_map(|admin| beside.map(|(path, text)| Target::new(format!("{admin}{path}"), text)));
    let commands = page.commands.iter().map(|command| {
        let options = command.options.replace("{address}", address);
        let space = if options.is_empty() { "" } else { " " };
        let path = &command.path;
        Line::new(
            &command.purpose,
            format!("curl {login}{options}{space}{address}{path}"),
        )
    });
    Content {
        title: &page.title,
        about: &page.about,
        links: own.chain(beside).collect(),
        commands: commands.collect(),
    }
}

fn admin(data_dir: Option<&Path>, address: &str, login: &str) -> Content<'static> {
    let links = [
        ("/readyz", "Whether the node accepts requests"),
        ("/healthz", "Whether the process responds"),
        ("/metrics", "Metrics, for Prometheus"),
        ("/alarms", "Alarms"),
        ("/quarantined", "Objects that need a repair"),
    ];
    let mut commands = vec![
        Line::new("Ask whether it is ready", format!("curl {address}/readyz")),
        Line::new("List alarms", format!("curl {login}{address}/alarms")),
    ];
    if let Some(dir) = data_dir {
        let dir = quoted(&dir.display().to_string());
        commands.push(Line::new(
            "The same locally, as the user that runs the node",
            format!("abide alarms list --data {dir}"),
        ));
        commands.push(Line::new(
            "Without the `abide` command",
            format!("curl --unix-socket {dir}/admin.sock http://localhost/alarms"),
        ));
    }
    Content {
        title: "abide admin",
        about: "Health, metrics and operations of this node.",
        links: links
            .map(|(path, text)| Target::new(path.to_owned(), text))
            .into(),
        commands,
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    if word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn frame(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href=(ICON);
                style { (PreEscaped(STYLE)) }
            }
            body { main { (body) } }
        }
    }
}

fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 32 32" aria-hidden="true" {
            rect width="32" height="32" rx="8" {}
            path d="M9 10h14M9 16h14M9 22h8" {}
        }
    }
}

fn status(reasons: &[Reason]) -> Markup {
    html! {
        @if reasons.is_empty() {
            p.pill.good { "ready" }
        } @else {
            p.pill.bad { "unavailable" }
            ul.reasons {
                @for reason in reasons {
                    li { code { (reason.code) } " " (reason.message) }
                }
            }
        }
    }
}

/// `alone`: nothing is shown next to it.
fn classes(classes: &[ClassCount], alone: bool) -> Markup {
    html! {
        section.card.wide[alone] {
            h2 { "Classes" }
            table {
                thead { tr { th { "Class" } th { "Binding" } th.num { "Objects" } } }
                tbody {
                    @for class in classes {
                        tr { td { (class.class) } td { code { (class.binding) } } td.num { (thousands(class.objects)) } }
                    }
                }
            }
            @if classes.iter().all(|class| class.objects == 0) {
                p.soft { "The first write to an object creates it." }
            }
        }
    }
}

fn outboxes(outboxes: &[OutboxSums]) -> Markup {
    let number = |count: u64, is_trouble: bool| {
        let (some, alert) = (count > 0 && !is_trouble, count > 0 && is_trouble);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        html! { td.num.some[some].alert[alert] { (thousands(count)) } }
    };
    html! {
        section.card {
            h2 { "Outboxes" }
            table {
                thead { tr { th { "Class" } th.num { "Queued" } th.num { "Sending" } th.num { "Failing" } th.num { "Dead" } } }
                tbody {
                    @for sums in outboxes {
                        tr {
                            td { (sums.class) }
                            (number(sums.queued, false)) (number(sums.sending, false))
                            (number(sums.failing, true)) (number(sums.dead_letters, true))
                        }
                    }
                }
            }
            p.soft { "Totals of all outboxes of a class that have been in memory since the process started." }
        }
    }
}

fn backup_card(report: &Report) -> Markup {
    html! {
        section.card.wide {
            h2 { "Backup" }
            table {
                tbody {
                    tr { th scope="row" { "Place" } td { code { (report.place) } } }
                    tr {
                        th scope="row" { "Copied" }
                        td {
                            @match report.unsaved_seconds {
                                0 => "everything",
                                seconds => { "everything until " (duration(seconds)) " ago" }
                            }
                        }
                    }
                    @if let Some(why) = &report.failing {
                        tr { th scope="row" { "Failing" } td.alert { (why) } }
                    }
                    tr {
                        th scope="row" { "Proven" }
                        td {
                            @match report.proven_seconds {
                                Some(seconds) => { "all of it within the last " (duration(seconds)) },
                                None => "no: archive.prove is off",
                            }
                        }
                    }
                    @for difference in &report.differences {
                        tr { th scope="row" { "Differs" } td.alert { (difference) } }
                    }
                }
            }
        }
    }
}

/// A number of seconds in its largest unit that fits.
fn duration(seconds: u64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let fitting = units.into_iter().find(|(length, _)| seconds >= *length);
    let (length, unit) = fitting.unwrap_or((1, "second"));
    let count = seconds / length;
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {unit}{plural}")
}

/// Formats 1234567 as `1,234,567`.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_their_thousands_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(thousands(number), text);
        }
    }

    #[test]
    fn trouble_of_an_outbox_is_marked() {
        let sums = OutboxSums {
            class: "Shop".to_owned(),
            queued: 2,
            dead_letters: 1,
            ..OutboxSums::default()
        };
        let table = outboxes(&[sums]).into_string();
        let cells = "<td class=\"num some\">2</td><td class=\"num\">0</td><td class=\"num\">0</td><td class=\"num alert\">1</td>";
        assert!(table.contains(cells), "{table}");
    }

    #[test]
    fn what_differs_in_a_backup_is_on_its_page_and_marked() {
        let mut report = Report {
            place: "s3://backups/shop".to_owned(),
            unsaved_seconds: 0,
            failing: None,
            proven_seconds: Some(3 * 86_400),
            differences: Vec::new(),
        };
        let card = backup_card(&report).into_string();
        let proven = "<td>all of it within the last 3 days</td>";
        assert!(
            card.contains(proven) && card.contains("<td>everything</td>"),
            "{card}"
        );
        assert!(!card.contains("alert"), "{card}");
        report.differences = vec!["object Shop/1f: page <2>".to_owned()];
        report.failing = Some("timed out".to_owned());
        report.unsaved_seconds = 61;
        let card = backup_card(&report).into_string();
        for cell in [
            "<td class=\"alert\">object Shop/1f: page &lt;2&gt;</td>",
            "<td class=\"alert\">timed out</td>",
            "<td>everything until 1 minute ago</td>",
        ] {
            assert!(card.contains(cell), "{cell} in {card}");
        }
    }

    #[test]
    fn a_directory_is_one_word_for_a_shell() {
        assert_eq!(quoted("/var/lib/abide-1"), "/var/lib/abide-1");
        assert_eq!(quoted("/a b"), "'/a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
