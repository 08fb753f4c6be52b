//! Input of clients: a flight on a date, a cabin's shape, an occupant. Each is validated once, here.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Longest flight designator. Airlines use up to eight characters (three of the airline, four digits, a suffix).
const MAX_FLIGHT_CHARS: usize = 16;
/// Longest name of an occupant, in characters.
const MAX_OCCUPANT_CHARS: usize = 100;
/// Most rows of a cabin. The longest airliner has fewer than 100.
const MAX_ROWS: u32 = 100;
/// Most seats of a row. The widest airliner has 11.
const MAX_COLUMNS: usize = 12;

/// Why input is rejected.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Invalid {
    /// The flight's designator.
    #[error(
        "A flight must have 1 to {MAX_FLIGHT_CHARS} letters, digits or hyphens, such as BA117."
    )]
    Flight,
    /// The date.
    #[error("A date must be a calendar day as YYYY-MM-DD, such as 2026-12-01.")]
    Date,
    /// The number of rows.
    #[error("A cabin must have 1 to {MAX_ROWS} rows.")]
    Rows,
    /// The columns' letters.
    #[error("Columns must be 1 to {MAX_COLUMNS} different letters from A to Z, such as ABCDEF.")]
    Columns,
    /// The occupant's name.
    #[error(
        "An occupant must be a name of 1 to {MAX_OCCUPANT_CHARS} characters without control characters."
    )]
    Occupant,
}

impl Invalid {
    /// The code for programs.
    pub fn code(self) -> &'static str {
        match self {
            Self::Flight => "invalid_flight",
            Self::Date => "invalid_date",
            Self::Rows => "invalid_rows",
            Self::Columns => "invalid_columns",
            Self::Occupant => "invalid_occupant",
        }
    }
}

/// A flight on a date: the name of its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flight {
    designator: String,
    date: String,
}

impl Flight {
    /// Parses a flight and a date. `ba117` and `BA117` are the same flight.
    pub fn parse(designator: &str, date: &str) -> Result<Self, Invalid> {
        let length_fits = (1..=MAX_FLIGHT_CHARS).contains(&designator.len());
        if !length_fits
            || !designator
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return Err(Invalid::Flight);
        }
        if !is_date(date) {
            return Err(Invalid::Date);
        }
        Ok(Self {
            designator: designator.to_ascii_uppercase(),
            date: date.to_owned(),
        })
    }

    /// The flight's designator, such as `BA117`.
    pub fn designator(&self) -> &str {
        &self.designator
    }

    /// The date as `YYYY-MM-DD`.
    pub fn date(&self) -> &str {
        &self.date
    }

    /// When the day begins in UTC, in milliseconds since 1970; 0 for days before.
    pub(crate) fn day_begins(&self) -> u64 {
        let number = |range: std::ops::Range<usize>| self.date[range].parse::<i64>().unwrap_or(0);
        let (year, month, day) = (number(0..4), number(5..7), number(8..10));
        // Years begin in March, so the leap day is the last day of a year.
        let year = if month > 2 { year } else { year - 1 };
        let month = (month + 9) % 12;
        let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        let days = days + (month * 306 + 5) / 10 + day - 1;
        // From 1 March of the year 0 to 1 January 1970.
        let days = days - 719_468;
        u64::try_from(days).unwrap_or(0) * 24 * 60 * 60 * 1_000
    }
}

impl fmt::Display for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.designator, self.date)
    }
}

/// The shape of a cabin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cabin {
    rows: u32,
    columns: String,
}

impl Cabin {
    /// A cabin of `rows` rows, each with a seat for each letter of `columns`.
    pub fn new(rows: u32, columns: &str) -> Result<Self, Invalid> {
        if !(1..=MAX_ROWS).contains(&rows) {
            return Err(Invalid::Rows);
        }
        let letters = columns.as_bytes();
        let unlike = letters
            .iter()
            .enumerate()
            .all(|(i, letter)| !letters[..i].contains(letter));
        let length_fits = (1..=MAX_COLUMNS).contains(&letters.len());
        if !length_fits || !unlike || !letters.iter().all(u8::is_ascii_uppercase) {
            return Err(Invalid::Columns);
        }
        Ok(Self {
            rows,
            columns: columns.to_owned(),
        })
    }

