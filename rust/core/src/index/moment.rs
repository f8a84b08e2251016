//! Moments as ISO 8601 text, which is what sessions keep, and as microseconds, which sort.

/// What sorts before every moment: there is none, or none that can be understood.
pub const UNKNOWN: i64 = i64::MIN;

const DAY: i64 = 86_400;
const MICROS: i64 = 1_000_000;

/// Microseconds since 1970 of a moment in ISO 8601; without a zone it is taken as UTC.
///
/// `None` for anything else. Two moments compare by this whatever zone each is written in.
pub fn micros(text: &str) -> Option<i64> {
    let bytes = text.trim().as_bytes();
    let year = number(bytes.get(..4)?)?;
    let month = number(part(bytes, 4, b'-', 2)?)?;
    let day = number(part(bytes, 7, b'-', 2)?)?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days(year, month, day) * DAY;
    let Some(rest) = bytes.get(10..).filter(|rest| !rest.is_empty()) else { return Some(seconds * MICROS) };
    if !matches!(rest.first(), Some(b'T' | b't' | b' ')) {
        return None;
    }
    let (time, offset) = zone(rest.get(1..)?)?;
    let (clock, fraction) =
        time.split_at_checked(time.iter().position(|b| *b == b'.').unwrap_or(time.len()))?;
    let hour = number(clock.get(..2)?)?;
    let minute = number(part(clock, 2, b':', 2)?)?;
    let second = if clock.len() > 5 { number(part(clock, 5, b':', 2)?)? } else { 0 };
    if hour > 24 || minute > 59 || second > 60 || clock.len() > 8 {
        return None;
    }
    let total = seconds + hour * 3600 + minute * 60 + second - offset;
    Some(total * MICROS + sub_second(fraction)?)
}

/// Microseconds of a time in seconds.
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates, and the order is all that counts")]
pub fn micros_of(seconds: f64) -> i64 {
    (seconds * 1e6) as i64
}

/// Seconds since 1970 as the text that Python's `isoformat` gives for UTC; `None` outside of the
/// years 1 to 9999.
pub fn iso(seconds: f64) -> Option<String> {
    const FIRST: f64 = -62_135_596_800.0;
    const LAST: f64 = 253_402_300_799.0;
    if !(FIRST..=LAST).contains(&seconds) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range was just checked")]
    let micros = (seconds * 1e6).round() as i64;
    let (whole, part) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let (year, month, day) = civil(whole.div_euclid(DAY));
    let clock = whole.rem_euclid(DAY);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let fraction = if part == 0 { String::new() } else { format!(".{part:06}") };
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}+00:00"))
}

/// The text between a separator and what follows it.
fn part(bytes: &[u8], at: usize, separator: u8, length: usize) -> Option<&[u8]> {
    (bytes.get(at) == Some(&separator)).then(|| bytes.get(at + 1..at + 1 + length)).flatten()
}

fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

/// Splits a time from its zone, and gives the zone in seconds east.
fn zone(time: &[u8]) -> Option<(&[u8], i64)> {
    if let Some((b'Z' | b'z', front)) = time.split_last() {
        return Some((front, 0));
    }
    let Some(sign) = time.iter().position(|byte| matches!(byte, b'+' | b'-')) else { return Some((time, 0)) };
    let (front, text) = time.split_at(sign);
    let digits: Vec<u8> = text.iter().copied().filter(u8::is_ascii_digit).collect();
    let seconds = number(digits.get(..2)?)? * 3600 + digits.get(2..4).map_or(Some(0), number)? * 60;
    Some((front, if text.starts_with(b"-") { -seconds } else { seconds }))
}

fn sub_second(fraction: &[u8]) -> Option<i64> {
    let Some((_, digits)) = fraction.split_first() else { return Some(0) };
    let kept = digits.get(..6).unwrap_or(digits);
    let scale = 10_i64.pow(u32::try_from(6 - kept.len()).ok()?);
    number(digits)?;
    Some(number(kept)? * scale)
}

/// Days since 1970 of a date in the proleptic Gregorian calendar, counted in years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_in_every_zone() {
        let moments = [
            "2026-01-08T00:00:00+00:00",
            "2026-01-08T00:00:00Z",
            "2026-01-08T02:30:00+02:30",
            "2026-01-07T19:00:00.000-05:00",
            "2026-01-08 00:00",
            "2026-01-08",
        ];

        let found = moments.map(micros);

        // From Python's datetime.
        assert_eq!(found, [Some(1_767_830_400_000_000); 6]);
    }

    #[test]
    fn what_is_no_moment_has_no_micros() {
        let texts =
            ["", "soon", "2026-13-01", "2026-01-08T25:00", "2026-01-08T00:00:xx", "20260108", "٢٠٢٦-01-08"];

        let found: Vec<_> = texts.iter().filter_map(|text| micros(text)).collect();

        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn text_and_micros_lead_to_each_other() {
        for (seconds, text) in [
            (0.0, "1970-01-01T00:00:00+00:00"),
            (1_796_051_939.712_953, "2026-11-30T15:18:59.712953+00:00"),
            (951_782_400.0, "2000-02-29T00:00:00+00:00"),
            (-62_135_596_800.0, "0001-01-01T00:00:00+00:00"),
        ] {
            assert_eq!(iso(seconds).as_deref(), Some(text));
            #[expect(clippy::cast_precision_loss, reason = "the moments are far below 2⁵³")]
            let back = micros(text).map(|micros| micros as f64 / 1e6);
            assert_eq!(back, Some(seconds));
        }
        assert_eq!(iso(f64::NAN), None);
        assert_eq!(iso(1.8e12), None);
    }
}
