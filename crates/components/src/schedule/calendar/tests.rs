//! Calendars beside a model that knows no rules of time zones but what a clock shows each minute.

use std::collections::BTreeSet;

use jiff::ToSpan as _;

use super::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// When a year begins in UTC.
fn new_year(year: i16) -> i64 {
    let midnight = jiff::civil::date(year, 1, 1).at(0, 0, 0, 0);
    moment(Offset::UTC, midnight).unwrap().as_millisecond()
}

/// Zones with everything that clocks have done: jumps of an hour, of half an hour, at midnight, by a day, in winter, for
/// a month, and for good.
const ZONES: [&str; 16] = [
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Caracas",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Gaza",
    "Asia/Tehran",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kwajalein",
];

const YEARS: [i16; 5] = [1993, 2011, 2018, 2026, 2043];

/// Expressions that name times of the day, and rhythms.
const EXPRESSIONS: [&str; 26] = [
    "30 2 * * *",
    "0,30 2 * * *",
    "30 1,2,3 * * *",
    "15 2 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "59 23 * * *",
    "0,15,30,45 0-3 * * *",
    "*/10 2 * * *",
    "* 1-2 * * *",
    "0 2-3 * * *",
    "0 0 1 * *",
    "0 12 * * *",
    "45 1 * * SUN",
    "0 0,12 30 12 *",
    "0 2 29-31 3,10 *",
    "30 23 L * *",
    "20 0-23 * * *",
    "* * * * *",
    "30 * * * *",
    "*/20 * * * *",
    "0 */2 * * *",
    "15 */3 * * 0,6",
    "0,30 * 29 12 *",
    "0 * * 3,10 SUN",
    "*/7 */5 1-7 * *",
];

/// What a clock shows in each minute of a while.
struct Shown {
    zone: &'static str,
    first: i64,
    local: Vec<DateTime>,
}

impl Shown {
    fn between(zone: &'static str, first: i64, end: i64) -> Self {
        let known = TimeZone::get(zone).unwrap();
        let minutes = (first..end).step_by(usize::try_from(MINUTE).unwrap());
        let local = minutes.map(|minute| known.to_datetime(timestamp(minute).unwrap()));
        Self {
            zone,
            first,
            local: local.collect(),
        }
    }

    /// The days around each time of a year at which the clock jumps.
    fn jumps(zone: &'static str, year: i16) -> Vec<Self> {
        let known = TimeZone::get(zone).unwrap();
        let offset = |hour: i64| known.to_offset(timestamp(hour).unwrap());
        let hours = (new_year(year)..new_year(year + 1)).step_by(usize::try_from(HOUR).unwrap());
        let jumps = hours.filter(|hour| offset(*hour) != offset(hour + HOUR));
        jumps
            .map(|hour| Self::between(zone, hour - 27 * HOUR, hour + 27 * HOUR))
            .collect()
    }

    /// Pairs of a minute and what the clock shows.
    fn minutes(&self) -> impl Iterator<Item = (i64, DateTime)> {
        let times = (0..).map(|minute| self.first + minute * MINUTE);
        times.zip(self.local.iter().copied())
    }

    /// When an expression goes off: minute by minute.
    fn model(&self, expression: &Expression) -> Vec<i64> {
        let mut reached = self.local[0];
        let mut found = Vec::new();
        for (time, local) in self.minutes().skip(1) {
            let goes_off = if expression.is_rhythm {
                expression.has(local)
            } else {
                let passed = std::iter::successors(Some(reached), |at| Some(*at + 1.minute()));
                let mut passed = passed.skip(1).take_while(|at| *at <= local);
                passed.any(|at| expression.has(at))
            };
            reached = reached.max(local);
            if goes_off {
                found.push(time);
            }
        }
        found
    }
}

/// An expression as the model reads it: sets of numbers.
struct Expression {
    is_rhythm: bool,
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    days: Days,
    months: BTreeSet<i8>,
    /// None for any.
    weekdays: Option<BTreeSet<i8>>,
}

/// Days of the month.
enum Days {
    Any,
    Last,
    These(BTreeSet<i8>),
}

impl Expression {
    fn read(text: &str) -> Self {
        let text = text.replace("SUN", "0");
        let fields: Vec<&str> = text.split(' ').collect();
        let days = match fields[2] {
            "*" => Days::Any,
            "L" => Days::Last,
            days => Days::These(numbers(days, 1, 31)),
        };
        let weekdays = Some(fields[4]).filter(|weekdays| *weekdays != "*");
        Self {
            is_rhythm: fields[1].starts_with('*'),
            minutes: numbers(fields[0], 0, 59),
            hours: numbers(fields[1], 0, 23),
            days,
            months: numbers(fields[3], 1, 12),
            weekdays: weekdays.map(|weekdays| numbers(weekdays, 0, 6)),
        }
    }

