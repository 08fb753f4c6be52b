//! The pages.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The editor: `web/src/editor.js` and what it imports, as `npm run build` bundles them.
pub(crate) const SCRIPT: &str = include_str!("../web/dist/editor.js");

/// The licences of what is bundled.
pub(crate) const LICENSES: &str = include_str!("../web/dist/LICENSES.txt");

const STYLE: &str = include_str!("page.css");

/// An empty icon, so that browsers do not ask for one.
const ICON: &str = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect x='2' y='1' width='12' height='14' rx='2' fill='%23546de5'/><path d='M5 5h6M5 8h6M5 11h3' stroke='white' stroke-linecap='round'/></svg>";

fn layout(title: &str, body: &Markup) -> Markup {
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
            body { (body) }
        }
    }
}

/// The page on which a document is chosen.
pub(crate) fn home() -> Markup {
    layout(
        "Rooms",
        &html! {
            main.home {
                h1 { "Rooms" }
                p.lead { "Documents that several people write at once. Others see your changes once they are on disk." }
                form #open action="/d/" {
                    label for="name" { "Document" }
                    div.row {
                        input #name name="name" value="welcome" maxlength="40" required autocomplete="off" autofocus;
                        button { "Open" }
                    }
                }
                p.hint {
                    "Open the same document in a second window, or on your phone, and type in both. "
                    "If the server stops, keep writing: your changes are merged when it is back."
                }
            }
            script src="/assets/editor.js" {}
        },
    )
}

/// The page on which a document is edited.
pub(crate) fn document(name: &str) -> Markup {
    layout(
        &format!("{name} – Rooms"),
        &html! {
            div.app data-document=(name) {
                header {
                    a.home-link href="/" title="All documents" { "Rooms" }
                    h1 { (name) }
                    span #line role="status" data-state="connecting" { "Connecting…" }
                    ul #people aria-label="Who is here" {}
                }
                p #refused role="alert" hidden {}
                main {
                    section #editor aria-label="Text" {}
                    aside {
                        h2 { "Chat" }
                        ol #talk aria-live="polite" {
                            li.hint { "Seen by those who are here, and not stored." }
                        }
                        form #say {
                            input name="text" maxlength="500" autocomplete="off" placeholder="Say something" aria-label="Say something";
                            button { "Send" }
                        }
                    }
                }
                footer {
                    label { "You are " input #me maxlength="30" autocomplete="off"; }
                    span #size {}
                }
            }
            script src="/assets/editor.js" {}
        },
    )
}
