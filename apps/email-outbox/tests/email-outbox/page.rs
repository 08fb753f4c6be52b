//! The pages in a real browser, which is told of every change and never asks.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support;
use std::path::Path;

use crate::support::{double, enqueue, program};
use abide_harness::{AcsCourse, AcsEnd, AcsOptions, AcsSend, AcsServer, Browser, Page, axe, until};

async fn live(page: &Page) {
    page.until("document.querySelector('abide-live')?.dataset.state === 'open'")
        .await;
    // A page that is loaded anew forgets this.
    page.eval("window.same = true").await;
}

async fn compose(page: &Page, to: &str, subject: &str) {
    page.click(".top a.do").await;
    page.until("document.querySelector('form.letter [name=to]')")
        .await;
    page.fill("form.letter [name=to]", to).await;
    page.fill("form.letter [name=subject]", subject).await;
    page.fill("form.letter [name=text]", "Dear reader,\n\nall is well.")
        .await;
    page.click("form.letter .do").await;
}

/// Waits until the row of a mail shows this word.
async fn shows(page: &Page, subject: &str, word: &str) {
    let (subject, word) = (json(subject), json(word));
    page.until(&format!(
        "[...document.querySelectorAll('.mails tbody tr')].some(row => \
         row.querySelector('.what a').textContent === {subject} && row.querySelector('.pill').textContent === {word})"
    ))
    .await;
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

async fn picture(page: &Page, name: &str) {
    if let Ok(pictures) = std::env::var("ABIDE_SCREENSHOTS") {
        page.screenshot(&Path::new(&pictures).join(format!("email-outbox-{name}.png")))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn an_open_page_shows_a_mail_go_from_queued_to_sent() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    // It is told to wait first, then taken, and long at work.
    double.script_sends([AcsSend::Refuse(429, Some(2))]);
    double.script_courses([AcsCourse {
        running: 2,
        end: AcsEnd::Succeeded,
    }]);
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    axe(&page, "email-outbox-empty").await;
    page.go(&client.url("/mails/99")).await;
    axe(&page, "email-outbox-error").await;
    page.go(&client.url("/compose")).await;
    axe(&page, "email-outbox-compose").await;
    page.go(&client.url("/")).await;
    compose(&page, "ada@example.com", "Your seat").await;
    live(&page).await;
    // Being told to wait is no failed attempt.
    shows(&page, "Your seat", "queued").await;
    picture(&page, "throttled").await;
    shows(&page, "Your seat", "accepted").await;
    picture(&page, "accepted").await;
    shows(&page, "Your seat", "sent").await;
    page.until("document.querySelector('.tabs [data-tab=sent] b').textContent === '1'")
        .await;
    assert_eq!(page.eval("window.same").await, true, "it was not reloaded");

    page.click(".mails .what a").await;
    page.until("document.querySelector('.history [data-event=sent]')")
        .await;
    axe(&page, "email-outbox-mail").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn an_open_page_redrives_a_failed_mail_of_a_hibernated_object() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let reason = "The recipient is on the suppression list.";
    double.script_courses([AcsCourse {
        running: 1,
        end: AcsEnd::Failed {
            code: "EmailDroppedAllRecipientsSuppressed".to_owned(),
            message: reason.to_owned(),
        },
    }]);
    let server = program(&dir.path().join("data"), &double)
        .env("ABIDE__OBJECTS__IDLE_TIMEOUT", "200ms")
        .start();
    let (client, admin) = (server.client(), server.admin_client());
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/failed")).await;
    live(&page).await;
    enqueue(&client, "grace@example.com", "Your invoice").await;
    shows(&page, "Your invoice", "failed").await;
    let shown = page
        .eval("document.querySelector('.mails .error').textContent")
        .await;
    assert!(shown.as_str().unwrap().contains(reason), "{shown}");
    axe(&page, "email-outbox-failed").await;
    let id = page
        .eval("document.querySelector('.mails .what a').getAttribute('href')")
        .await;
    let edit = format!("{}/edit", id.as_str().unwrap());
    let editor = browser.open(&client.url(&edit)).await;
    editor.until("document.querySelector('form.letter')").await;
    axe(&editor, "email-outbox-edit").await;

    until("the object to leave memory", async || {
        (admin.metric("abide_objects_resident").await == 0).then_some(())
    })
    .await;
    assert_eq!(
        page.eval("document.querySelector('abide-live')?.dataset.state")
            .await,
        "open",
        "the line stays open while the object sleeps"
    );
    // Another page redrives it: this one is told.
    let other = browser.open(&client.url("/failed")).await;
    live(&other).await;
    other.click(".mails .actions .do").await;
    shows(&page, "Your invoice", "sent").await;
    assert_eq!(page.eval("window.same").await, true, "it was not reloaded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_page_catches_up_when_the_server_was_away() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let double = double().await;
    let server = program(&data, &double).start();
    let (address, client) = (server.address().to_owned(), server.client());
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    live(&page).await;
    server.kill();
    page.until("document.querySelector('abide-live')?.dataset.state === 'waiting'")
        .await;
    let server = program(&data, &double).listen(&address).start();
    // Before the page is back.
    enqueue(&server.client(), "ada@example.com", "Meanwhile").await;
    shows(&page, "Meanwhile", "sent").await;
    assert_eq!(page.eval("window.same").await, true, "it was not reloaded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_refresh_that_meets_no_server_leaves_the_page_and_is_made_again() {
    const REFRESH: &str =
        "Turbo.renderStreamMessage('<turbo-stream action=\"refresh\"></turbo-stream>')";
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let double = double().await;
    let server = program(&data, &double).start();
    let (address, client) = (server.address().to_owned(), server.client());
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    live(&page).await;
    page.until("!Turbo.navigator.currentVisit").await;
    server.kill();
    page.until("document.querySelector('abide-live')?.dataset.state === 'waiting'")
        .await;
    page.eval(&format!(
        "addEventListener('turbo:fetch-request-error', () => window.refused = true); {REFRESH}"
    ))
    .await;
    page.until("window.refused && !Turbo.navigator.currentVisit")
        .await;
    let server = program(&data, &double).listen(&address).start();
    enqueue(&server.client(), "ada@example.com", "Meanwhile").await;
    shows(&page, "Meanwhile", "sent").await;
    // A proxy answers for a server that is away, and a refresh is never answered to its end.
    for answer in [
        "Promise.resolve(new Response('<h1>502</h1>', { status: 502, headers: { 'content-type': 'text/html' } }))",
        "Promise.resolve(new Response('busy', { status: 503, headers: { 'content-type': 'text/plain' } }))",
        "Promise.resolve(new Response(new ReadableStream({ start: body => body.error(new TypeError('cut off')) }), \
             { headers: { 'content-type': 'text/html' } }))",
    ] {
        page.until("!Turbo.navigator.currentVisit").await;
        page.eval(&format!(
            "window.refused = false; \
             addEventListener('turbo:before-fetch-request', event => {{ \
                 window.refused = true; \
                 event.detail.fetchRequest = {{ response: {answer} }}; \
             }}, {{ once: true }}); \
             {REFRESH}"
        ))
        .await;
        page.until("window.refused").await;
        let subject = format!("After {}", answer.len());
        enqueue(&server.client(), "ada@example.com", &subject).await;
        shows(&page, &subject, "sent").await;
    }
    page.until("!Turbo.navigator.currentVisit").await;
    assert_eq!(page.eval("window.same").await, true, "it was not reloaded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium and npm"]
async fn a_list_of_recipients_fills_the_page_while_the_service_behaves_badly() {
    let dir = tempfile::tempdir().unwrap();
    let double = AcsServer::start(AcsOptions {
        poll_after: Some(1),
        mischief: abide_harness::AcsMischief::lively(7),
        ..AcsOptions::default()
    })
    .await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    let to: Vec<String> = (1..=300)
        .map(|number| format!("member{number}@example.com"))
        .collect();
    compose(&page, &to.join("\n"), "News of November").await;
    live(&page).await;
    page.until("Number(document.querySelector('.tabs [data-tab=sent] b').textContent) > 20")
        .await;
    axe(&page, "email-outbox-list").await;
    page.until("Number(document.querySelector('.tabs [data-tab=sent] b').textContent) > 60")
        .await;
    let rows = page
        .eval("document.querySelectorAll('.mails tbody tr').length")
        .await;
    assert_eq!(rows, 50, "a page is a page");
    page.go(&client.url("/failed")).await;
    live(&page).await;
    axe(&page, "email-outbox-failures").await;
    assert_eq!(page.eval("window.same").await, true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn what_is_told_while_a_page_refreshes_is_not_undone_by_the_older_answer() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    live(&page).await;
    // A slow line: the answer to a refresh, which each new connection causes, is shown later than it was made.
    hold_next_refresh(&page).await;
    enqueue(&client, "ada@example.com", "Told meanwhile").await;
    shows(&page, "Told meanwhile", "sent").await;
    page.eval("window.go()").await;
    page.until("window.rendered").await;
    shows(&page, "Told meanwhile", "sent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_change_while_the_page_of_a_mail_refreshes_is_shown_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    double.script_courses([AcsCourse {
        running: 3,
        end: AcsEnd::Succeeded,
    }]);
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let id = enqueue(&client, "ada@example.com", "Your seat").await;
    until("the mail to be accepted", async || {
        let mail = support::show(&client, id).await;
        mail["record"]["operation"].is_string().then_some(())
    })
    .await;
    let browser = Browser::start().await;
    let page = browser.open(&client.url(&format!("/mails/{id}"))).await;
    live(&page).await;
    hold_next_refresh(&page).await;
    support::becomes(&client, id, "sent").await;
    // Longer than Turbo waits for more refreshes.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    page.eval("window.go()").await;
    page.until("document.querySelector('.history [data-event=sent]')")
        .await;
}

/// Lets the page refresh, and keeps the answer until `window.go()`.
async fn hold_next_refresh(page: &Page) {
    // The refresh of the connection itself comes first.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    page.until("!Turbo.navigator.currentVisit").await;
    page.eval(
        "addEventListener('turbo:before-render', event => { \
             event.preventDefault(); \
             window.go = () => { \
                 addEventListener('turbo:render', () => window.rendered = true, { once: true }); \
                 event.detail.resume(); \
             }; \
         }, { once: true }); \
         Turbo.renderStreamMessage('<turbo-stream action=\"refresh\"></turbo-stream>')",
    )
    .await;
    page.until("window.go").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_line_keeps_unannounced_changes_when_it_moves_to_another_page() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    live(&page).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    // Between two frames something is told, and Turbo carries the element to the next page.
    page.eval("window.frame = requestAnimationFrame; window.requestAnimationFrame = () => { window.asked = true; return 42; }")
        .await;
    enqueue(&client, "ada@example.com", "First").await;
    page.until("window.asked").await;
    page.eval("window.requestAnimationFrame = window.frame")
        .await;
    page.eval(
        "(() => { const it = document.querySelector('abide-live'), place = document.createComment(''); \
             it.replaceWith(place); place.replaceWith(it); })()",
    )
    .await;
    enqueue(&client, "ada@example.com", "Second").await;
    shows(&page, "Second", "sent").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn the_keyboard_focus_stays_when_the_page_changes() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    live(&page).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    page.eval("document.querySelector('.tabs [data-tab=sent]').focus()")
        .await;
    enqueue(&client, "ada@example.com", "News").await;
    shows(&page, "News", "sent").await;
    assert_eq!(
        page.eval("document.activeElement.dataset.tab").await,
        "sent"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_page_of_one_status_follows_its_mails() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/?status=sent")).await;
    live(&page).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    enqueue(&client, "ada@example.com", "News").await;
    page.until("document.querySelector('.tabs [data-tab=sent] b').textContent === '1'")
        .await;
    shows(&page, "News", "sent").await;
}

/// Waits until this tab, and no other, is the current one for those who do not see it.
async fn is_current(page: &Page, tab: &str) {
    page.until(&format!(
        "[...document.querySelectorAll('.tabs [data-tab]')].map(tab => [tab.dataset.tab, tab.getAttribute('aria-current')]) \
         .filter(tab => tab[1]).join() === '{tab},page'"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn the_current_tab_stays_marked_after_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/")).await;
    live(&page).await;
    is_current(&page, "all").await;
    // What is pushed is the same for all pages, and says of no tab that it is the current one.
    enqueue(&client, "ada@example.com", "News").await;
    shows(&page, "News", "sent").await;
    is_current(&page, "all").await;
    page.click(".tabs [data-tab=sent]").await;
    is_current(&page, "sent").await;
    enqueue(&client, "ada@example.com", "More").await;
    shows(&page, "More", "sent").await;
    is_current(&page, "sent").await;
    page.click(".tabs [data-tab=failed]").await;
    is_current(&page, "failed").await;
    assert_eq!(page.eval("window.same").await, true, "it was not reloaded");
}

/// Waits until the page is up to date and Turbo is idle.
async fn rests(page: &Page) {
    live(page).await;
    // The refresh of the connection comes after it.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    page.until("!Turbo.navigator.currentVisit").await;
}

/// Lets the page connect anew, so that it is told to refresh. Calls a function of the page when that has had its effects.
async fn is_told_to_refresh(page: &Page, then: &str) {
    let script = format!(
        "(() => {{ \
             const frames = (count, then) => count ? requestAnimationFrame(() => frames(count - 1, then)) : then(); \
             const plain = WebSocket; \
             window.WebSocket = class extends plain {{ \
                 constructor(url) {{ \
                     super(url); \
                     window.WebSocket = plain; \
                     this.addEventListener('message', () => frames(3, {then}), {{ once: true }}); \
                 }} \
             }}; \
             const it = document.querySelector('abide-live'), place = document.createComment(''); \
             it.replaceWith(place); \
             place.replaceWith(it); \
         }})()"
    );
    page.eval(&script).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_refresh_told_between_two_pages_leaves_the_second_alone() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let browser = Browser::start().await;
    let page = browser.open(&server.client().url("/")).await;
    rests(&page).await;
    page.eval(
        "addEventListener('turbo:before-render', event => { \
             event.preventDefault(); \
             window.next = event.detail.resume; \
         }, { once: true })",
    )
    .await;
    page.click(".top a.do").await;
    page.until("window.next && location.pathname === '/compose'")
        .await;
    is_told_to_refresh(&page, "() => window.next()").await;
    page.fill("form.letter [name=to]", "ada@example.com").await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let typed = page
        .eval("document.querySelector('form.letter [name=to]').value")
        .await;
    assert_eq!(typed, "ada@example.com");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Chromium"]
async fn a_refresh_told_while_a_form_is_sent_does_not_cancel_it() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    double.script_courses([AcsCourse {
        running: 1,
        end: AcsEnd::Failed {
            code: "EmailDroppedAllRecipientsSuppressed".to_owned(),
            message: "The recipient is on the suppression list.".to_owned(),
        },
    }]);
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let browser = Browser::start().await;
    let page = browser.open(&client.url("/failed")).await;
    let id = enqueue(&client, "grace@example.com", "Your invoice").await;
    shows(&page, "Your invoice", "failed").await;
    rests(&page).await;
    // The form is on its way for a second.
    page.eval(
        "addEventListener('turbo:before-fetch-request', event => { \
             event.preventDefault(); \
             window.send = event.detail.resume; \
         }, { once: true })",
    )
    .await;
    page.click(".mails .actions .do").await;
    page.until("window.send").await;
    is_told_to_refresh(&page, "() => setTimeout(window.send, 1000)").await;
    support::becomes(&client, id, "sent").await;
    page.until("!document.querySelector('.mails tbody tr')")
        .await;
    assert_eq!(page.eval("window.same").await, true, "it was not reloaded");
}
