//! Free slots of a room.

use serde::{Deserialize, Serialize};

/// The two limits of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Visitors inside at once.
    pub total_active_users: u64,
    /// Visitors that may enter in one minute.
    pub new_users_per_minute: u64,
}

impl Limits {
    /// How many may enter now; below zero if more are inside than may be.
    pub fn slots(self, active: u64, admitted_this_minute: u64) -> i64 {
        let room = signed(self.total_active_users) - signed(active);
        let pace = signed(self.new_users_per_minute) - signed(admitted_this_minute);
        room.min(pace)
    }

    /// The part of the room that is taken: 1 is full.
    pub fn utilisation(self, active: u64) -> f64 {
        if self.total_active_users == 0 {
            return 1.0;
        }
        active as f64 / self.total_active_users as f64
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_200_and_200_with_50_active_leave_150_slots() {
        let limits = Limits {
            total_active_users: 200,
            new_users_per_minute: 200,
        };
        let (san_jose, london) = (20, 30);
        assert_eq!(limits.slots(san_jose + london, 0), 150);
    }

    #[test]
    fn the_slower_limit_counts() {
        let limits = Limits {
            total_active_users: 200,
            new_users_per_minute: 40,
        };
        assert_eq!(limits.slots(50, 0), 40);
        assert_eq!(limits.slots(60, 10), 30);
        assert_eq!(limits.slots(195, 10), 5);
    }
}
