//! The built-in handlers against correct and faulty servers.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod acs;
mod aiosmtpd;
mod call;
mod exactly_once;
mod http;
mod smtp;
mod smtp_session;
mod through_an_outbox;
mod webhook;

use std::fmt::Debug;

use abide::outbox::{Delivery, Failure, FailureKind};
use abide::{
    Host,
    server::{AllowPrivate, Config, LocalHost},
};

/// The key of all attempts here.
const KEY: &str = "0123456789abcdef0123456789abcdef_1_1";

/// A node that reaches this machine's own addresses.
async fn host() -> LocalHost {
    host_with(|_| {}).await
}

async fn host_with(change: impl FnOnce(&mut Config)) -> LocalHost {
    Host::open_in_memory()
        .configure(|config| {
            config.outbound.allow_private = AllowPrivate::All;
            change(config);
        })
        .start_local()
        .await
        .unwrap()
}

/// A first attempt.
fn attempt(host: &LocalHost) -> Delivery {
    Delivery::outside(host.env(), "kind", KEY).unwrap()
}

/// The failure of an attempt that means this, with a text that says this.
#[track_caller]
fn failed<T: Debug>(result: Result<T, Failure>, fate: FailureKind, text: &str) -> Failure {
    let failure = result.unwrap_err();
    assert_eq!(failure.kind(), fate, "{failure:?}");
    assert!(failure.message().contains(text), "{failure:?}");
    failure
}
