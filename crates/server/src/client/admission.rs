//! The limits of each client: concurrency and request rate.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use abide_runtime::creation::{CreationLimit, Creator};

use super::ClientAddr;
use crate::{ServerConfig, limits, metric};

/// The number of connections, or requests through a trusted proxy, of each client.
#[derive(Debug)]
pub(crate) struct Admission {
    most: Option<usize>,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

impl Admission {
    /// At most this many for each client.
    pub(crate) fn new(most: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
        })
    }

    /// Adds one for this client until the returned guard is dropped; `None` if it has reached the limit.
    pub(crate) fn enter(self: &Arc<Self>, client: IpAddr) -> Option<ClientSlot> {
        let Some(most) = self.most else {
            return Some(ClientSlot::uncounted());
        };
        let client = network_of(client);
        let mut all = lock(&self.taken);
        let taken = all.entry(client).or_default();
        if *taken >= most {
            return None;
        }
        *taken += 1;
        Some(ClientSlot(Some((Arc::clone(self), client))))
    }
}

/// What counts as one client.
fn network_of(client: IpAddr) -> IpAddr {
    ClientAddr(client).network()
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

/// A token bucket for each client: a rate per second with a burst of [`limits::BURST`] seconds, or a rate per minute
/// with a burst of as many minutes, or any other burst.
#[derive(Debug)]
pub(crate) struct Rate<K> {
    per_second: f64,
    most: f64,
    buckets: Mutex<Buckets<K>>,
}

#[derive(Debug)]
struct Buckets<K> {
    /// `None` is the bucket shared by clients beyond the maximum number tracked.
    of: HashMap<Option<K>, Bucket>,
    /// When full buckets were last removed. That looks at every bucket, so it is not done for each request.
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl<K: Copy + Eq + Hash> Rate<K> {
    pub(crate) fn per_second(count: usize) -> Self {
        Self::new(count, Duration::from_secs(1), limits::BURST)
    }

    pub(crate) fn per_minute(count: usize) -> Self {
        Self::new(count, Duration::from_mins(1), limits::BURST)
    }

    /// This many in each period, with a burst of as many periods as said.
    pub(crate) fn new(count: usize, period: Duration, burst: u32) -> Self {
        Self {
            per_second: count as f64 / period.as_secs_f64(),
            most: count as f64 * f64::from(burst),
            buckets: Mutex::new(Buckets {
                of: HashMap::new(),
                swept: None,
            }),
        }
    }

    /// How long until a token is available; `None` if one is.
    pub(crate) fn wait(&self, of: K, now: Instant) -> Option<Duration> {
        let buckets = lock(&self.buckets);
        let bucket = buckets.of.get(&Some(of))?;
        self.wait_for(self.refilled(bucket, now))
    }

    /// Takes a token, or returns how long until one is available.
    pub(crate) fn take(&self, of: K, now: Instant) -> Result<(), Duration> {
        let mut of = Some(of);
        let mut buckets = lock(&self.buckets);
        if buckets.of.len() >= limits::RATED_CLIENTS && !buckets.of.contains_key(&of) {
            let is_due = |swept| now.saturating_duration_since(swept) >= limits::RATE_SWEEP;
            if buckets.swept.is_none_or(is_due) {
                // A full bucket need not be stored.
                buckets
                    .of
                    .retain(|_, bucket| self.refilled(bucket, now) < self.most);
                buckets.swept = Some(now);
            }
            if buckets.of.len() >= limits::RATED_CLIENTS {
                of = None;
            }
        }
        let bucket = buckets.of.entry(of).or_insert(Bucket {
            tokens: self.most,
            at: now,
        });
        bucket.tokens = self.refilled(bucket, now);
        bucket.at = now;
        match self.wait_for(bucket.tokens) {
            Some(wait) => Err(wait),
            _ => {
                bucket.tokens -= 1.0;
                Ok(())
            }
        }
    }

    fn wait_for(&self, tokens: f64) -> Option<Duration> {
        (tokens < 1.0).then(|| Duration::from_secs_f64((1.0 - tokens) / self.per_second))
    }

    fn refilled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let since = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + since * self.per_second).min(self.most)
    }
}

