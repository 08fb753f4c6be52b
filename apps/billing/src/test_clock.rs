//! A clock that follows the real one, and can be moved forward.
//!
//! Contract: the offset is on disk before any caller sees the new time, so a restarted program continues from there
//! and never goes back. It is the clock of the whole program: each object processes what has become due in order, as
//! after downtime.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use abide::clock::{Clock, Sleep, SystemClock};
use tokio::sync::watch;

/// The file in the data directory with the offset in milliseconds.
const FILE: &str = "test-clock";

/// Maximum advance per call: a year and a day.
pub const MAX_ADVANCE: Duration = Duration::from_hours(366 * 24);

/// Maximum total offset.
const MAX_OFFSET: Duration = Duration::from_hours(200 * 366 * 24);

/// The clock of a program in test mode. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct TestModeClock {
    system: SystemClock,
    moved: std::sync::Arc<Moved>,
}

#[derive(Debug)]
struct Moved {
    dir: PathBuf,
    by: watch::Sender<Duration>,
    /// One advance at a time.
    moving: Mutex<()>,
}

impl TestModeClock {
    /// The clock of a data directory.
    ///
    /// If the offset cannot be read.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let by = match fs::read_to_string(dir.join(FILE)) {
            Ok(text) => {
                let millis = text.trim().parse();
                Duration::from_millis(millis.map_err(io::Error::other)?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Duration::ZERO,
            Err(error) => return Err(error),
        };
        let clock = Self {
            system: SystemClock::new(),
            moved: std::sync::Arc::new(Moved {
                dir: dir.to_owned(),
                by: watch::Sender::new(by),
                moving: Mutex::new(()),
            }),
        };
        clock.moved.write(by)?;
        Ok(clock)
    }

    /// Returns whether a data directory was used with a test clock, whose time may be far ahead of the real one.
    pub fn is_of(dir: &Path) -> bool {
        dir.join(FILE).exists()
    }

    /// Moves it forward.
    ///
    /// # Errors
    /// If the advance is too large, or cannot be stored.
    pub fn advance(&self, by: Duration) -> io::Result<()> {
        let moving = self.moved.moving.lock();
        let _moving = moving.unwrap_or_else(PoisonError::into_inner);
        let after = self.by() + by.min(MAX_ADVANCE);
        if by > MAX_ADVANCE || after > MAX_OFFSET {
            return Err(io::Error::other(format!(
                "The clock can be moved by at most {} days at a time, and 200 years in total.",
                MAX_ADVANCE.as_secs() / 86_400
            )));
        }
        self.moved.write(after)?;
        self.moved.by.send_replace(after);
        Ok(())
    }

    fn by(&self) -> Duration {
        *self.moved.by.borrow()
    }
}

impl Moved {
    fn write(&self, by: Duration) -> io::Result<()> {
        let next = self.dir.join(format!("{FILE}.next"));
        let mut file = File::create(&next)?;
        write!(file, "{}", by.as_millis())?;
        file.sync_all()?;
        fs::rename(next, self.dir.join(FILE))?;
        File::open(&self.dir)?.sync_all()
    }
}

impl Clock for TestModeClock {
    fn now(&self) -> Duration {
        self.system.now() + self.by()
    }

    fn unix_millis(&self) -> u64 {
        let by = u64::try_from(self.by().as_millis()).unwrap_or(u64::MAX);
        self.system.unix_millis().saturating_add(by)
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let (clock, mut moved) = (self.clone(), self.moved.by.subscribe());
        Box::pin(async move {
            loop {
                let by = *moved.borrow_and_update();
                let Some(left) = deadline.checked_sub(by) else {
                    return;
                };
                tokio::select! {
                    () = clock.system.sleep_until(left) => return,
                    changed = moved.changed() => if changed.is_err() {
                        return clock.system.sleep_until(left).await;
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_is_woken_when_it_is_moved_and_it_never_goes_back() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!TestModeClock::is_of(dir.path()));
        let clock = TestModeClock::open(dir.path()).unwrap();
        let day = Duration::from_hours(24);
        let waiting = tokio::spawn(clock.sleep_until(clock.now() + day));
        let before = clock.unix_millis();
        clock.advance(day + Duration::from_secs(1)).unwrap();
        waiting.await.unwrap();
        assert!(clock.advance(MAX_ADVANCE + day).is_err());
        drop(clock);
        assert!(TestModeClock::is_of(dir.path()));
        let again = TestModeClock::open(dir.path()).unwrap();
        assert!(again.unix_millis() - before >= 24 * 60 * 60 * 1_000);
    }
}
