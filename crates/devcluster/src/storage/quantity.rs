//! Reads sizes as Kubernetes writes them.

use snafu::{OptionExt, Snafu};

/// A text that is no size.
#[derive(Debug, Clone, PartialEq, Eq, Snafu)]
#[snafu(display("failed to read {text:?} as a quantity of bytes"))]
pub struct QuantityError {
    text: String,
}

/// The number of bytes in a quantity such as `10Gi`, `1.5G`, `128M`, `1e9` or `4096`, a fraction of a byte rounded up.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    let invalid = || QuantitySnafu { text };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));

    let digits = format!("{whole}{fraction}").parse::<u128>().ok().with_context(invalid)?;
    let decimals = u32::try_from(fraction.len()).ok().with_context(invalid)?;
    let (up, down) = factor(suffix).with_context(invalid)?;
    let dividend = digits.checked_mul(up).with_context(invalid)?;
    let divisor = 10_u128.checked_pow(decimals).and_then(|power| power.checked_mul(down));
    u64::try_from(dividend.div_ceil(divisor.with_context(invalid)?)).ok().with_context(invalid)
}

/// What a number with this suffix is multiplied with and divided by.
fn factor(suffix: &str) -> Option<(u128, u128)> {
    let factor = match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_u128.checked_pow(exponent.unsigned_abs())?;
            if exponent < 0 { (1, power) } else { (power, 1) }
        }
    };
    Some(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_notation() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("1Ki", 1024),
            ("10Mi", 10 << 20),
            ("1Gi", 1 << 30),
            ("2Ti", 2 << 40),
            ("1k", 1000),
            ("128M", 128_000_000),
            ("5G", 5_000_000_000),
            ("1.5Gi", 3 << 29),
            ("0.5", 1),
            (".5Ki", 512),
            ("1.", 1),
            ("1500m", 2),
            ("1e9", 1_000_000_000),
            ("12E3", 12_000),
            ("1E", 1_000_000_000_000_000_000),
            ("25e-1", 3),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_size() {
        for text in ["", ".", "Gi", "1GiB", "1.2.3", "-1", "1 Gi", "ten", "1e", "99999999999E", "1e400"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
