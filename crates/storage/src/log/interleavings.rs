//! Models of the log: appenders, the writer, admission and waiters, with failures of all kinds.

use super::*;
use crate::ident::{CommitNo, Generation, NamespaceNo, ObjectKey, Shard};
use crate::interleavings::{explore, quiet_panic, spawn};
use crate::sync::thread;
use record::{HEADER_BYTES, Header};
use std::sync::Arc;

/// A durability provider with a scripted outcome for a group of a given number.
#[derive(Default)]
struct Provider {
    groups: usize,
    fails_at: Option<usize>,
    panics_at: Option<usize>,
}

impl Durability for Provider {
    fn append(&mut self, group: &Group<'_>) -> std::io::Result<Duration> {
        let number = self.groups;
        self.groups += 1;
        assert_whole(group);
        thread::yield_now();
        if self.panics_at == Some(number) {
            quiet_panic();
        }
        if self.fails_at == Some(number) {
            return Err(std::io::Error::other("on purpose"));
        }
        Ok(Duration::ZERO)
    }
}

/// Records follow each other without a gap, each with its position.
fn assert_whole(group: &Group<'_>) {
    let mut lsn = group.first;
    for record in group.records() {
        let header = Header::read(record).expect("a record is sealed");
        assert_eq!((header.length, header.lsn), (record.len(), lsn));
        assert_eq!(header.durable, group.first);
        lsn = lsn.advance(record.len());
    }
    assert_eq!(group.records().count(), group.lengths.len());
}

/// A log that holds back what is not copied.
fn with_copies(provider: Provider) -> Arc<Log> {
    let mut log = Log::new(Box::new(provider), Epoch(1), Lsn(4096), Lsn::ZERO, 1 << 20);
    log.await_copies();
    log.add_segment(1 << 20);
    Arc::new(log)
}

fn log(provider: Provider) -> Arc<Log> {
    let log = with_room(provider, 1 << 20);
    log.add_segment(1 << 20);
    log
}

fn with_room(provider: Provider, segment: u64) -> Arc<Log> {
    let log = Log::new(Box::new(provider), Epoch(1), Lsn(4096), Lsn::ZERO, segment);
    Arc::new(log)
}

fn transaction(bytes: usize) -> Transaction {
    let header = Header {
        length: bytes,
        lsn: Lsn::ZERO,
        durable: Lsn::ZERO,
        epoch: Epoch(1),
        key: ObjectKey {
            namespace: NamespaceNo(1),
            id: [1; 32],
        },
        commit: CommitNo(1),
        database_pages: 1,
        last_part: true,
        life: crate::ident::Life::Continues,
        replaces: false,
        alarm: None,
        entries: 0,
        unix_millis: 0,
        payload_crc: 0,
    };
    let mut transaction = Transaction {
        bytes: vec![0; bytes],
        lengths: vec![bytes],
        full_image_horizon: Lsn::ZERO,
        tenure: TENURE,
        time: WallTime::default(),
        ticket: None,
    };
    header.write(&mut transaction.bytes);
    transaction
}

const TENURE: Tenure = Tenure {
    shard: Shard::of(&[1; 32]),
    generation: Generation(1),
};

const SCHEDULES: usize = 2_000;

const SMALL: usize = HEADER_BYTES;

fn commit(log: &Log, bytes: usize) -> Result<Lsn> {
    commit_at(log, bytes, || 0)
}

fn commit_at(log: &Log, bytes: usize, now: impl Fn() -> u64) -> Result<Lsn> {
    let mut transaction = transaction(bytes);
    loop {
        let steps = log.clock_steps();
        transaction.time = WallTime {
            unix_millis: now(),
            steps,
        };
        match log.append(&mut transaction) {
            Ok(appended) => return Ok(appended.end),
            Err(Refused::NoRoom(_)) => {
                log.must_be_open()?;
                log.wait_for_room(&transaction, Duration::from_secs(1));
            }
            Err(Refused::Moved) => return Err(Error::input("the shard is closed")),
            Err(Refused::Failed(error)) => return Err(error),
            Err(Refused::Stale) => {}
        }
    }
}

