//! Figures as a person reads them.

/// `value` rounded to so many significant digits.
fn significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    #[expect(clippy::cast_possible_truncation, reason = "an exponent of a double")]
    let exponent = value.abs().log10().floor() as i32;
    let factor = 10f64.powi((digits - 1 - exponent).clamp(-300, 300));
    (value * factor).round() / factor
}

/// Up to three significant digits, thousands separated, no trailing zeros: `12.3`, `1,230`, `0.05`.
#[must_use]
pub fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value.abs() >= 1000.0 {
        return grouped(&format!("{value:.0}"));
    }
    let rounded = significant(value, 3);
    let digits = match rounded.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{rounded:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    grouped(if text == "-0" { "0" } else { text })
}

/// A whole number with its thousands separated: `6,152`.
#[must_use]
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// A number of things: `1 call`, `6,152 calls`.
#[must_use]
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let (whole, rest) = digits.split_once('.').map_or((digits, String::new()), |(a, b)| (a, format!(".{b}")));
    let mut text = String::from(sign);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text + &rest
}

/// A time given in ns, to three digits, in the unit that leaves one to three of them before the point:
/// `824 ns`, `4.00 µs`.
#[must_use]
pub fn time(ns: f64) -> String {
    let (value, unit) = scaled(ns);
    let digits = match value.abs() {
        _ if unit == "ns" || !value.is_finite() => return format!("{} {unit}", figure(value)),
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{} {unit}", grouped(&format!("{value:.digits$}")))
}

/// The same without trailing zeros, for ticks: `4 µs`.
#[must_use]
pub fn tick(ns: f64) -> String {
    if ns == 0.0 {
        return "0".into();
    }
    let (value, unit) = scaled(ns);
    format!("{} {unit}", figure(value))
}

/// A difference of times in ns, with its sign.
#[must_use]
pub fn signed_time(ns: f64) -> String {
    signed(ns, time)
}

/// The same without trailing zeros, for ticks.
#[must_use]
pub fn signed_tick(ns: f64) -> String {
    signed(ns, tick)
}

/// A difference in per cent, with its sign: `+12.3 %`.
#[must_use]
pub fn signed_percent(percent: f64) -> String {
    signed((percent * 10.0).round() / 10.0, |percent| format!("{} %", figure(percent)))
}

fn signed(value: f64, text: impl Fn(f64) -> String) -> String {
    let sign = match value {
        value if value > 0.0 => "+",
        value if value < 0.0 => "−",
        _ => "",
    };
    format!("{sign}{}", text(value.abs()))
}

fn scaled(ns: f64) -> (f64, &'static str) {
    let ns = if ns.abs() < 1e12 { significant(ns, 3) } else { ns };
    let (unit, scale) = match ns.abs() {
        size if size < 1e3 => ("ns", 1.0),
        size if size < 1e6 => ("µs", 1e3),
        size if size < 1e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    (ns / scale, unit)
}

/// A share of 0 to 1 as per cent; what is there but rounds to nothing is `<0.1 %`.
#[must_use]
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 0.1 {
        return "<0.1 %".into();
    }
    if percent < 100.0 && percent > 99.9 {
        return ">99.9 %".into();
    }
    format!("{} %", figure(if percent < 10.0 { (percent * 10.0).round() / 10.0 } else { percent.round() }))
}

/// Text without control characters, and without those that change the direction of writing: names of VMs and
/// hosts may hold what a terminal or a page would obey.
#[must_use]
pub fn plain(text: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}

/// A number of bytes in the unit that leaves one to four digits before the point: `640 KiB`, `2.1 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (bytes.max(1).ilog2() / 10) as usize;
    #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
    let value = bytes as f64 / (1_u64 << (10 * unit)) as f64;
    format!("{} {}", figure(value), UNITS.get(unit).copied().unwrap_or("EiB"))
}

/// An address as kernel people write it: `0x100000000`.
#[must_use]
pub fn address(address: u64) -> String {
    format!("{address:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_their_sign() {
        assert_eq!(signed_time(-12.0), "−12 ns");
        assert_eq!(signed_time(2500.0), "+2.50 µs");
        assert_eq!(signed_time(0.0), "0 ns");
        assert_eq!(signed_tick(-2000.0), "−2 µs");
        assert_eq!(signed_percent(12.345), "+12.3 %");
        assert_eq!(signed_percent(-0.01), "0 %");
        assert_eq!(signed_percent(f64::NAN), "– %");
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (1.0, "1 ns"),
            (824.0, "824 ns"),
            (999.6, "1.00 µs"),
            (1000.0, "1.00 µs"),
            (1024.0, "1.02 µs"),
            (10_400.0, "10.4 µs"),
            (99_960.0, "100 µs"),
            (2_500_000.0, "2.50 ms"),
            (1e9, "1.00 s"),
            (1_234.6e9, "1,235 s"),
            (u64::MAX as f64, "18,446,744,074 s"),
        ] {
            assert_eq!(time(ns), text, "{ns}");
        }
        assert_eq!(tick(4000.0), "4 µs");
        assert_eq!(tick(2_500_000.0), "2.5 ms");
        assert_eq!(time(f64::NAN), "– s");
    }

    #[test]
    fn figures_have_three_digits_and_separated_thousands() {
        for (value, text) in [
            (0.0, "0"),
            (0.0537, "0.054"),
            (8.256, "8.26"),
            (8.0, "8"),
            (99.96, "100"),
            (255.0, "255"),
            (999.6, "1,000"),
            (32_764.0, "32,764"),
            (-1234.0, "-1,234"),
            (-0.0001, "0"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(figure(value), text, "{value}");
        }
        assert_eq!(count(6152), "6,152");
        assert_eq!(count(100), "100");
        assert_eq!((counted(1, "call"), counted(6152, "call")), ("1 call".into(), "6,152 calls".into()));
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn bytes_have_the_unit_that_suits_them() {
        for (value, text) in [
            (0, "0 B"),
            (1023, "1,023 B"),
            (640 << 10, "640 KiB"),
            (2_254_857_830, "2.1 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(value), text, "{value}");
        }
        assert_eq!(address(1 << 32), "0x100000000");
    }

    #[test]
    fn shares_never_round_something_to_nothing_or_to_all() {
        assert_eq!(share(0.0), "0 %");
        assert_eq!(share(0.000_1), "<0.1 %");
        assert_eq!(share(0.034), "3.4 %");
        assert_eq!(share(0.34), "34 %");
        assert_eq!(share(0.999_95), ">99.9 %");
        assert_eq!(share(1.0), "100 %");
    }
}
