//! Metrics and logs of outboxes.

use std::{
    fmt::{Debug, Write as _},
    sync::{Mutex, Once},
    time::Duration,
};

use abide::outbox::{Breaker, Failure, OutboxOptions, Registry, Status};
use abide::{ClassOptions, Host, server::RunningHost};
use abide_harness::{Client, Version, until};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::outbox::support::{
    Act, Script, Scripted, Sender, World, gone, note, plain, refused, run,
};

/// Warnings that were logged in this process.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        WARNINGS.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

/// Warnings that name all of this.
fn warnings(words: &[&str]) -> usize {
    let warnings = WARNINGS.lock().unwrap();
    let named = warnings
        .iter()
        .filter(|line| words.iter().all(|word| line.contains(word)));
    named.count()
}

fn hear_the_log() {
    static HEARD: Once = Once::new();
    HEARD.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
}

#[test]
fn a_message_that_dies_and_a_circuit_that_opens_are_warnings() {
    hear_the_log();
    run(async {
        let world = World::new(plain().breaker(Breaker::default().failures(2)));
        world.script.say("dies", [gone()]);
        world.enqueue(note("warned 1", "dies")).await;
        world.script.say("late", vec![refused(); 2]);
        world.enqueue(note("warned 2", "late")).await;
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(warnings(&["dead letter", "warned 1", "gone"]), 1);
        assert_eq!(warnings(&["circuit opens", "warned 2", "busy"]), 1);
    });
}

#[test]
fn many_messages_that_die_together_are_few_warnings() {
    hear_the_log();
    run(async {
        let world = World::new(plain());
        let deadline = world.now() + 20_000;
        let late = world.now() + 10_000;
        for number in 0..150 {
            let message = note("warned 3", &format!("n{number}"))
                .not_before(late)
                .deadline(deadline);
            world.enqueue(message).await;
        }
        world.clock.advance(Duration::from_mins(1));
        world.until_counts(|counts| counts.failed == 150).await;
        world.pass(Duration::from_secs(2)).await;
        let lines = warnings(&["dead letter", "warned 3"]);
        assert!((1..=10).contains(&lines), "{lines} lines");
        assert!(warnings(&["more=140"]) == 1, "how many more there are");
    });
}

/// A host whose outboxes are of its own class, and whose handler is scripted.
struct Shown {
    host: RunningHost,
    script: Script,
    admin: Client,
    class: &'static str,
}

impl Shown {
    async fn new(class: &'static str, options: OutboxOptions) -> Self {
        let script = Script::default();
        let of_class = ClassOptions::default()
            .binding(class.to_owned())
            .unique_key(class.to_owned());
        let host = Host::open_in_memory()
            .object_with::<Sender>(of_class)
            .with(Registry::new().with(Scripted::new(&script)))
            .with(crate::outbox::support::settings(options))
            .start()
            .await
            .unwrap();
        let admin = Client::new(&host.admin_addr().unwrap().to_string(), Version::Http1);
        Self {
            host,
            script,
            admin,
            class,
        }
    }

    fn sender(&self, name: &str) -> abide::Stub<Sender> {
        let sender = self.host.env().namespace::<Sender>(self.class);
        sender.unwrap().get_by_name(name)
    }

    /// The value of a metric of the class, with more labels.
    async fn value(&self, name: &str, labels: &str) -> Option<f64> {
        let metrics = self.admin.get("/metrics").await.body;
        let start = format!("{name}{{class=\"{}\"{labels}}} ", self.class);
        let mut lines = metrics.as_str().unwrap().lines();
        let value = lines.find_map(|line| line.strip_prefix(start.as_str()))?;
        value.parse().ok()
    }

    async fn until(&self, name: &str, labels: &str, wanted: f64) {
        until(name, async || {
            let value = self.value(name, labels).await;
            (value == Some(wanted)).then_some(())
        })
        .await;
    }
}

