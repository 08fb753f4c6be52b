//! The pages. User content is escaped by the templates; no page has a script.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use abide::{outbox::Counts, server};

use crate::{
    Comment, GivenUp, MAX_EMAIL, MAX_NAME, MAX_TEXT, NewComment, Post, Site, ThankYou, ThanksState,
    Thread,
};

const STYLE: &str = include_str!("../assets/style.css");

const MARK: &str = include_str!("../assets/mark.svg");

/// Pages load nothing and send forms to their own server only.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";

/// A page of HTML.
pub(crate) struct Page(Markup);

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        // Its policy of referrers keeps the tokens in links of mails from others.
        let uncached = [(header::CACHE_CONTROL, "no-store")];
        (uncached, server::Page::new(self.0.into_string(), POLICY)).into_response()
    }
}

/// The list of posts.
pub(crate) fn front(site: &Site, posts: &[Post]) -> Page {
    let main = html! {
        h1.hidden { "Posts" }
        ol.posts {
            @for post in posts {
                li {
                    article.card {
                        (date(post.at))
                        h2 { a href={ "/posts/" (post.slug) } { (post.title) } }
                        p.teaser { (teaser(&post.text)) }
                        p.soft { (comments(post.comments)) }
                    }
                }
            }
        }
    };
    layout(&site.title, &site.title, &main)
}

/// A post, its comments and the form, with the error of the submitted comment, if any.
pub(crate) fn thread(site: &Site, thread: &Thread, form: &NewComment, wrong: Option<&str>) -> Page {
    let Thread {
        post,
        comments: shown,
        older,
        newest,
    } = thread;
    let main = html! {
        article.post {
            (date(post.at))
            h1 { (post.title) }
            @for paragraph in paragraphs(&post.text) { p { (paragraph) } }
        }
        section.talk aria-labelledby="talk" {
            h2 #talk { (comments(post.comments)) }
            @if let Some(older) = older {
                p { a.older href={ "/posts/" (post.slug) "?before=" (older) "#talk" } { "Older comments" } }
            }
            @if shown.is_empty() { p.soft { "No comments yet. Write the first." } }
            ol.comments { @for comment in shown { (said(comment)) } }
            @if !newest { p { a.older href={ "/posts/" (post.slug) "#talk" } { "Newest comments" } } }
        }
        section.card aria-labelledby="say" {
            h2 #say { "Say something" }
            @if let Some(wrong) = wrong { p.note.bad role="alert" { (wrong) } }
            form method="post" action={ "/posts/" (post.slug) "/comments#say" } {
                input type="hidden" name="mark" value=(form.mark);
                div.pair {
                    label { "Name" input name="name" required maxlength=(MAX_NAME) autocomplete="name" value=(form.name); }
                    label { "E-mail" input name="email" type="email" required maxlength=(MAX_EMAIL) autocomplete="email" value=(form.email); }
                }
                label { "Comment" textarea name="text" rows="5" required maxlength=(MAX_TEXT) { (form.text) } }
                div.acts {
                    p.soft { "Your address is not shown. A mail asks you whether you want to hear about answers." }
                    button { "Post comment" }
                }
            }
        }
    };
    layout(
        &site.title,
        &format!("{} – {}", post.title, site.title),
        &main,
    )
}

/// Asks for confirmation of subscriptions: link checkers of mail programs must not confirm them.
pub(crate) fn confirm(site: &Site, posts: &[Post], token: &str) -> Page {
    let main = html! {
        section.card.alone {
            @if posts.is_empty() {
                h1 { "Nothing to confirm" }
                p { "You have confirmed it before, or it has been too long. Comment again to get another mail." }
            } @else {
                h1 { "Hear about answers?" }
                p { "You will get a mail about comments on" }
                ul { @for post in posts { li { "“" (post.title) "”" } } }
                form method="post" action={ "/confirm?token=" (token) } { button { "Tell me about answers" } }
            }
        }
    };
    layout(&site.title, "Hear about answers", &main)
}

/// Subscriptions have begun.
pub(crate) fn confirmed(site: &Site, posts: &[Post]) -> Page {
    let main = html! {
        section.card.alone {
            h1 { "You will hear about answers" }
            p { "Each mail has a link that ends that." }
            @for post in posts { p { a href={ "/posts/" (post.slug) } { "Back to “" (post.title) "”" } } }
        }
    };
    layout(&site.title, "Hear about answers", &main)
}

/// Asks for the owner's token.
pub(crate) fn log_in(site: &Site, wrong: bool) -> Page {
    let main = html! {
        section.card.alone {
            h1 { "For the owner" }
            @if wrong { p.note.bad role="alert" { "That is not the token." } }
            form method="post" action="/owner/session" {
                label { "Token" input name="token" type="password" required autocomplete="current-password" autofocus; }
                button { "Show me the mails" }
            }
        }
    };
    layout(&site.title, "For the owner", &main)
}