/// The threads of a log, as the store runs them.
struct Threads(Vec<thread::JoinHandle<()>>);

impl Threads {
    fn of(log: &Arc<Log>) -> Self {
        let spawn = |run: fn(&Log)| {
            let log = log.clone();
            spawn(move || run(&log))
        };
        Self(vec![spawn(Log::run_writer), spawn(Log::run_announcer)])
    }

    /// Closes the log and waits until they have ended.
    fn end(self, log: &Log) {
        self.end_with_panics(log, 0);
    }

    fn end_with_panics(self, log: &Log, panics: u64) {
        log.close();
        for thread in self.0 {
            thread.join().unwrap();
        }
        // An assertion that fails in a listener is a panic of the listener.
        assert_eq!(log.listeners().0, panics, "panics of listeners");
    }
}

/// A listener that records notifications and checks their order.
#[derive(Clone, Default)]
struct Ear(Arc<(Mutex<Vec<Progress>>, Condvar)>);

impl Ear {
    fn on(log: &Arc<Log>) -> Self {
        let ear = Self::default();
        let (listener, weak) = (ear.clone(), Arc::downgrade(log));
        log.subscribe(Box::new(move |progress| {
            let log = weak.upgrade().unwrap();
            let mut heard = listener.0.0.lock();
            assert_ne!(
                heard.last(),
                Some(&Progress::Failed),
                "told after a failure"
            );
            match (progress, heard.last()) {
                (Progress::Failed, _) => assert!(log.failed()),
                (Progress::Durable(lsn), Some(Progress::Durable(before))) => {
                    assert!(lsn > *before && lsn <= log.released());
                }
                (Progress::Durable(lsn), _) => assert!(lsn <= log.released()),
            }
            heard.push(progress);
            listener.0.1.notify_all();
        }));
        ear
    }

    /// Returns once it was notified that everything up to `lsn` is durable.
    fn wait_for(&self, lsn: Lsn) {
        let mut heard = self.0.0.lock();
        while !matches!(heard.last(), Some(Progress::Durable(durable)) if *durable >= lsn) {
            heard = self.0.1.wait(heard);
        }
    }

    fn last(&self) -> Option<Progress> {
        self.0.0.lock().last().copied()
    }
}

#[test]
fn every_commit_becomes_durable_and_is_announced_in_order() {
    explore(SCHEDULES, || {
        let log = log(Provider::default());
        let ear = Ear::on(&log);
        let threads = Threads::of(&log);
        let appender = |sizes: [usize; 2]| {
            let (log, ear) = (log.clone(), ear.clone());
            spawn(move || {
                for bytes in sizes {
                    let end = commit(&log, bytes).unwrap();
                    log.wait_durable(end, false).unwrap();
                    assert!(log.durable() >= end);
                    ear.wait_for(end);
                }
            })
        };
        let appenders = [appender([SMALL; 2]), appender([SMALL, 2 * SMALL])];
        for appender in appenders {
            appender.join().unwrap();
        }
        threads.end(&log);
        assert_eq!(ear.last(), Some(Progress::Durable(log.appended())));
        assert!(log.append(&mut transaction(SMALL)).is_err());
    });
}