    fn has(&self, local: DateTime) -> bool {
        let day = match &self.days {
            Days::Any => None,
            Days::Last => Some(local.day() == local.days_in_month()),
            Days::These(days) => Some(days.contains(&local.day())),
        };
        let weekday = local.weekday().to_sunday_zero_offset();
        let weekday = self.weekdays.as_ref().map(|days| days.contains(&weekday));
        let is_day = match (day, weekday) {
            // If both are restricted, either counts.
            (Some(day), Some(weekday)) => day || weekday,
            (day, weekday) => day.or(weekday).unwrap_or(true),
        };
        is_day
            && self.minutes.contains(&local.minute())
            && self.hours.contains(&local.hour())
            && self.months.contains(&local.month())
    }
}

fn numbers(field: &str, min: i8, max: i8) -> BTreeSet<i8> {
    let mut numbers = BTreeSet::new();
    for part in field.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (from.parse().unwrap(), to.parse().unwrap()),
            None if range == "*" => (min, max),
            None => (range.parse().unwrap(), range.parse().unwrap()),
        };
        numbers.extend((from..=to).step_by(step.parse().unwrap()));
    }
    numbers
}

/// Going forward and going back find what the model finds.
fn agrees(shown: &Shown, text: &str) {
    let calendar = Calendar::new(text, shown.zone).unwrap();
    let wanted = shown.model(&Expression::read(text));
    let end = shown.minutes().last().unwrap().0;
    let name = format!("`{text}` in {} about {}", shown.zone, shown.local[0]);

    let mut found = Vec::new();
    let mut time = shown.first;
    while let Some(next) = calendar.after(time).unwrap().filter(|next| *next <= end) {
        assert!(next > time, "{name}: {next} comes after {time}");
        found.push(next);
        time = next;
    }
    assert_eq!(found, wanted, "{name}, forward");

    let mut back = Vec::new();
    let mut time = end;
    while let Some(last) = calendar.last(shown.first + 1, time).unwrap() {
        assert!(last <= time, "{name}: {last} comes before {time}");
        back.push(last);
        time = last - 1;
    }
    back.reverse();
    assert_eq!(back, wanted, "{name}, back");
}

#[test]
fn each_minute_about_each_jump_of_a_clock_is_as_a_model_has_it() {
    let jumps = ZONES.map(|zone| YEARS.map(|year| Shown::jumps(zone, year)));
    let jumps: Vec<Shown> = jumps.into_iter().flatten().flatten().collect();
    assert!(jumps.len() > 100, "clocks jump {} times", jumps.len());
    for shown in jumps {
        for expression in EXPRESSIONS {
            agrees(&shown, expression);
        }
    }
}

#[test]
fn each_minute_of_a_year_is_as_a_model_has_it() {
    let year = Shown::between("Europe/Berlin", new_year(2026), new_year(2027));
    for expression in ["0,30 2 * * *", "*/20 * * * *", "30 23 L * *"] {
        agrees(&year, expression);
    }
}

#[test]
fn any_moment_between_occurrences_leads_to_the_same_ones() {
    for shown in ZONES
        .map(|zone| Shown::jumps(zone, 2026))
        .into_iter()
        .flatten()
    {
        for text in ["0,30 0-3 * * *", "*/15 * * * *", "0 0 * * *"] {
            let calendar = Calendar::new(text, shown.zone).unwrap();
            let model = shown.model(&Expression::read(text));
            for time in (model[0]..*model.last().unwrap()).step_by(997_000) {
                let later = model.partition_point(|at| *at <= time);
                let name = format!("`{text}` in {} at {time}", shown.zone);
                assert_eq!(calendar.after(time), Ok(Some(model[later])), "{name}");
                let last = calendar.last(model[0], time);
                assert_eq!(last, Ok(Some(model[later - 1])), "{name}");
            }
        }
    }
}

#[test]
fn the_seconds_of_a_time_that_is_left_out_are_one_moment() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
    let calendar = Calendar::new("*/10 30 2 * * *", "Europe/Berlin").unwrap();
    let first = calendar.after(at("2026-03-29T00:00:00Z")).unwrap().unwrap();
    assert_eq!(first, at("2026-03-29T01:00:00Z"));
    let next = calendar.after(first).unwrap().unwrap();
    assert_eq!(next, at("2026-03-30T00:30:00Z"));
}

#[test]
fn a_time_three_thousand_years_ahead_is_found_quickly() {
    let year = |text: &str| {
        let calendar = Calendar::new(text, "Europe/Berlin").unwrap();
        let found = calendar.after(0).unwrap().unwrap();
        TimeZone::UTC.to_datetime(timestamp(found).unwrap()).year()
    };
    assert_eq!(year("0 30 12 1 6 * 4990"), 4_990);
    assert_eq!(year("0 30 * 1 6 * 4990"), 4_990);
    let never = Calendar::new("0 30 * 30 2 *", "Europe/Berlin").unwrap();
    assert_eq!(never.after(0), Ok(None));
}