/// The failed mails, to be sent again or discarded, and what has become of the newest thank-you mails.
pub(crate) fn owner(
    site: &Site,
    counts: &Counts,
    mails: &[GivenUp],
    next: Option<i64>,
    thanks: &[ThankYou],
) -> Page {
    let waiting = counts.queued + counts.sending;
    let main = html! {
        h1 { "Mails that failed" }
        p.soft { (counts.failed) " failed, " (waiting) " on their way, " (counts.sent) " sent lately." }
        @if mails.is_empty() {
            section.card { p { "Nothing has failed. There is nothing to do." } }
        } @else {
            div.acts.all {
                form method="post" action="/owner/redrive" { button { "Send all again" } }
                form method="post" action="/owner/discard" { button.plain { "Discard all" } }
            }
            ol.failed { @for mail in mails { (failed(mail)) } }
            @if let Some(next) = next { p { a.older href={ "/owner?before=" (next) } { "Older mails" } } }
        }
        @if !thanks.is_empty() {
            section.card.thanks aria-labelledby="thanks" {
                h2 #thanks { "Thank-you mails" }
                ol { @for thanks in thanks { (thanked(thanks)) } }
            }
        }
        form.leave method="post" action="/owner/leave" { button.plain { "Leave" } }
    };
    layout(
        &site.title,
        &format!("Mails that failed – {}", site.title),
        &main,
    )
}

fn failed(GivenUp { mail, about }: &GivenUp) -> Markup {
    html! {
        li.card {
            h2 {
                @match about {
                    Some((_, line)) => (line),
                    None => "The recipient has unsubscribed",
                }
            }
            p.soft {
                @if let Some((to, _)) = about { "To " (to) ", " }
                (date(mail.updated_at)) ", " (mail.attempts) " " (if mail.attempts == 1 { "attempt" } else { "attempts" })
            }
            @if let Some(error) = &mail.last_error { p.note.bad { (error) } }
            div.acts {
                form method="post" action={ "/owner/mails/" (mail.id) "/redrive" } { button { "Send again" } }
                form method="post" action={ "/owner/mails/" (mail.id) "/discard" } { button.plain { "Discard" } }
            }
        }
    }
}

fn thanked(thanks: &ThankYou) -> Markup {
    let state = match thanks.state {
        ThanksState::Waiting => "on its way since",
        ThanksState::Sent => "sent",
        ThanksState::Failed => "failed",
    };
    html! {
        li {
            b { (thanks.name) } " "
            span.soft { (thanks.email) ": " (state) " " (date(thanks.since)) }
        }
    }
}

/// Asks for confirmation of an unsubscription: link checkers of mail programs must not perform it.
pub(crate) fn unsubscribe(site: &Site, post: &Post, token: &str) -> Page {
    let main = html! {
        section.card.alone {
            h1 { "No more mails?" }
            p { "You will not be told about new comments on “" (post.title) "” any more." }
            form method="post" action={ "/unsubscribe?token=" (token) } { button { "Unsubscribe" } }
        }
    };
    layout(&site.title, "Unsubscribe", &main)
}

/// A subscription has ended.
pub(crate) fn unsubscribed(site: &Site, post: &Post) -> Page {
    let main = html! {
        section.card.alone {
            h1 { "Unsubscribed" }
            p { "You will not be told about new comments on “" (post.title) "” any more, unless you comment on it again." }
            p { a href={ "/posts/" (post.slug) } { "Back to the post" } }
        }
    };
    layout(&site.title, "Unsubscribed", &main)
}

/// Something went wrong.
pub(crate) fn trouble(message: &str) -> Page {
    let main = html! {
        section.card.alone {
            h1 { "That did not work" }
            p { (message) }
            p { a href="/" { "To the first page" } }
        }
    };
    layout("Blog", "That did not work", &main)
}

fn layout(site: &str, title: &str, main: &Markup) -> Page {
    Page(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                div.page {
                    header.bar { a href="/" { (PreEscaped(MARK)) (site) } }
                    main { (main) }
                }
            }
        }
    })
}

fn said(comment: &Comment) -> Markup {
    let initial: String = comment
        .name
        .chars()
        .take(1)
        .flat_map(char::to_uppercase)
        .collect();
    // The same person always has the same color, and similar names have different ones.
    let hue = comment
        .name
        .bytes()
        .fold(0_u32, |hue, byte| (hue + u32::from(byte)) * 137 % 360);
    html! {
        li #{ "comment-" (comment.id) } {
            span.face aria-hidden="true" style={ "--hue:" (hue) } { (initial) }
            div.said {
                p.by { b { (comment.name) } " " (date(comment.at)) }
                @for paragraph in paragraphs(&comment.text) { p { (paragraph) } }
            }
        }
    }
}

fn comments(count: i64) -> String {
    match count {
        0 => "No comments yet".to_owned(),
        1 => "1 comment".to_owned(),
        many => format!("{many} comments"),
    }
}

fn date(at: i64) -> Markup {
    let Ok(at) = Timestamp::from_millisecond(at) else {
        return html! {};
    };
    html! { time datetime=(at) { (at.strftime("%-d %B %Y, %H:%M")) " UTC" } }
}

fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n")
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

fn teaser(text: &str) -> &str {
    paragraphs(text).next().unwrap_or_default()
}