#[test]
fn what_is_durable_is_announced_once_it_is_copied() {
    explore(SCHEDULES, || {
        let log = with_copies(Provider::default());
        let ear = Ear::on(&log);
        let threads = Threads::of(&log);
        let copier = {
            let log = log.clone();
            spawn(move || {
                for _ in 0..3 {
                    let durable = log.durable();
                    log.copied(durable);
                    thread::yield_now();
                }
            })
        };
        let appenders = [0, 1].map(|_| {
            let log = log.clone();
            spawn(move || {
                let end = commit(&log, SMALL).unwrap();
                log.wait_durable(end, false).unwrap();
                end
            })
        });
        let ends = appenders.map(|appender| appender.join().unwrap());
        copier.join().unwrap();
        assert!(log.released() <= log.durable());
        let last = ends[0].max(ends[1]);
        let waiter = {
            let log = log.clone();
            spawn(move || log.wait_released(last).unwrap())
        };
        log.copied(last);
        ear.wait_for(last);
        waiter.join().unwrap();
        threads.end(&log);
        assert_eq!(ear.last(), Some(Progress::Durable(last)));
    });
}

#[test]
fn closing_and_failing_end_who_waits_for_the_copy() {
    explore(SCHEDULES, || {
        let log = with_copies(Provider::default());
        let ear = Ear::on(&log);
        let threads = Threads::of(&log);
        let end = commit(&log, SMALL).unwrap();
        let waiter = {
            let log = log.clone();
            spawn(move || log.wait_released(end).is_ok())
        };
        let copier = {
            let log = log.clone();
            spawn(move || log.copied(end))
        };
        let other = log.clone();
        let poisoner = spawn(move || other.poison("another disk"));
        log.close();
        waiter.join().unwrap();
        copier.join().unwrap();
        poisoner.join().unwrap();
        let released = log.released();
        log.copied(end);
        assert_eq!(log.released(), released, "it moved after the failure");
        threads.end(&log);
        assert_eq!(ear.last(), Some(Progress::Failed));
    });
}

#[test]
fn closing_writes_what_was_appended_and_ends_the_writer() {
    explore(SCHEDULES, || {
        let log = log(Provider::default());
        let ear = Ear::on(&log);
        let threads = Threads::of(&log);
        let late = log.clone();
        let appender = spawn(move || match commit(&late, SMALL) {
            Ok(end) => late.wait_durable(end, false).is_ok(),
            Err(_) => true,
        });
        log.close();
        assert!(appender.join().unwrap());
        threads.end(&log);
        assert_eq!(log.durable(), log.appended());
        assert!(
            ear.last()
                .is_none_or(|told| told == Progress::Durable(log.durable()))
        );
    });
}

#[test]
fn a_listener_that_panics_does_not_stop_the_log() {
    explore(SCHEDULES, || {
        let log = log(Provider::default());
        let once = std::sync::atomic::AtomicBool::new(true);
        log.subscribe(Box::new(move |_| {
            if once.swap(false, std::sync::atomic::Ordering::Relaxed) {
                quiet_panic();
            }
        }));
        let ear = Ear::on(&log);
        let threads = Threads::of(&log);
        let mut end = Lsn::ZERO;
        for _ in 0..2 {
            end = commit(&log, SMALL).unwrap();
            log.wait_durable(end, false).unwrap();
        }
        threads.end_with_panics(&log, 1);
        assert_eq!(ear.last(), Some(Progress::Durable(end)));
    });
}

#[test]
fn a_provider_that_panics_fails_the_log() {
    explore(SCHEDULES, || {
        let log = log(Provider {
            panics_at: Some(1),
            ..Provider::default()
        });
        let ear = Ear::on(&log);
        let threads = Threads::of(&log);
        let first = commit(&log, SMALL).unwrap();
        log.wait_durable(first, false).unwrap();
        let second = commit(&log, SMALL).unwrap();
        log.wait_durable(second, false).unwrap_err();
        assert!(log.failed());
        assert_eq!(log.durable(), first);
        threads.end(&log);
        assert_eq!(ear.last(), Some(Progress::Failed));
    });
}