/// The rates of new objects.
#[derive(Debug)]
pub(crate) struct NewObjects {
    of_clients: Option<Rate<IpAddr>>,
    of_tokens: Option<Rate<u64>>,
}

impl NewObjects {
    /// `None` if there is no limit.
    pub(crate) fn new(config: &ServerConfig) -> Option<Self> {
        let of_clients = config.new_objects_per_client.map(Rate::per_minute);
        let of_tokens = config.new_objects_per_token.map(Rate::per_minute);
        let some = of_clients.is_some() || of_tokens.is_some();
        some.then_some(Self {
            of_clients,
            of_tokens,
        })
    }
}

impl CreationLimit for NewObjects {
    fn admit(&self, creator: &Creator) -> Result<(), (String, Duration)> {
        let now = Instant::now();
        let refused = |whose: &str, setting: &str, wait| {
            metric::refused_object();
            let why = format!(
                "{whose} has created as many new objects as {setting} allows, and nothing was written: try again later, or write to \
                 existing objects"
            );
            (why, wait)
        };
        if let Some(rate) = &self.of_clients {
            let client = ClientAddr(creator.client).network();
            rate.take(client, now)
                .map_err(|wait| refused("the client", "server.new_objects_per_client", wait))?;
        }
        if let (Some(rate), Some(token)) = (&self.of_tokens, creator.token) {
            rate.take(token, now)
                .map_err(|wait| refused("the token", "server.new_objects_per_token", wait))?;
        }
        Ok(())
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
        assert!(lock(&admission.taken).is_empty(), "no client is remembered");
    }

    #[test]
    fn a_bucket_refills_by_the_second_and_says_when() {
        let rate = Rate::per_second(2);
        let burst = 2 * limits::BURST;
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
        let rate = Rate::per_second(1);
        let now = Instant::now();
        for number in 0..limits::RATED_CLIENTS as u32 {
            assert_eq!(rate.take(client(number), now), Ok(()));
        }
        let burst = limits::BURST;
        let more = (1..=burst + 1).map(|n| rate.take(client(10_000_000 + n), now));
        assert_eq!(more.filter(Result::is_err).count(), 1);
        assert!(lock(&rate.buckets).of.len() <= limits::RATED_CLIENTS + 1);
        let later = now + Duration::from_hours(1);
        assert_eq!(rate.take(client(20_000_000), later), Ok(()));
        assert_eq!(
            lock(&rate.buckets).of.len(),
            1,
            "those who are silent are forgotten"
        );
    }

    #[test]
    fn a_full_table_is_not_swept_for_each_request() {
        // No bucket is full again while the test runs.
        let rate = Rate::new(1, Duration::from_hours(1), 2);
        let now = Instant::now();
        for number in 0..limits::RATED_CLIENTS as u32 {
            assert_eq!(rate.take(client(number), now), Ok(()));
        }
        for milliseconds in 0..3_000 {
            let at = now + Duration::from_millis(milliseconds);
            let _ = rate.take(client(10_000_000), at);
            let swept = lock(&rate.buckets).swept.unwrap();
            assert!(at - swept < limits::RATE_SWEEP);
            let since = (swept - now).as_millis() as u64;
            assert_eq!(since % limits::RATE_SWEEP.as_millis() as u64, 0);
        }
    }

    #[test]
    fn a_wait_is_known_without_taking_a_token() {
        let rate = Rate::new(2, Duration::from_mins(1), 1);
        let now = Instant::now();
        for _ in 0..2 {
            assert_eq!(rate.wait(client(1), now), None);
            assert_eq!(rate.take(client(1), now), Ok(()));
        }
        assert_eq!(rate.wait(client(1), now), Some(Duration::from_secs(30)));
        assert_eq!(rate.wait(client(1), now + Duration::from_secs(30)), None);
    }
}
