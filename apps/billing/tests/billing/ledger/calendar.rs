//! Dates of the Gregorian calendar by arithmetic, and the periods that are counted from a moment.

pub(crate) const SECOND: i64 = 1_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

/// How long a period is: this many days, or this many months.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Days(i64),
    Months(i64),
}

/// When a period begins, of those that are counted from a moment. Milliseconds since 1970.
pub(crate) fn start_of(anchor: i64, length: Length, number: u32) -> i64 {
    let number = i64::from(number);
    match length {
        Length::Days(days) => anchor + number * days * DAY,
        Length::Months(months) => {
            let (year, month, day) = date_of(anchor.div_euclid(DAY));
            let months = year * 12 + (month - 1) + number * months;
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            let day = day.min(days_of(year, month));
            day_number(year, month, day) * DAY + anchor.rem_euclid(DAY)
        }
    }
}

/// The days of a month.
fn days_of(year: i64, month: i64) -> i64 {
    let next = if month == 12 {
        day_number(year + 1, 1, 1)
    } else {
        day_number(year, month + 1, 1)
    };
    next - day_number(year, month, 1)
}

/// Days from 1970-01-01 to a date. Years begin in March, so that the leap day is their last.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + of_year - 719_468
}

/// The date that is this many days after 1970-01-01.
fn date_of(number: i64) -> (i64, i64, i64) {
    let mut year = 1970 + number.div_euclid(366);
    while day_number(year + 1, 1, 1) <= number {
        year += 1;
    }
    let mut month = 1;
    while month < 12 && day_number(year, month + 1, 1) <= number {
        month += 1;
    }
    (year, month, number - day_number(year, month, 1) + 1)
}

#[test]
fn months_from_the_31st_keep_to_the_calendar() {
    let anchor = day_number(2027, 12, 31) * DAY + 10 * HOUR;
    let dates: Vec<_> = (0..6)
        .map(|number| date_of(start_of(anchor, Length::Months(1), number).div_euclid(DAY)))
        .collect();
    let wanted = [
        (2027, 12, 31),
        (2028, 1, 31),
        (2028, 2, 29),
        (2028, 3, 31),
        (2028, 4, 30),
        (2028, 5, 31),
    ];
    assert_eq!(dates, wanted);
    assert_eq!(day_number(1970, 1, 1), 0);
    assert_eq!(day_number(2026, 1, 1) * DAY, 1_767_225_600_000);
}
