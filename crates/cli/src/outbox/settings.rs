//! `[outbox]`: the kinds of messages that the ready-made outboxes deliver, and how.

use std::time::Duration;

use abide::server::setting::{Section, Setting, count, duration, duration_or_off, switch};
use abide::{
    outbox::handlers::{
        AcsDelivery, CallDelivery, HttpDelivery, Secret, SmtpDelivery, StaticSecrets,
        WebhookDelivery,
    },
    outbox::{
        BehindDeadLetter, GiveUp, Limit, OutboxOptions, Pace, Rate, Registry, RetryPolicy, limits,
    },
};

const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_hours(24);

/// Maximum number of attempts per second.
const MAX_RATE: usize = 100_000;

/// The settings, with the handlers that they name.
pub(crate) struct Settings {
    http: bool,
    call: bool,
    webhook_secrets: Option<StaticSecrets>,
    smtp: Option<SmtpDelivery>,
    acs: Option<AcsDelivery>,
    all: Flow,
    destination: Flow,
    tick: Option<Duration>,
    tick_sends: usize,
    tick_polls: usize,
    retry_base: Duration,
    retry_max: Duration,
    max_attempts: usize,
    timeout: Duration,
    keep_finished: Duration,
    max_queued: usize,
    give_up: GiveUp,
    behind_dead_letter: BehindDeadLetter,
}

/// The limits on attempts: rate and concurrency.
#[derive(Clone, Copy)]
struct Flow {
    rate: usize,
    concurrency: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let options = OutboxOptions::default();
        Self {
            http: true,
            call: false,
            webhook_secrets: None,
            smtp: None,
            acs: None,
            all: Flow {
                rate: 1_000,
                concurrency: 64,
            },
            destination: Flow {
                rate: 100,
                concurrency: 16,
            },
            tick: None,
            tick_sends: 15,
            tick_polls: 20,
            retry_base: Duration::from_secs(2),
            retry_max: Duration::from_hours(1),
            max_attempts: 12,
            timeout: options.timeout,
            keep_finished: options.keep_finished,
            max_queued: 1_000_000,
            give_up: options.give_up,
            behind_dead_letter: options.behind_dead_letter,
        }
    }
}

impl Section for Settings {
    const SETTINGS: &'static [Setting<Self>] = &[
        Setting {
            key: "outbox.http",
            set: |s, v| put(&mut s.http, switch(v)),
        },
        Setting {
            key: "outbox.call",
            set: |s, v| put(&mut s.call, switch(v)),
        },
        Setting {
            key: "outbox.webhook_secrets",
            set: |s, v| put(&mut s.webhook_secrets, secrets(v)),
        },
        Setting {
            key: "outbox.smtp",
            set: |s, v| put(&mut s.smtp, smtp(v)),
        },
        Setting {
            key: "outbox.acs",
            set: |s, v| put(&mut s.acs, acs(v)),
        },
        Setting {
            key: "outbox.rate",
            set: |s, v| put(&mut s.all.rate, count(v, 1..=MAX_RATE)),
        },
        Setting {
            key: "outbox.concurrency",
            set: |s, v| put(&mut s.all.concurrency, concurrency(v)),
        },
        Setting {
            key: "outbox.destination_rate",
            set: |s, v| put(&mut s.destination.rate, count(v, 1..=MAX_RATE)),
        },
        Setting {
            key: "outbox.destination_concurrency",
            set: |s, v| put(&mut s.destination.concurrency, concurrency(v)),
        },
        Setting {
            key: "outbox.tick",
            set: |s, v| put(&mut s.tick, duration_or_off(v, SHORTEST..=LONGEST)),
        },
        Setting {
            key: "outbox.tick_sends",
            set: |s, v| put(&mut s.tick_sends, concurrency(v)),
        },
        Setting {
            key: "outbox.tick_polls",
            set: |s, v| put(&mut s.tick_polls, concurrency(v)),
        },
        Setting {
            key: "outbox.retry_base",
            set: |s, v| put(&mut s.retry_base, duration(v, SHORTEST..=LONGEST)),
        },
        Setting {
            key: "outbox.retry_max",
            set: |s, v| put(&mut s.retry_max, duration(v, SHORTEST..=LONGEST)),
        },
        Setting {
            key: "outbox.max_attempts",
            set: |s, v| put(&mut s.max_attempts, count(v, 1..=1_000)),
        },
        Setting {
            key: "outbox.timeout",
            set: |s, v| put(&mut s.timeout, duration(v, SHORTEST..=limits::MAX_TIMEOUT)),
        },
        Setting {
            key: "outbox.keep_finished",
            set: |s, v| put(&mut s.keep_finished, duration(v, SHORTEST..=LONGEST * 365)),
        },
        Setting {
            key: "outbox.max_queued",
            set: |s, v| put(&mut s.max_queued, count(v, 1..=1_000_000_000)),
        },
        Setting {
            key: "outbox.give_up",
            set: |s, v| put(&mut s.give_up, give_up(v)),
        },
        Setting {
            key: "outbox.behind_dead_letter",
            set: |s, v| put(&mut s.behind_dead_letter, behind(v)),
        },
    ];

    const SECRETS: &'static [&'static str] =
        &["outbox.webhook_secrets", "outbox.smtp", "outbox.acs"];

    fn check(&self) -> Result<(), String> {
        if self.smtp.is_some() && self.acs.is_some() {
            return Err(
                "`outbox.smtp` and `outbox.acs` are both set; remove one of them".to_owned(),
            );
        }
        Ok(())
    }
}

