//! Amounts of memory, as directives write them.

/// Reads `100`, `100b`, `64kb`, `1G`: `k`, `m` and `g` are powers of 1000, `kb`, `mb` and `gb` powers of 1024.
pub fn parse_memory(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_the_servers() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0100", Some(100)),
            ("5b", Some(5)),
            ("1k", Some(1000)),
            ("1kb", Some(1024)),
            ("5MB", Some(5_242_880)),
            ("1G", Some(1_000_000_000)),
            ("2gb", Some(2_147_483_648)),
            ("1.5gb", None),
            ("+5", None),
            ("-5", None),
            ("5 mb", None),
            ("5%", None),
            ("mb", None),
            ("", None),
            ("99999999999999999999", None),
            ("18446744073709551615gb", None),
        ] {
            assert_eq!(parse_memory(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*") {
            let _ = parse_memory(&text);
        }
    }
}