#[test]
fn a_failure_is_final_and_reported_to_all() {
    explore(SCHEDULES, || {
        let log = log(Provider {
            fails_at: Some(1),
            ..Provider::default()
        });
        let ear = Ear::on(&log);
        let threads = Threads::of(&log);
        let appenders = [0, 1].map(|_| {
            let log = log.clone();
            spawn(move || {
                let end = commit(&log, SMALL)?;
                log.wait_durable(end, false)
            })
        });
        let other = log.clone();
        let poisoner = spawn(move || {
            other.poison("another disk");
            let then = other.durable();
            thread::yield_now();
            assert_eq!(other.durable(), then, "it moved after the failure");
        });
        let _outcomes = appenders.map(|appender| appender.join().unwrap());
        poisoner.join().unwrap();
        threads.end(&log);
        assert_eq!(ear.last(), Some(Progress::Failed));
    });
}

#[test]
fn a_commit_waiting_for_room_gets_it_with_the_next_segment() {
    explore(SCHEDULES, || {
        let log = with_room(Provider::default(), 4 * SMALL as u64);
        let threads = Threads::of(&log);
        let maintenance = {
            let log = log.clone();
            spawn(move || {
                // Nine records, four to a segment, in any order.
                for _ in 0..5 {
                    log.add_segment(4 * SMALL as u64);
                }
            })
        };
        let appenders = [3 * SMALL, SMALL, SMALL].map(|bytes| {
            let log = log.clone();
            spawn(move || {
                for _ in 0..2 {
                    commit(&log, bytes).unwrap();
                }
            })
        });
        for appender in appenders {
            appender.join().unwrap();
        }
        maintenance.join().unwrap();
        threads.end(&log);
    });
}

/// Checks, from the provider, that the log keeps unsynced bytes within the limit.
struct Bounded {
    log: Arc<std::sync::OnceLock<std::sync::Weak<Log>>>,
    most: u64,
}

impl Durability for Bounded {
    fn append(&mut self, _: &Group<'_>) -> std::io::Result<Duration> {
        for _ in 0..4 {
            thread::yield_now();
            let log = self.log.get().and_then(std::sync::Weak::upgrade).unwrap();
            assert!(
                log.unsynced_bytes() <= self.most,
                "{}",
                log.unsynced_bytes()
            );
        }
        Ok(Duration::ZERO)
    }
}

fn bounded(most: usize) -> Arc<Log> {
    let handle = Arc::new(std::sync::OnceLock::new());
    let provider = Bounded {
        log: handle.clone(),
        most: most as u64,
    };
    let room = Room::new(most, 1 << 20);
    let log = Log::with_room(Box::new(provider), Epoch(1), Lsn(4096), Lsn::ZERO, room);
    let log = Arc::new(log);
    handle.set(Arc::downgrade(&log)).unwrap();
    log.add_segment(1 << 20);
    log
}

#[test]
fn the_group_in_flight_counts_against_the_bound() {
    explore(SCHEDULES, || {
        let log = bounded(2 * SMALL);
        let threads = Threads::of(&log);
        let appenders = [0, 1].map(|_| {
            let log = log.clone();
            spawn(move || {
                for _ in 0..3 {
                    commit(&log, SMALL).unwrap();
                }
            })
        });
        for appender in appenders {
            appender.join().unwrap();
        }
        threads.end(&log);
    });
}

#[test]
fn no_transaction_passes_a_large_one_that_waits_for_room() {
    explore(SCHEDULES, || {
        let log = bounded(3 * SMALL);
        let threads = Threads::of(&log);
        let appenders = [0, 1].map(|_| {
            let log = log.clone();
            spawn(move || {
                for _ in 0..4 {
                    commit(&log, SMALL).unwrap();
                }
            })
        });
        let mut large = transaction(3 * SMALL);
        let mut refused_at = None;
        let start = loop {
            match log.append(&mut large) {
                Ok(appended) => break appended.start,
                Err(Refused::NoRoom(_)) => {
                    refused_at.get_or_insert(log.appended());
                    log.wait_for_room(&large, Duration::from_secs(1));
                }
                Err(other) => unreachable!("{other:?}"),
            }
        };
        if let Some(at) = refused_at {
            // One record of each appender may have been ahead of it in the queue.
            assert!(start <= at.advance(2 * SMALL), "it was passed");
        }
        for appender in appenders {
            appender.join().unwrap();
        }
        threads.end(&log);
    });
}

