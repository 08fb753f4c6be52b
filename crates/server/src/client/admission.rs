//! What each client may have at once, and how fast it may ask.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::ClientAddr;
use crate::limits;

/// How many connections, or requests through a trusted proxy, each client has.
#[derive(Debug)]
pub(crate) struct Admission {
    most: Option<usize>,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

impl Admission {
    /// So many at most for each client.
    pub(crate) fn new(most: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
        })
    }

    /// One more for this client, until what is returned is dropped; `None` if it has as many as it may.
    pub(crate) fn enter(self: &Arc<Self>, client: IpAddr) -> Option<ClientSlot> {
        let Some(most) = self.most else {
            return Some(ClientSlot::uncounted());
        };
        let client = ClientAddr(client).network();
        let mut all = lock(&self.taken);
        let taken = all.entry(client).or_default();
        if *taken >= most {
            return None;
        }
        *taken += 1;
        Some(ClientSlot(Some((Arc::clone(self), client))))
    }
}

/// One connection or request of a client.
#[derive(Debug)]
pub(crate) struct ClientSlot(Option<(Arc<Admission>, IpAddr)>);

impl ClientSlot {
    pub(super) fn uncounted() -> Self {
        Self(None)
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let Some((admission, client)) = &self.0 else {
            return;
        };
        let mut all = lock(&admission.taken);
        if let Some(taken) = all.get_mut(client) {
            *taken -= 1;
            if *taken == 0 {
                all.remove(client);
            }
        }
    }
}

/// A token bucket for each client: so many requests a second, and as many as of [`limits::BURST`] at once.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Rate {
    pub(crate) fn new(per_second: usize) -> Self {
        Self {
            per_second: per_second as f64,
            buckets: Mutex::default(),
        }
    }

    fn most(&self) -> f64 {
        self.per_second * limits::BURST.as_secs_f64()
    }

    /// Takes a token, or says how long until there is one.
    pub(crate) fn take(&self, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut client = ClientAddr(client).network();
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= limits::RATED_CLIENTS && !buckets.contains_key(&client) {
            // A bucket that is full again is as good as none.
            buckets.retain(|_, bucket| self.refilled(bucket, now) < self.most());
            if buckets.len() >= limits::RATED_CLIENTS {
                // Who is one too many shares a bucket with all others that are.
                client = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
            }
        }
        let bucket = buckets.entry(client).or_insert(Bucket {
            tokens: self.most(),
            at: now,
        });
        bucket.tokens = self.refilled(bucket, now);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64(
            (1.0 - bucket.tokens) / self.per_second,
        ))
    }

    fn refilled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + since * self.per_second).min(self.most())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn client(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number + (1 << 24)).into()
    }

    #[test]
    fn a_client_has_as_many_as_it_may_and_others_theirs() {
        let admission = Admission::new(Some(2));
        let first = admission.enter(client(1)).unwrap();
        let second = admission.enter(client(1));
        assert!(second.is_some() && admission.enter(client(1)).is_none());
        assert!(admission.enter(client(2)).is_some());
        drop(first);
        assert!(admission.enter(client(1)).is_some());
        drop(second);
        assert!(lock(&admission.taken).is_empty(), "nobody is remembered");
    }

    #[test]
    fn a_bucket_refills_by_the_second_and_says_when() {
        let rate = Rate::new(2);
        let burst = 2 * limits::BURST.as_secs();
        let now = Instant::now();
        for _ in 0..burst {
            assert_eq!(rate.take(client(1), now), Ok(()));
        }
        assert_eq!(rate.take(client(1), now), Err(Duration::from_millis(500)));
        assert_eq!(rate.take(client(2), now), Ok(()), "another client's");
        let later = now + Duration::from_millis(500);
        assert_eq!(rate.take(client(1), later), Ok(()));
        assert!(rate.take(client(1), later).is_err());
    }

    #[test]
    fn more_clients_than_can_be_remembered_share_a_bucket() {
        let rate = Rate::new(1);
        let now = Instant::now();
        for number in 0..limits::RATED_CLIENTS as u32 {
            assert_eq!(rate.take(client(number), now), Ok(()));
        }
        let burst = limits::BURST.as_secs() as u32;
        let more = (1..=burst + 1).map(|n| rate.take(client(10_000_000 + n), now));
        assert_eq!(more.filter(Result::is_err).count(), 1);
        assert!(lock(&rate.buckets).len() <= limits::RATED_CLIENTS + 1);
        let later = now + Duration::from_hours(1);
        assert_eq!(rate.take(client(20_000_000), later), Ok(()));
        assert_eq!(
            lock(&rate.buckets).len(),
            1,
            "those who are silent are forgotten"
        );
    }
}
