//! Times as people write and read them: in the local time zone, or as a duration that is over.

use anyhow::Context as _;
use chrono::{DateTime, Days, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone};

use crate::cli::grants::milliseconds;

/// A stretch of time in milliseconds since the epoch. Its end is not part of it.
pub(super) type Bounds = (Option<u64>, Option<u64>);

/// What two times mean: from the beginning of the one to the end of the other.
pub(super) fn bounds(
    since: Option<&str>,
    until: Option<&str>,
    now_ms: u64,
) -> anyhow::Result<Bounds> {
    let now = i64::try_from(now_ms).ok().and_then(|ms| Local.timestamp_millis_opt(ms).earliest());
    bounds_at(since, until, &now.context("the machine's clock can't be used")?)
}

fn bounds_at<Z: TimeZone>(
    since: Option<&str>,
    until: Option<&str>,
    now: &DateTime<Z>,
) -> anyhow::Result<Bounds> {
    let since = since.map(|text| span(text, now, None)).transpose()?;
    let until = until.map(|text| span(text, now, since)).transpose()?;
    Ok((since.map(|(start, _)| start), until.map(|(_, end)| end)))
}

/// What a text means: a moment, a second, a minute or a day. A clock time is the last one, or the first
/// one after another time.
fn span<Z: TimeZone>(
    text: &str,
    now: &DateTime<Z>,
    after: Option<(u64, u64)>,
) -> anyhow::Result<(u64, u64)> {
    let wrong = || {
        format!(
            "`{text}` is not a time; write `14:05`, `2026-11-17`, `2026-11-17T14:05`, or `2h` for two hours ago"
        )
    };
    if let Ok(ago) = milliseconds(text) {
        let at = milliseconds_of(now).checked_sub(ago).with_context(wrong)?;
        return Ok((at, at + 1));
    }
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        let at = milliseconds_of(&at);
        return Ok((at, at + 1000));
    }
    let (second, minute) = (TimeDelta::seconds(1), TimeDelta::minutes(1));
    for (format, length) in [("%H:%M", minute), ("%H:%M:%S", second)] {
        if let Ok(time) = NaiveTime::parse_from_str(text, format) {
            return clock_time(time, length, now, after).with_context(wrong);
        }
    }
    let whole = text.replacen(' ', "T", 1);
    for (format, length) in [("%Y-%m-%dT%H:%M", minute), ("%Y-%m-%dT%H:%M:%S", second)] {
        if let Ok(start) = NaiveDateTime::parse_from_str(&whole, format) {
            return between(now, start, start + length).with_context(wrong);
        }
    }
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().with_context(wrong)?;
    let next = day.checked_add_days(Days::new(1)).with_context(wrong)?;
    between(now, day.and_time(NaiveTime::MIN), next.and_time(NaiveTime::MIN)).with_context(wrong)
}

fn clock_time<Z: TimeZone>(
    time: NaiveTime,
    length: TimeDelta,
    now: &DateTime<Z>,
    after: Option<(u64, u64)>,
) -> Option<(u64, u64)> {
    let on = |day: NaiveDate| between(now, day.and_time(time), day.and_time(time) + length);
    let Some((after, _)) = after else {
        let today = now.naive_local().date();
        let latest = on(today).filter(|(start, _)| *start <= milliseconds_of(now));
        return latest.or_else(|| on(today.checked_sub_days(Days::new(1))?));
    };
    let moment = now.timezone().timestamp_millis_opt(i64::try_from(after).ok()?).earliest()?;
    let day = moment.naive_local().date();
    let same_day = on(day).filter(|(_, end)| *end > after);
    same_day.or_else(|| on(day.checked_add_days(Days::new(1))?))
}

/// Two local times. One that clocks leave out in spring is an hour later.
fn between<Z: TimeZone>(
    now: &DateTime<Z>,
    start: NaiveDateTime,
    end: NaiveDateTime,
) -> Option<(u64, u64)> {
    let at = |local: NaiveDateTime| {
        let known = |local: NaiveDateTime| now.timezone().from_local_datetime(&local).earliest();
        let at = known(local).or_else(|| known(local + TimeDelta::hours(1)))?;
        u64::try_from(at.timestamp_millis()).ok()
    };
    Some((at(start)?, at(end)?))
}

fn milliseconds_of<Z: TimeZone>(time: &DateTime<Z>) -> u64 {
    u64::try_from(time.timestamp_millis()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use chrono::FixedOffset;

    use super::*;

    /// 2026-11-17 09:30:00, two hours east of Greenwich.
    fn now() -> DateTime<FixedOffset> {
        DateTime::parse_from_rfc3339("2026-11-17T09:30:00+02:00").unwrap()
    }

    /// Both bounds as a person in that zone would write them.
    fn meant(since: Option<&str>, until: Option<&str>) -> anyhow::Result<String> {
        let zone = now().timezone();
        let text = |ms: Option<u64>| {
            let at = ms.map(|ms| zone.timestamp_millis_opt(i64::try_from(ms).unwrap()).unwrap());
            at.map_or_else(|| "-".to_owned(), |at| at.format("%m-%d %H:%M:%S%.3f").to_string())
        };
        let (since, until) = bounds_at(since, until, &now())?;
        Ok(format!("{} .. {}", text(since), text(until)))
    }

    #[test]
    fn times_are_local_and_include_what_they_name() {
        let rows = [
            (None, None, "- .. -"),
            (Some("2h"), None, "11-17 07:30:00.000 .. -"),
            (Some("90s"), None, "11-17 09:28:30.000 .. -"),
            (Some("08:05"), Some("08:05"), "11-17 08:05:00.000 .. 11-17 08:06:00.000"),
            (Some("08:05:09"), Some("08:05:09"), "11-17 08:05:09.000 .. 11-17 08:05:10.000"),
            // It was 14:05 yesterday.
            (Some("14:05"), Some("14:05"), "11-16 14:05:00.000 .. 11-16 14:06:00.000"),
            (Some("23:50"), Some("00:10"), "11-16 23:50:00.000 .. 11-17 00:11:00.000"),
            (Some("08:00"), Some("18:00"), "11-17 08:00:00.000 .. 11-17 18:01:00.000"),
            (None, Some("14:05"), "- .. 11-16 14:06:00.000"),
            (Some("2026-11-15"), Some("2026-11-15"), "11-15 00:00:00.000 .. 11-16 00:00:00.000"),
            (Some("2026-11-15"), Some("12:00"), "11-15 00:00:00.000 .. 11-15 12:01:00.000"),
            (Some("2026-11-15T10:20"), None, "11-15 10:20:00.000 .. -"),
            (Some("2026-11-15 10:20:30"), Some("1h"), "11-15 10:20:30.000 .. 11-17 08:30:00.001"),
            (Some("2026-11-15T10:20:30Z"), None, "11-15 12:20:30.000 .. -"),
        ];
        for (since, until, expected) in rows {
            assert_eq!(meant(since, until).unwrap(), expected, "{since:?} {until:?}");
        }
    }

    #[test]
    fn other_words_are_refused_with_an_example() {
        for text in ["", "soon", "25:00", "2026-13-01", "14:05pm", "-1h", "99999999999d", "1405"] {
            let error = meant(Some(text), None).unwrap_err().to_string();
            assert!(error.contains("write `14:05`"), "{text}: {error}");
        }
    }
}
