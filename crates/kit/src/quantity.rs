//! Kubernetes quantities as numbers, so that `1Gi` and `1024Mi` are the same amount.

/// The amount in thousandths (the finest unit Kubernetes keeps), or `None` if it is not a quantity.
pub fn milli(text: &str) -> Option<i128> {
    let digits_end = text
        .char_indices()
        .find(|(index, c)| !(c.is_ascii_digit() || *c == '.' || (*index == 0 && (*c == '+' || *c == '-'))))
        .map_or(text.len(), |(index, _)| index);
    let (number, suffix) = text.split_at(digits_end);
    let scaled = decimal_milli(number)?;
    let (numerator, denominator) = factor(suffix)?;
    // Kubernetes rounds up what is finer than a thousandth.
    let product = scaled.checked_mul(numerator)?;
    Some(product.div_euclid(denominator) + i128::from(product.rem_euclid(denominator) != 0))
}

fn decimal_milli(number: &str) -> Option<i128> {
    let (negative, digits) = match number.as_bytes().first()? {
        b'-' => (true, &number[1..]),
        b'+' => (false, &number[1..]),
        _ => (false, number),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() || whole.len() > 20 || fraction.len() > 18 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut milli = whole.checked_mul(1000)?;
    let mut unit = 100;
    let mut finer = false;
    for digit in fraction.bytes() {
        let value = i128::from(digit.checked_sub(b'0')?);
        if value > 9 {
            return None;
        }
        finer |= unit == 0 && value != 0;
        milli += value * unit;
        unit /= 10;
    }
    milli += i128::from(finer);
    Some(if negative { -milli } else { milli })
}

fn factor(suffix: &str) -> Option<(i128, i128)> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if let Some(power) = BINARY.iter().position(|unit| *unit == suffix) {
        return Some((1_i128 << (10 * (power + 1)), 1));
    }
    if let Some(power) = DECIMAL.iter().position(|unit| *unit == suffix) {
        return Some((1000_i128.pow(u32::try_from(power).ok()? + 1), 1));
    }
    match suffix {
        "" => Some((1, 1)),
        "m" => Some((1, 1000)),
        "u" => Some((1, 1_000_000)),
        "n" => Some((1, 1_000_000_000)),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let scale = 10_i128.checked_pow(power.unsigned_abs())?;
            Some(if power >= 0 { (scale, 1) } else { (1, scale) })
        }
    }
}

/// Whether two texts name the same amount; texts that are no quantities are never the same amount.
pub fn same(one: &str, two: &str) -> bool {
    milli(one).is_some_and(|amount| Some(amount) == milli(two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_are_equal_however_they_are_written() {
        for (one, two) in [
            ("1Gi", "1024Mi"),
            ("1", "1000m"),
            ("0.5", "500m"),
            ("1e3", "1k"),
            ("1.5Gi", "1536Mi"),
            ("100M", "1e8"),
        ] {
            assert!(same(one, two), "{one} and {two}");
        }
        for (one, two) in [("1G", "1Gi"), ("1", "2"), ("x", "x"), ("", "")] {
            assert!(!same(one, two), "{one} and {two}");
        }
    }

    #[test]
    fn garbage_is_not_an_amount() {
        for text in ["", "Gi", "1GiB", "1.2.3", "--1", "e", "1e", "1e999", "999999999999999999999999", "١"] {
            assert_eq!(milli(text), None, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,24}") {
            let _ = milli(&text);
        }

        #[test]
        fn whole_numbers_are_themselves(number in 0_u64..=u64::MAX / 1000) {
            proptest::prop_assert_eq!(milli(&number.to_string()), Some(i128::from(number) * 1000));
        }
    }
}
