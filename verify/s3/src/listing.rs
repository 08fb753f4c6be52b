//! A page of a listing, as XML.

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime},
};

/// An object of a page: its key, its length, and when it was created.
pub(crate) type Entry<'a> = (&'a str, u64, SystemTime);

pub(crate) fn page(entries: &[Entry<'_>], next: Option<&str>) -> String {
    let mut xml = String::from(r#"<?xml version="1.0" encoding="UTF-8"?><ListBucketResult>"#);
    let _ = write!(xml, "<IsTruncated>{}</IsTruncated>", next.is_some());
    if let Some(next) = next {
        let _ = write!(xml, "<NextContinuationToken>{next}</NextContinuationToken>");
    }
    for (key, bytes, time) in entries {
        let time = date(*time);
        let _ = write!(
            xml,
            "<Contents><Key>{key}</Key><Size>{bytes}</Size><LastModified>{time}</LastModified><ETag>\"1\"</ETag></Contents>"
        );
    }
    xml.push_str("</ListBucketResult>");
    xml
}

/// In the form of RFC 3339.
fn date(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or(Duration::ZERO);
    let seconds = since.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The civil calendar from the number of days, after Howard Hinnant.
    let z = days + 719_468;
    let era = z / 146_097;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_the_civil_calendar() {
        let at = |seconds| date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_767_225_599), "2025-12-31T23:59:59.000Z");
    }
}
