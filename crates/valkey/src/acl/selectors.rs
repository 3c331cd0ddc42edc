//! Selectors, the rules in parentheses: a server that reads one without an end from its file crashes.

/// Whether a selector begins among these words and does not end. Servers put words together from one that begins with
/// `(` to the next that ends with `)`.
///
/// Over the wire a server refuses such a user; as a line of its file it ends the server (8.1 and 9.1), at its start and on
/// ACL LOAD alike.
pub fn has_open_selector<'a>(words: impl IntoIterator<Item = &'a str>) -> bool {
    words.into_iter().fold(false, |open, word| (open || word.starts_with('(')) && !word.ends_with(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_selectors_are_found() {
        for (line, open) in [
            ("", false),
            ("~* +@all", false),
            ("(~x +get) (~y +set)", false),
            ("()", false),
            ("~x)", false),
            ("~( +get", false),
            ("( +get )", false),
            ("(~x", true),
            ("(", true),
            ("(~x +get) (~y", true),
            ("(~x (+get) +set", false),
            ("(~x) +get (", true),
        ] {
            assert_eq!(has_open_selector(line.split(' ')), open, "{line:?}");
        }
    }
}
