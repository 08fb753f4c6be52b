//! Limits attempts to guess tokens.
//!
//! After [`limits::MAX_FAILED_LOGINS`] invalid tokens within [`limits::FAILED_LOGIN_WINDOW`], a client is rejected for
//! the rest of that window. At most [`limits::MAX_FAILED_CLIENTS`] clients are tracked; beyond that, the one whose
//! window ends first is dropped. An IPv6 client is its /64 network, since a client usually controls all of its
//! addresses.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{ClientAddr, limits};

#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<HashMap<IpAddr, Failures>>);

#[derive(Debug)]
struct Failures {
    count: u32,
    since: Instant,
}

impl Failures {
    fn remaining(&self, now: Instant) -> Option<Duration> {
        limits::FAILED_LOGIN_WINDOW
            .checked_sub(now.saturating_duration_since(self.since))
            .filter(|rest| !rest.is_zero())
    }
}

impl Throttle {
    /// How long this client has to wait, if it failed too often.
    pub(super) fn wait(&self, client: ClientAddr, now: Instant) -> Option<Duration> {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = failures.get(&client.network())?;
        of.remaining(now)
            .filter(|_| of.count >= limits::MAX_FAILED_LOGINS)
    }

    /// Counts a failure of this client.
    pub(super) fn failed(&self, client: ClientAddr, now: Instant) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let client = client.network();
        if let Some(of) = failures.get_mut(&client)
            && of.remaining(now).is_some()
        {
            of.count += 1;
            return;
        }
        if failures.len() >= limits::MAX_FAILED_CLIENTS {
            failures.retain(|_, of| of.remaining(now).is_some());
        }
        if failures.len() >= limits::MAX_FAILED_CLIENTS {
            let first = failures.iter().min_by_key(|(_, of)| of.since);
            if let Some(first) = first.map(|(client, _)| *client) {
                failures.remove(&first);
            }
        }
        let first = Failures {
            count: 1,
            since: now,
        };
        failures.insert(client, first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_guesses_waits_and_no_other_does() {
        let throttle = Throttle::default();
        let start = Instant::now();
        let [guesser, neighbour, other] = ["2001:db8::1", "2001:db8::2", "192.0.2.1"]
            .map(|text| ClientAddr(text.parse().unwrap()));
        for _ in 0..limits::MAX_FAILED_LOGINS {
            assert_eq!(throttle.wait(guesser, start), None);
            throttle.failed(guesser, start);
        }
        let half = start + limits::FAILED_LOGIN_WINDOW / 2;
        assert_eq!(
            throttle.wait(guesser, half),
            Some(limits::FAILED_LOGIN_WINDOW / 2)
        );
        assert!(throttle.wait(neighbour, half).is_some(), "the same network");
        assert_eq!(throttle.wait(other, half), None);
        let end = start + limits::FAILED_LOGIN_WINDOW;
        assert_eq!(throttle.wait(guesser, end), None);
        throttle.failed(guesser, end);
        assert_eq!(throttle.wait(guesser, end), None, "it begins anew");
    }

    #[test]
    fn many_clients_take_bounded_memory() {
        let throttle = Throttle::default();
        let start = Instant::now();
        for client in 0..limits::MAX_FAILED_CLIENTS as u32 + 10 {
            let at = start + Duration::from_micros(client.into());
            throttle.failed(ClientAddr(IpAddr::V4(client.into())), at);
        }
        let failures = throttle.0.lock().unwrap();
        assert_eq!(failures.len(), limits::MAX_FAILED_CLIENTS);
        assert!(!failures.contains_key(&IpAddr::V4(0.into())));
    }
}