#[test]
fn a_node_shows_what_its_outboxes_hold_and_do() {
    run(async {
        let shown = Shown::new("SHOWN", plain().breaker(Breaker::default().failures(1))).await;
        let script = &shown.script;
        script.say("dies", [gone()]);
        script.say("hangs", [Act::Hang]);
        script.say("waits", [refused()]);
        let throttled = Failure::throttled("429", Some(Duration::from_millis(100)));
        script.say("throttled", [Act::Submit(Err(throttled))]);
        for (to, text) in [
            ("a", "well"),
            ("a", "throttled"),
            ("b", "dies"),
            ("c", "hangs"),
            ("d", "waits"),
        ] {
            let ada = shown.sender("ada");
            ada.enqueue(note(to, text)).await.unwrap();
        }
        let messages = "abide_outbox_messages_total";
        let of = |to: &str, event: &str| format!(",destination=\"{to}\",event=\"{event}\"");
        shown.until(messages, &of("a", "throttled"), 1.0).await;
        shown.until(messages, &of("a", "sent"), 2.0).await;
        shown.until(messages, &of("b", "dead"), 1.0).await;
        shown.until(messages, &of("d", "retried"), 1.0).await;
        let opened = "abide_outbox_circuits_opened_total";
        shown.until(opened, ",destination=\"d\"", 1.0).await;
        let open = "abide_outbox_open_circuits";
        shown.until(open, ",destination=\"d\"", 1.0).await;
        // It waits for the circuit.
        let behind = shown.sender("ada").enqueue(note("d", "behind"));
        behind.await.unwrap();
        let in_flight = "abide_outbox_in_flight";
        shown.until(in_flight, ",destination=\"c\"", 1.0).await;
        shown.until("abide_outbox_queued", "", 2.0).await;
        let waiting = "abide_outbox_waiting";
        shown.until(waiting, ",destination=\"d\"", 2.0).await;
        shown.until("abide_outbox_sending", "", 1.0).await;
        shown.until("abide_outbox_dead_letters", "", 1.0).await;
        shown.until("abide_outbox_failing", "", 0.0).await;
        let oldest = "abide_outbox_oldest_message_timestamp_seconds";
        let oldest = shown.value(oldest, "").await.unwrap();
        let hangs = shown.sender("ada").get(4).await.unwrap().unwrap();
        assert!(
            (oldest - hangs.created_at as f64 / 1e3).abs() < 0.002,
            "{oldest}"
        );
        shown.host.shutdown().await.unwrap();
    });
}

#[test]
fn a_backlog_is_shown_by_destination_up_to_a_bound() {
    run(async {
        let shown = Shown::new("BACKLOG", plain()).await;
        let ada = shown.sender("ada");
        let throttled = Failure::throttled("429", Some(Duration::from_hours(1)));
        let acts = vec![Act::Submit(Err(throttled)); 40];
        shown.script.say("many", acts);
        let many = vec![note("a", "many"); 1_200];
        ada.enqueue_all(many).await.unwrap();
        let later = note("b", "later").not_before(i64::MAX / 1_000_000);
        let behind = note("b", "behind").ordering_key("one");
        let first = behind.clone().not_before(i64::MAX / 1_000_000);
        ada.enqueue_all(vec![later, first, behind]).await.unwrap();
        let waiting = "abide_outbox_waiting";
        shown.until(waiting, ",destination=\"a\"", 1_000.0).await;
        shown.until(waiting, ",destination=\"b\"", 2.0).await;
        shown.host.shutdown().await.unwrap();
    });
}

#[test]
fn what_could_not_be_written_is_not_counted() {
    run(async {
        let shown = Shown::new("UNDONE", plain()).await;
        let ada = shown.sender("ada");
        ada.refuse_to_end(1, true).await.unwrap();
        ada.enqueue(note("a", "hello")).await.unwrap();
        // It is tried to be written each second.
        while shown.script.calls().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        let messages = "abide_outbox_messages_total";
        let sent = ",destination=\"a\",event=\"sent\"";
        assert_eq!(shown.value(messages, sent).await, None);
        ada.refuse_to_end(1, false).await.unwrap();
        shown.until(messages, sent, 1.0).await;
        let record = ada.get(1).await.unwrap().unwrap();
        assert_eq!(record.status, Status::Sent);
        shown.host.shutdown().await.unwrap();
    });
}