impl Settings {
    /// The delivery options of all outboxes.
    pub(crate) fn options(&self) -> OutboxOptions {
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let limit = |flow: Flow| Limit {
            rate: Some(Rate::per_second(number(flow.rate), number(flow.rate))),
            concurrency: number(flow.concurrency),
        };
        OutboxOptions::default()
            .pace(match self.tick {
                Some(every) => Pace::Ticks {
                    every,
                    sends: number(self.tick_sends),
                    polls: number(self.tick_polls),
                },
                None => Pace::AtOnce {
                    outbox: limit(self.all),
                    destination: limit(self.destination),
                },
            })
            .retry(RetryPolicy::Exponential {
                base: self.retry_base,
                max: self.retry_max,
                max_attempts: number(self.max_attempts),
            })
            .timeout(self.timeout)
            .keep_finished(self.keep_finished)
            .max_queued(i64::try_from(self.max_queued).unwrap_or(i64::MAX))
            .give_up(self.give_up)
            .behind_dead_letter(self.behind_dead_letter)
    }

    /// The handlers for messages of each kind.
    pub(crate) fn registry(self) -> Registry {
        let mut registry = Registry::new();
        if self.http {
            registry = registry.with(HttpDelivery::new());
        }
        if self.call {
            registry = registry.with(CallDelivery);
        }
        if let Some(secrets) = self.webhook_secrets {
            registry = registry.with(WebhookDelivery::new(secrets));
        }
        if let Some(smtp) = self.smtp {
            registry = registry.with(smtp);
        }
        if let Some(acs) = self.acs {
            registry = registry.with(acs);
        }
        // Only clients enqueue here.
        let kinds: Vec<String> = registry.kinds().map(str::to_owned).collect();
        kinds.into_iter().fold(registry, Registry::open_to_clients)
    }
}

fn put<T>(target: &mut T, value: Result<T, String>) -> Result<(), String> {
    *target = value?;
    Ok(())
}

fn concurrency(text: &str) -> Result<usize, String> {
    count(text, 1..=limits::MAX_CONCURRENCY as usize)
}

fn give_up(text: &str) -> Result<GiveUp, String> {
    match text {
        "dead-letter" => Ok(GiveUp::DeadLetter),
        "never" => Ok(GiveUp::Never),
        _ => Err("\"dead-letter\" or \"never\"".to_owned()),
    }
}

fn behind(text: &str) -> Result<BehindDeadLetter, String> {
    match text {
        "wait" => Ok(BehindDeadLetter::Wait),
        "go-on" => Ok(BehindDeadLetter::GoOn),
        _ => Err("\"wait\" or \"go-on\"".to_owned()),
    }
}

fn smtp(text: &str) -> Result<Option<SmtpDelivery>, String> {
    unless_off(text, |url| {
        SmtpDelivery::new(url).map_err(|_| {
            "\"off\", or the URL of a relay, such as \"smtps://USER:PASSWORD@HOST\" or \
             \"smtp://HOST:587?tls=required\" (user and password require TLS, except on this machine)"
                .to_owned()
        })
    })
}

fn acs(text: &str) -> Result<Option<AcsDelivery>, String> {
    unless_off(text, |connection| {
        AcsDelivery::from_connection_string(connection).map_err(|_| {
            "\"off\", or the connection string of an Azure Communication Services resource, \
             \"endpoint=https://…;accesskey=…\""
                .to_owned()
        })
    })
}

/// Endpoints and their secrets, at least one: `URL=whsec_NEW,whsec_OLD URL=whsec_…`.
fn secrets(text: &str) -> Result<Option<StaticSecrets>, String> {
    unless_off(text, |text| {
        let endpoints: Option<Vec<_>> = text.split_whitespace().map(endpoint).collect();
        match endpoints {
            Some(endpoints) if !endpoints.is_empty() => Ok(endpoints
                .into_iter()
                .fold(StaticSecrets::new(), |all, (url, secrets)| {
                    all.with(url, secrets)
                })),
            _ => Err(
                "\"off\", or endpoints with their secrets, the newest first, such as \
                 \"https://a.example/hooks=whsec_NEW,whsec_OLD https://b.example/hooks=whsec_…\"; \
                 a secret is whsec_ and 24 to 64 bytes in base64"
                    .to_owned(),
            ),
        }
    })
}

/// One endpoint.
fn endpoint(text: &str) -> Option<(&str, Vec<Secret>)> {
    let (url, first) = text.split_once("=whsec_")?;
    let secrets: Option<Vec<Secret>> = format!("whsec_{first}")
        .split(',')
        .map(|secret| secret.parse().ok())
        .collect();
    let is_url = url.starts_with("https://") || url.starts_with("http://");
    secrets.filter(|_| is_url).map(|secrets| (url, secrets))
}

