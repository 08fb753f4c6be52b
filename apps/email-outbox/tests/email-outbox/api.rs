//! Mails over HTTP: composed, sent, given up, mended, refused.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use crate::support::{becomes, double, enqueue, program, show};
use abide::server::access::AccessStore;
use abide_harness::{AcsCourse, AcsEnd, AcsSend, Program, SmtpServer, refused, until};
use http::{Method, Request};
use serde_json::{Value, json};

fn events(mail: &Value) -> Vec<String> {
    let history = mail["history"].as_array().unwrap();
    history
        .iter()
        .map(|change| change["event"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_is_accepted_by_the_service_polled_and_sent_once() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let id = enqueue(&client, "ada@example.com", "Hello").await;
    let mail = becomes(&client, id, "sent").await;
    assert_eq!(mail["email"]["to"], json!(["ada@example.com"]));
    assert!(events(&mail).contains(&"accepted".to_owned()), "{mail}");
    let taken = double.mails();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].mail["content"]["subject"], "Hello");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_repeated_under_the_same_key_and_the_row_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    double.script_sends([AcsSend::Lose]);
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let id = enqueue(&client, "ada@example.com", "Hello").await;
    until("the row to say that the answer was lost", async || {
        let mail = show(&client, id).await;
        (mail["record"]["unknown"] == true).then_some(())
    })
    .await;
    let mail = becomes(&client, id, "sent").await;
    assert!(events(&mail).contains(&"unknown".to_owned()), "{mail}");
    assert_eq!(mail["record"]["attempts"], 2);
    let taken = double.mails();
    assert_eq!(taken.len(), 1, "one mail");
    assert_eq!(taken[0].submissions, 1, "the service was asked first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_that_the_service_cannot_deliver_is_mended_and_redriven() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    double.script_sends([AcsSend::Refuse(400, None)]);
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let id = enqueue(&client, "ada@nowhere.invalid", "Hello").await;
    let mail = becomes(&client, id, "failed").await;
    let why = mail["record"]["last_error"].as_str().unwrap();
    assert!(why.contains("400"), "{why}");
    let failed = client.get("/failed").await;
    assert!(
        failed
            .body
            .as_str()
            .unwrap()
            .contains("ada@nowhere.invalid")
    );

    let form = "to=ada@example.com&subject=Hello&text=Hi";
    let edit = format!("/mails/{id}/edit");
    let saved = post_form(&client, &edit, form, &[]).await;
    assert_eq!(saved.status, 303, "{saved:?}");
    let answer = client
        .post(&format!("/api/mails/{id}/redrive"), &Value::Null)
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mail = becomes(&client, id, "sent").await;
    let log = AccessStore::open(&dir.path().join("data")).unwrap();
    let rows = log.audit(None, 10).unwrap();
    let actions: Vec<_> = rows.iter().map(|row| &*row.operation.action).collect();
    assert_eq!(actions, ["redrive", "edit"]);
    let events = events(&mail);
    for event in ["failed", "edited", "redriven", "sent"] {
        assert!(events.contains(&event.to_owned()), "{event}: {events:?}");
    }
    assert_eq!(
        double.mails()[0].mail["recipients"]["to"][0]["address"],
        "ada@example.com"
    );
    let again = client
        .post(&format!("/api/mails/{id}/redrive"), &Value::Null)
        .await;
    assert_eq!((again.status.as_u16(), again.code()), (409, "wrong_status"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_fails_tells_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let end = AcsEnd::Failed {
        code: "EmailDroppedAllRecipientsSuppressed".to_owned(),
        message: "The recipient is on the suppression list.".to_owned(),
    };
    double.script_courses([AcsCourse { running: 1, end }]);
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let id = enqueue(&client, "ada@example.com", "Hello").await;
    let mail = becomes(&client, id, "failed").await;
    let why = mail["record"]["last_error"].as_str().unwrap();
    assert!(why.contains("suppression list"), "{why}");
    let gone = client
        .ask(Method::DELETE, &format!("/api/mails/{id}"), "")
        .await;
    assert_eq!(gone.body["status"], "discarded", "{gone:?}");
    let log = AccessStore::open(&dir.path().join("data")).unwrap();
    let row = log.audit(None, 1).unwrap().remove(0);
    assert_eq!(row.operation.action, "cancel_or_discard");
    assert_eq!(row.operation.detail, Some(format!("message {id}")));
    assert_eq!(row.outcome.as_deref(), Some("200"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_becomes_a_mail_for_each_recipient() {
    let dir = tempfile::tempdir().unwrap();
    let smtp = SmtpServer::start().await;
    let url = format!("smtp://{}", smtp.address());
    let server = Program::new(env!("CARGO_BIN_EXE_email-outbox"), dir.path().join("data"))
        .arg("--smtp")
        .arg(&url)
        .start();
    let client = server.client();
    let to: Vec<String> = (0..1_200)
        .map(|number| format!("member{number}@example.com"))
        .collect();
    let form = format!("to={}&subject=News&text=All+is+well.", to.join("%0D%0A"));
    let answer = post_form(&client, "/mails", &form, &[]).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    until("all mails to be sent", async || {
        let overview = client.get("/api/overview").await.body;
        (overview["counts"]["sent"] == 1_200).then_some(())
    })
    .await;
    let mut got: Vec<String> = smtp
        .received()
        .into_iter()
        .flat_map(|mail| mail.to)
        .collect();
    got.sort();
    let mut to = to;
    to.sort();
    assert_eq!(got, to, "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_composed_with_a_key_is_taken_once() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let post = async |text: &str| {
        let to = ["ada@example.com", "grace@example.com"];
        let draft = json!({ "to": to, "subject": "Hello", "text": text });
        let request = Request::post(client.url("/api/mails"))
            .header("idempotency-key", "order-7")
            .header("content-type", "application/json")
            .body(draft.to_string().into())
            .unwrap();
        client.send(request).await.unwrap()
    };
    let draft = json!({ "to": ["ada@example.com"], "subject": "Hello", "text": "a" });
    let plain = Request::post(client.url("/api/mails"))
        .header("content-type", "text/plain")
        .header("sec-fetch-site", "same-origin");
    let plain = plain.body(draft.to_string().into()).unwrap();
    let plain = client.send(plain).await.unwrap();
    assert_eq!(
        plain.code(),
        "unsupported_media_type",
        "nothing of it counts"
    );
    let first = post("a").await;
    assert_eq!(first.body, json!({ "list": 1 }));
    assert_eq!(post("a").await.body, first.body);
    let other = post("b").await;
    assert_eq!(other.status, 422);
    assert_eq!(other.body["error"]["code"], "idempotency_key_reused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_sent_and_what_other_sites_send_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let form = "to=unknown&subject=%3Cb%3E&text=t";
    let refused = post_form(&client, "/mails", form, &[]).await;
    assert_eq!(refused.status, 422);
    let page = refused.body.as_str().unwrap();
    assert!(
        page.contains("“unknown” is not an e-mail address."),
        "{page}"
    );
    assert!(
        page.contains("value=\"&lt;b&gt;\""),
        "what was typed, escaped"
    );

    let good = "to=ada@example.com&subject=s&text=t";
    let foreign = [("origin", "https://evil.example")];
    let refused = post_form(&client, "/mails", good, &foreign).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (403, "cross_origin")
    );
    let own = format!("http://{}", server.address());
    let taken = post_form(&client, "/mails", good, &[("origin", &own)]).await;
    assert_eq!(taken.status, 303);

    assert_eq!(client.get("/mails/99").await.status, 404);
    assert_eq!(client.get("/mails/x").await.status, 400);
    let missing = client.get("/api/mails/99").await;
    assert_eq!(
        (missing.status.as_u16(), missing.code()),
        (404, "no_such_mail")
    );
    let policy = client.get("/").await;
    let policy = policy.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("script-src 'self';"), "{policy}");
    show(&client, 1).await;
}

async fn post_form(
    client: &abide_harness::Client,
    path: &str,
    form: &str,
    headers: &[(&str, &str)],
) -> abide_harness::Answer {
    let mut request =
        Request::post(client.url(path)).header("content-type", "application/x-www-form-urlencoded");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(form.to_owned().into()).unwrap();
    client.send(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_asks_for_patience_is_left_alone_and_the_page_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    double.script_sends([AcsSend::Refuse(429, Some(600))]);
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let id = enqueue(&client, "ada@example.com", "Hello").await;
    until("the pause", async || {
        let page = client.get("/").await;
        page.body
            .as_str()?
            .contains("asks for patience")
            .then_some(())
    })
    .await;
    let gone = client
        .ask(Method::DELETE, &format!("/api/mails/{id}"), "")
        .await;
    assert_eq!(gone.body["status"], "canceled", "{gone:?}");
    assert_eq!(double.requests().len(), 1, "it was left alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_could_send_nothing_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let double = double().await;
    let (status, said) = refused(
        program(&data, &double)
            .arg("--from")
            .arg("unknown")
            .command(),
    );
    assert!(!status.success());
    assert!(said.contains("--from"), "{said}");
    let nothing = Program::new(env!("CARGO_BIN_EXE_email-outbox"), &data).command();
    let (status, said) = refused(nothing);
    assert!(!status.success());
    assert!(said.contains("--acs <URL>|--smtp <URL>"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_shows_who_gets_the_mail_whatever_its_subject_says() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    for subject in ["How to come to us ".repeat(11), "s".repeat(200)] {
        enqueue(&client, "ada@example.com", subject.trim()).await;
        let page = client.get("/").await;
        let page = page.body.as_str().unwrap();
        let row = page.split("<tr id=").nth(1).unwrap();
        assert!(row.contains(">ada@example.com</span>"), "{row}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_with_a_page_is_told_as_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    for path in ["/nowhere", "/mails/x", "/?before=x", "/failed/redrive"] {
        let answer = client.get(path).await;
        let kind = answer.headers["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/html"), "{path}: {kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_list_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let double = double().await;
    let server = program(&dir.path().join("data"), &double).start();
    let client = server.client();
    let to = ["ada@example.com", "grace@example.com"];
    let draft = json!({ "to": to, "subject": "Hello", "text": "t" });
    let list = client.post("/api/mails", &draft).await.body["list"].clone();
    let lists = async || client.get("/api/overview").await.body["lists"].clone();
    assert_eq!(lists().await[0]["id"], list);
    let ended = post_form(&client, &format!("/lists/{list}/cancel"), "", &[]).await;
    assert_eq!(ended.status, 303, "{ended:?}");
    assert_eq!(lists().await, json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_server_with_its_password_may_come_from_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let smtp = SmtpServer::start().await;
    let server = Program::new(env!("CARGO_BIN_EXE_email-outbox"), dir.path().join("data"))
        .env("EMAIL_OUTBOX_SMTP", &smtp.url())
        .start();
    enqueue(&server.client(), "ada@example.com", "Hello").await;
    assert_eq!(smtp.wait_for(1).await[0].to, ["ada@example.com"]);
}

#[test]
fn the_double_says_which_address_it_cannot_have() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_email-outbox"));
    command.args(["fake-acs", "--listen", &address]);
    let (status, said) = refused(command);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains(&address), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
