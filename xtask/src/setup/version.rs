//! Orders Debian versions as dpkg does.

use std::cmp::Ordering;

/// Compares two versions without epoch, part by part (`verrevcmp` in dpkg's `lib/dpkg/version.c`).
pub(crate) fn compare(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left.as_bytes(), right.as_bytes());
    while !left.is_empty() || !right.is_empty() {
        loop {
            let (a, b) = (weight(left), weight(right));
            if a == 0 && b == 0 {
                break;
            }
            if a != b {
                return a.cmp(&b);
            }
            left = &left[1..];
            right = &right[1..];
        }
        let (a, b) = (number(&mut left), number(&mut right));
        let order = a.len().cmp(&b.len()).then_with(|| a.cmp(b));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// A tilde sorts before the end, letters before everything else; digits end the part.
fn weight(text: &[u8]) -> i32 {
    match text.first() {
        None => 0,
        Some(byte) if byte.is_ascii_digit() => 0,
        Some(b'~') => -1,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    }
}

/// Takes the leading digits off, without leading zeros.
fn number<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(length);
    *text = rest;
    let zeros = digits.iter().take_while(|&&byte| byte == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Tool, find_program};

    const VERSIONS: [&str; 14] = [
        "6.1.0-9", "6.1.0-10", "6.1.0-57", "6.12.9", "6.12.117", "6.12.9.1", "6.12.09", "1.0~rc1", "1.0",
        "1.0+b1", "1.0a", "1.0-", "", "~",
    ];

    #[test]
    fn numbers_count_as_numbers() {
        assert_eq!(compare("6.1.0-10", "6.1.0-9"), Ordering::Greater);
        assert_eq!(compare("6.12.117", "6.12.99"), Ordering::Greater);
        assert_eq!(compare("1.0~rc1", "1.0"), Ordering::Less);
        assert_eq!(compare("6.12.09", "6.12.9"), Ordering::Equal);
    }

    #[test]
    fn the_order_is_that_of_dpkg() {
        if find_program("dpkg").is_none() {
            return;
        }
        for left in VERSIONS.iter().filter(|version| version.starts_with(|c: char| c.is_ascii_digit())) {
            for right in VERSIONS.iter().filter(|version| version.starts_with(|c: char| c.is_ascii_digit())) {
                // A revision after the last dash would be compared apart; here the whole is the upstream part.
                let (l, r) = (format!("{left}-1"), format!("{right}-1"));
                let holds =
                    |relation| Tool::new("dpkg").args(["--compare-versions", &l, relation, &r]).run().is_ok();
                let expected = match compare(left, right) {
                    Ordering::Less => "lt",
                    Ordering::Equal => "eq",
                    Ordering::Greater => "gt",
                };
                assert!(holds(expected), "{left} {expected} {right}");
            }
        }
    }
}