fn unless_off<T>(
    text: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    if text == "off" {
        Ok(None)
    } else {
        read(text).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use abide::server::{Config, Sources};

    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/configuration.md");

    fn read(settings: &[(&str, &str)]) -> Result<Settings, String> {
        let mut read = Settings::default();
        for (key, text) in settings {
            let setting = Settings::SETTINGS
                .iter()
                .find(|setting| setting.key == *key)
                .unwrap();
            (setting.set)(&mut read, text)?;
        }
        read.check()?;
        Ok(read)
    }

    fn kinds(settings: Settings) -> Vec<String> {
        settings.registry().kinds().map(str::to_owned).collect()
    }

    fn from_file(path: &Path) -> (Config, Settings) {
        let sources = Sources {
            file: Some(path.to_owned()),
            ..Sources::default()
        };
        Config::load_with(&sources).unwrap()
    }

    #[test]
    fn without_settings_requests_are_delivered_as_the_library_does() {
        assert_eq!(Settings::default().options(), OutboxOptions::default());
        assert_eq!(kinds(Settings::default()), ["http"]);
    }

    #[test]
    fn the_classic_pace_is_a_tick() {
        assert_eq!(
            read(&[("outbox.tick", "10s")]).unwrap().options().pace,
            Pace::CLASSIC
        );
    }

    #[test]
    fn what_is_set_up_is_a_kind() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let all = read(&[
            ("outbox.call", "true"),
            ("outbox.smtp", "smtp://127.0.0.1:2525"),
            (
                "outbox.webhook_secrets",
                &format!("https://a.example/?b=c={secret},{secret} http://b.example={secret}"),
            ),
        ]);
        assert_eq!(kinds(all.unwrap()), ["call", "email", "http", "webhook"]);
        let azure = "endpoint=https://a.example;accesskey=c2VjcmV0";
        let mails = read(&[("outbox.http", "false"), ("outbox.acs", azure)]);
        assert_eq!(kinds(mails.unwrap()), ["email"]);
        let both = read(&[("outbox.smtp", "smtp://127.0.0.1"), ("outbox.acs", azure)]);
        assert!(both.is_err_and(|told| told.contains("remove one")));
    }

    #[test]
    fn no_message_shows_a_secret_whatever_is_wrong_with_it() {
        for key in Settings::SECRETS {
            for secret in [
                "smtp://ada:hunter2@",
                "smtp://ada:hunter2@[::1:25",
                "https://a.example=hunter2",
                "endpoint=https://a.example;accesskey=hunter2",
                "endpoint=hunter2;accesskey=c2VjcmV0",
                "hunter2",
            ] {
                let Err(told) = read(&[(key, secret)]) else {
                    continue;
                };
                assert!(!told.contains("hunter2"), "{key}: {told}");
            }
        }
    }

    #[test]
    fn what_is_no_setting_is_refused_and_told_what_would_do() {
        for (key, text, told) in [
            ("outbox.smtp", "relay", "the URL of a relay"),
            ("outbox.acs", "https://a.example", "connection string"),
            (
                "outbox.webhook_secrets",
                "https://a.example=secret",
                "whsec_NEW",
            ),
            (
                "outbox.webhook_secrets",
                "a.example=whsec_AAAA",
                "whsec_NEW",
            ),
            ("outbox.rate", "0", "from 1 to"),
            ("outbox.concurrency", "1025", "from 1 to 1024"),
            ("outbox.timeout", "1h", "to 5m"),
            ("outbox.behind_dead_letter", "stop", "\"go-on\""),
        ] {
            let refused = read(&[(key, text)]).map(drop).unwrap_err();
            assert!(refused.contains(told), "{key}: {refused}");
        }
    }

    #[test]
    fn a_list_that_is_no_text_is_not_taken_for_no_endpoints() {
        assert!(read(&[("outbox.webhook_secrets", "")]).is_err());
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abide.toml");
        let text = format!("[outbox]\nwebhook_secrets = [\"https://a.example={secret}\"]\n");
        std::fs::write(&path, text).unwrap();
        let sources = Sources {
            file: Some(path),
            ..Sources::default()
        };
        assert!(Config::load_with::<Settings>(&sources).is_err());
    }

    #[test]
    fn every_setting_is_in_the_manual_and_the_example_has_the_defaults() {
        for setting in Settings::SETTINGS {
            let variable = setting.key.replace('.', "__").to_ascii_uppercase();
            assert!(
                MANUAL.contains(&format!("| `{}` | `ABIDE__{variable}` |", setting.key)),
                "{} is not in the manual",
                setting.key
            );
        }
        let (_, rest) = MANUAL.split_once("```toml\n[outbox]\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abide.toml");
        std::fs::write(&path, format!("[outbox]\n{example}")).unwrap();
        let (_, settings) = from_file(&path);
        assert_eq!(settings.options(), OutboxOptions::default());
        assert_eq!(kinds(settings), ["http"]);
        assert_eq!(example.lines().count(), Settings::SETTINGS.len());
    }
}
