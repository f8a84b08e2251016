//! Times as the documents write them: `2026-01-02T03:04:05.678900+00:00`.

const MICROS: i64 = 1_000_000;
const DAY: i64 = 86_400;

/// Returns a time in UTC; the fraction is left out when it is zero.
pub(super) fn iso(seconds: f64) -> String {
    // Rounded to microseconds; no clock is so far off that they would not fit.
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    let micros = (seconds * 1e6).round() as i64;
    let (whole, fraction) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let (day, rest) = (whole.div_euclid(DAY), whole.rem_euclid(DAY));
    let (year, month, date) = civil(day);
    let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
    format!("{year:04}-{month:02}-{date:02}T{time}{fraction}+00:00")
}

/// The date of a day since 1970, by counting in eras of 400 years that begin in March.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let date = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, date)
}

#[cfg(test)]
mod tests {
    use super::iso;

    #[test]
    fn times_are_written_as_python_writes_them() {
        assert_eq!(iso(0.0), "1970-01-01T00:00:00+00:00");
        assert_eq!(iso(951_782_400.5), "2000-02-29T00:00:00.500000+00:00");
        assert_eq!(iso(1_767_323_085.251), "2026-01-02T03:04:45.251000+00:00");
        assert_eq!(iso(4_107_542_399.999_999), "2100-02-28T23:59:59.999999+00:00");
        assert_eq!(iso(-0.000_001), "1969-12-31T23:59:59.999999+00:00");
    }
}