#[test]
fn who_gives_up_waiting_for_room_is_in_nobodys_way() {
    explore(SCHEDULES, || {
        let log = with_room(Provider::default(), 2 * SMALL as u64);
        log.add_segment(2 * SMALL as u64);
        let threads = Threads::of(&log);
        let impatient = {
            let log = log.clone();
            spawn(move || {
                let mut large = transaction(2 * SMALL);
                if log.append(&mut large).is_err() {
                    log.give_up(&mut large);
                }
            })
        };
        let log_too = log.clone();
        let maintenance = spawn(move || (0..3).for_each(|_| log_too.add_segment(2 * SMALL as u64)));
        for _ in 0..2 {
            commit(&log, 2 * SMALL).unwrap();
        }
        impatient.join().unwrap();
        maintenance.join().unwrap();
        threads.end(&log);
    });
}

/// A provider that remembers the position and the time of each record.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Vec<(Lsn, u64)>>>);

impl Durability for Times {
    fn append(&mut self, group: &Group<'_>) -> std::io::Result<Duration> {
        let headers = group.records().filter_map(Header::read);
        let times = headers.map(|header| (header.lsn, header.unix_millis));
        self.0.lock().extend(times);
        Ok(Duration::ZERO)
    }
}

#[test]
fn commits_after_a_step_back_have_no_time_before_it() {
    const BEFORE: u64 = 100;
    const AFTER: u64 = 40;
    explore(SCHEDULES, || {
        let times = Times::default();
        let log = Log::new(
            Box::new(times.clone()),
            Epoch(1),
            Lsn(4096),
            Lsn::ZERO,
            1 << 20,
        );
        let log = Arc::new(log);
        log.add_segment(1 << 20);
        let threads = Threads::of(&log);
        let clock = Arc::new(AtomicU64::new(BEFORE));
        let appenders = [0, 1].map(|_| {
            let (log, clock) = (log.clone(), clock.clone());
            spawn(move || {
                for _ in 0..2 {
                    commit_at(&log, SMALL, || clock.load(Ordering::Relaxed)).unwrap();
                }
            })
        });
        clock.store(AFTER, Ordering::Relaxed);
        let steps = log.begin_clock(AFTER);
        let now = WallTime {
            unix_millis: AFTER,
            steps,
        };
        let (end, newest) = log.clock_at_end(now).unwrap();
        assert_eq!(newest, AFTER);
        for appender in appenders {
            appender.join().unwrap();
        }
        assert_eq!(log.clock_at_end(now), Some((log.appended(), AFTER)));
        threads.end(&log);
        let times = times.0.lock();
        let mut after = times.iter().filter(|(lsn, _)| *lsn >= end);
        assert!(after.all(|(_, time)| *time == AFTER), "{times:?}");
    });
}

#[test]
fn no_record_of_a_shard_is_after_the_position_where_it_was_closed() {
    explore(SCHEDULES, || {
        let log = log(Provider::default());
        let threads = Threads::of(&log);
        let appenders = [0, 1].map(|_| {
            let log = log.clone();
            spawn(move || {
                let ends = [0, 1].map(|_| commit(&log, SMALL).ok());
                assert!(
                    ends[0].is_some() || ends[1].is_none(),
                    "it was closed for good"
                );
                ends.into_iter().flatten().max()
            })
        });
        let closer = {
            let log = log.clone();
            spawn(move || log.close_shard(TENURE.shard).unwrap())
        };
        let until = closer.join().unwrap();
        for appender in appenders {
            assert!(appender.join().unwrap().is_none_or(|end| end <= until));
        }
        assert_eq!(log.appended(), until);
        threads.end(&log);
    });
}