    /// Every seat: its row, its position in the row, its label such as `14C`.
    pub fn seats(&self) -> impl Iterator<Item = (u32, u32, String)> + '_ {
        (1..=self.rows).flat_map(move |row| {
            (1..)
                .zip(self.columns.chars())
                .map(move |(place, letter)| (row, place, format!("{row}{letter}")))
        })
    }
}

/// Parses an occupant's name; surrounding white space is dropped.
pub fn occupant(name: &str) -> Result<&str, Invalid> {
    let name = name.trim();
    let length_fits = (1..=MAX_OCCUPANT_CHARS).contains(&name.chars().count());
    if length_fits && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(Invalid::Occupant)
    }
}

/// Returns whether the text is a day of the Gregorian calendar as `YYYY-MM-DD`.
fn is_date(text: &str) -> bool {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else {
        return false;
    };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u32, |sum, digit| {
            digit
                .is_ascii_digit()
                .then(|| sum * 10 + u32::from(digit - b'0'))
        })
    };
    let (Some(year), Some(month), Some(day)) = (
        number(&[y1, y2, y3, y4]),
        number(&[m1, m2]),
        number(&[d1, d2]),
    ) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_is_a_designator_and_a_day_that_exists() {
        assert_eq!(
            Flight::parse("ba117", "2028-02-29").unwrap().to_string(),
            "BA117/2028-02-29"
        );
        for designator in ["", "BA 117", "BA/117", "Ü1", "ABCDEFGHIJKLMNOPQ"] {
            assert_eq!(
                Flight::parse(designator, "2026-12-01"),
                Err(Invalid::Flight),
                "{designator}"
            );
        }
        for date in [
            "",
            "2026-12-1",
            "2026-13-01",
            "2026-00-10",
            "2026-04-31",
            "2027-02-29",
            "1900-02-29",
            "20261201",
            "2026-12-0x",
            "٢٠٢٦-12-01",
        ] {
            assert_eq!(Flight::parse("BA117", date), Err(Invalid::Date), "{date}");
        }
    }

    #[test]
    fn a_day_begins_when_the_calendar_says() {
        for (date, days) in [
            ("1970-01-01", 0),
            ("1970-03-01", 59),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("2026-12-31", 20_818),
            ("1960-01-01", 0),
        ] {
            let flight = Flight::parse("BA117", date).unwrap();
            assert_eq!(flight.day_begins(), days * 86_400_000, "{date}");
        }
    }

    #[test]
    fn a_cabin_has_rows_and_unlike_letters() {
        let cabin = Cabin::new(2, "AC").unwrap();
        let labels = cabin.seats().map(|(_, _, label)| label).collect::<Vec<_>>();
        assert_eq!(labels, ["1A", "1C", "2A", "2C"]);
        assert_eq!(Cabin::new(0, "A"), Err(Invalid::Rows));
        assert_eq!(Cabin::new(101, "A"), Err(Invalid::Rows));
        for columns in ["", "AA", "ab", "A1", "ÄB", "ABCDEFGHIJKLM"] {
            assert_eq!(Cabin::new(1, columns), Err(Invalid::Columns), "{columns}");
        }
    }

    #[test]
    fn an_occupant_has_a_name() {
        assert_eq!(occupant("  Ada Lovelace "), Ok("Ada Lovelace"));
        assert_eq!(occupant(&"é".repeat(100)).map(str::len), Ok(200));
        for name in ["", "   ", "a\nb", "a\u{0}", &"x".repeat(101)] {
            assert_eq!(occupant(name), Err(Invalid::Occupant), "{name:?}");
        }
    }
}
