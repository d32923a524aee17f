//! Milliseconds since the epoch, for people and for protocols.

/// For people: `2026-11-15 10:20:30Z`.
#[must_use]
pub fn shown(ms: u64) -> String {
    let (date, time) = parts(ms);
    format!("{date} {time}Z")
}

/// For protocols, by ISO 8601: `2026-11-15T10:20:30.999Z`.
#[must_use]
pub fn iso(ms: u64) -> String {
    let (date, time) = parts(ms);
    format!("{date}T{time}.{:03}Z", ms % 1000)
}

fn parts(ms: u64) -> (String, String) {
    let seconds = ms / 1000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    (format!("{year:04}-{month:02}-{day:02}"), time)
}

/// The date of a day since 1970 in the Gregorian calendar, by counting eras of 400 years from March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(shown(0), "1970-01-01 00:00:00Z");
        assert_eq!(shown(951_782_400_000), "2000-02-29 00:00:00Z");
        assert_eq!(shown(1_794_738_030_999), "2026-11-15 10:20:30Z");
        assert_eq!(iso(1_794_738_030_009), "2026-11-15T10:20:30.009Z");
    }
}
