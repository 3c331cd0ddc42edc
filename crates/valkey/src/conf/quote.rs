//! Words of a configuration line: written so that no value can end its line, read as the server reads them.

use std::fmt::Write;

/// Writes one word. Whatever is not plainly harmless is quoted and escaped, down to ASCII: the word stays one word of
/// one line whatever its bytes are.
pub(super) fn quote(word: &str) -> String {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(harmless) {
        return word.to_owned();
    }
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('"');
    for byte in word.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(quoted, "\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

/// Reads a line into words by the server's rules: double quotes with escapes, single quotes with `\'` only, and a
/// closing quote is followed by space or nothing. `None` where a quote is not closed properly.
pub fn split(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut bytes = line.bytes().peekable();
    loop {
        while bytes.next_if(u8::is_ascii_whitespace).is_some() {}
        if bytes.peek().is_none() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(byte) = bytes.next_if(|byte| !byte.is_ascii_whitespace()) {
            match byte {
                b'"' => {
                    loop {
                        match bytes.next()? {
                            b'"' => break,
                            b'\\' => word.push(escape(&mut bytes)?),
                            byte => word.push(byte),
                        }
                    }
                    closed(&mut bytes)?;
                }
                b'\'' => {
                    loop {
                        match bytes.next()? {
                            b'\'' => break,
                            b'\\' if bytes.next_if_eq(&b'\'').is_some() => word.push(b'\''),
                            byte => word.push(byte),
                        }
                    }
                    closed(&mut bytes)?;
                }
                byte => word.push(byte),
            }
        }
        // Escapes can spell bytes that are no text; such a word has no place in a map of text.
        words.push(String::from_utf8(word).ok()?);
    }
}

type Bytes<'a> = std::iter::Peekable<std::str::Bytes<'a>>;

fn closed(bytes: &mut Bytes<'_>) -> Option<()> {
    bytes.peek().is_none_or(u8::is_ascii_whitespace).then_some(())
}

fn escape(bytes: &mut Bytes<'_>) -> Option<u8> {
    Some(match bytes.next()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        b'x' => {
            // Only two digits make an escape; otherwise the letter stands for itself.
            let digits: Vec<u8> = bytes.clone().take(2).filter(u8::is_ascii_hexdigit).collect();
            match std::str::from_utf8(&digits).ok().filter(|digits| digits.len() == 2) {
                Some(digits) => {
                    let byte = u8::from_str_radix(digits, 16).ok()?;
                    bytes.next();
                    bytes.next();
                    byte
                }
                None => b'x',
            }
        }
        byte => byte,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_only_where_needed() {
        for (word, expected) in [
            ("100mb", "100mb"),
            ("", r#""""#),
            ("900 1", r#""900 1""#),
            ("a\nport 1", r#""a\x0aport 1""#),
            ("#c", r##""#c""##),
            (r#"a"b\"#, r#""a\"b\\""#),
            ("\0é", r#""\x00\xc3\xa9""#),
        ] {
            assert_eq!(quote(word), expected);
        }
    }

    #[test]
    fn splits_as_the_server_does() {
        let words = |line: &str| split(line);
        assert_eq!(words(r#" FLUSHALL  "" "#), Some(vec!["FLUSHALL".to_owned(), String::new()]));
        assert_eq!(words(r#"a"b c"'"#), None);
        assert_eq!(words(r#""a"b"#), None);
        assert_eq!(words(r#""open"#), None);
        assert_eq!(words(r"'it\'s' x"), Some(vec!["it's".to_owned(), "x".to_owned()]));
        assert_eq!(words(r#""\x41\xzz\n""#), Some(vec!["Axzz\n".to_owned()]));
        assert_eq!(words(""), Some(vec![]));
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_one_word_of_one_line(words in prop::collection::vec(any::<String>(), 0..5)) {
            let line = words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
            prop_assert_eq!(split(&line), Some(words));
        }

        #[test]
        fn any_line_is_survived(line in r#"([a-z]|"|'|\\|x|[0-9]| |\n|.){0,40}"#) {
            let _ = split(&line);
        }
    }
}
