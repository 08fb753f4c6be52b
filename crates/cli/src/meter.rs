//! Progress on a terminal.

use std::{
    io::{self, IsTerminal as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Shows on a terminal how far something is.
pub(crate) struct Meter {
    doing: &'static str,
    begun: Instant,
    shown: Mutex<Option<Instant>>,
    is_seen: bool,
}

impl Meter {
    pub(crate) fn new(doing: &'static str) -> Self {
        Self {
            doing,
            begun: Instant::now(),
            shown: Mutex::default(),
            is_seen: io::stderr().is_terminal(),
        }
    }

    pub(crate) fn show(&self, done: u64, total: u64) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let is_soon = shown.is_some_and(|at| at.elapsed() < Duration::from_millis(200));
        if !self.is_seen || is_soon || total == 0 {
            return;
        }
        *shown = Some(Instant::now());
        eprint!(
            "\r{}\u{1b}[K",
            line(self.doing, done, total, self.begun.elapsed())
        );
    }

    pub(crate) fn end(&self) {
        if self.is_seen {
            eprint!("\r\u{1b}[K");
        }
    }
}

/// What has been done, the rate, and the time left.
fn line(doing: &str, done: u64, total: u64, spent: Duration) -> String {
    let share = done as f64 / total as f64;
    let left = match share {
        0.0 => String::new(),
        share => {
            let left = spent.mul_f64((1.0 - share) / share);
            format!(", {} left", duration(left.as_secs()))
        }
    };
    format!("{doing} {:.0} %{left}", share * 100.0)
}

fn duration(seconds: u64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_from_what_is_done() {
        let after = |done, seconds| line("downloaded", done, 200, Duration::from_secs(seconds));
        assert_eq!(after(0, 1), "downloaded 0 %");
        assert_eq!(after(50, 10), "downloaded 25 %, 30 s left");
        assert_eq!(after(100, 300), "downloaded 50 %, 5 min left");
        assert_eq!(after(1, 60), "downloaded 0 %, 3 h 19 min left");
    }
}
