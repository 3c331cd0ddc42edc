//! The directives of a user: checked, normalised and written as a file.

use std::collections::BTreeMap;
use std::fmt;

use snafu::{OptionExt, Snafu, ensure};

use super::equivalent::is_list;
use super::live::is_file_only;
use super::quote::{quote, split};
use super::shown;

/// Directives by name, each valid as a line; whether the server takes the value, only the server knows. `Debug` shows no
/// secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Directives {
    values: BTreeMap<String, String>,
}

impl fmt::Debug for Directives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(name, value)| (name, shown(name, value)))).finish()
    }
}

/// Directives that cannot be a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Snafu)]
pub enum ConfError {
    /// The name is not one a directive can have.
    #[snafu(display(
        "failed to accept the directive {name:?}: a name has letters, digits, '-', '_' and '.'"
    ))]
    Name {
        /// The name as written.
        name: String,
    },
    /// Two spellings of one name.
    #[snafu(display("failed to accept the directive {name:?}: it is given twice, in different spelling"))]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The directive is not for users.
    #[snafu(display("failed to accept the directive {name:?}: {reason}"))]
    Refused {
        /// The name.
        name: String,
        /// Why.
        reason: Refusal,
    },
    /// The words of the value cannot be told apart.
    #[snafu(display("failed to read the value of {name:?}: unbalanced quotes"))]
    Quotes {
        /// The name.
        name: String,
    },
}

/// Why a directive is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Refusal {
    /// `include` reads a file nobody has checked, and with it every directive that is refused here.
    #[strum(serialize = "it would read a file that nobody has checked")]
    ReadsOtherFiles,
}

impl Directives {
    /// Checks names and normalises: names to lower case, lists to single spaces (the server refuses more in some), and
    /// a list written `""`, as in a file, to the empty one.
    pub fn new(wanted: &BTreeMap<String, String>) -> Result<Self, ConfError> {
        let mut values = BTreeMap::new();
        for (written, value) in wanted {
            let name = written.to_ascii_lowercase();
            ensure!(is_name(&name), NameSnafu { name: written });
            ensure!(name != "include", RefusedSnafu { name, reason: Refusal::ReadsOtherFiles });
            ensure!(!is_file_only(&name) || split(value).is_some(), QuotesSnafu { name });
            let value = normalise(&name, value);
            ensure!(values.insert(name.clone(), value).is_none(), DuplicateSnafu { name });
        }
        Ok(Self { values })
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The lines of a valkey.conf, in the order of names. The same directives give the same bytes.
    ///
    /// A value is one word of its line, which means to the server what the same text means in CONFIG SET. Directives
    /// that CONFIG SET does not know take several words and get them.
    pub fn render(&self) -> Result<String, ConfError> {
        let mut text = String::new();
        for (name, value) in self.iter() {
            text.push_str(name);
            let words = if is_file_only(name) {
                split(value).context(QuotesSnafu { name })?
            } else {
                vec![value.to_owned()]
            };
            for word in words {
                text.push(' ');
                text.push_str(&quote(&word));
            }
            text.push('\n');
        }
        Ok(text)
    }
}

/// The lines of a valkey.conf for what a user wants.
pub fn render(wanted: &BTreeMap<String, String>) -> Result<String, ConfError> {
    Directives::new(wanted)?.render()
}

/// Dots are for the directives of modules, underscores for a few old names.
fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte))
}

fn normalise(name: &str, value: &str) -> String {
    if !is_list(name) {
        return value.to_owned();
    }
    match value.trim() {
        r#""""# | "''" => String::new(),
        list => list.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn renders_in_order_one_line_each() {
        let wanted = map(&[
            ("save", "900 1\n300 10\n"),
            ("MaxMemory", "100mb"),
            ("requirepass", "a\"b\nport 1"),
            ("rename-command", "FLUSHALL \"\""),
            ("bind", r#""""#),
            ("search.threads", "4"),
        ]);
        assert_eq!(
            render(&wanted).as_deref(),
            Ok("bind \"\"\nmaxmemory 100mb\nrename-command FLUSHALL \"\"\n\
                requirepass \"a\\\"b\\x0aport 1\"\nsave \"900 1 300 10\"\nsearch.threads 4\n")
        );
    }

    #[test]
    fn refuses_names_that_are_none_and_files_nobody_checked() {
        for name in ["", "a b", "a\nb", "#a", "-a", "1a", "é", "a\"", "a\0"] {
            let refused = render(&map(&[(name, "x")]));
            assert!(matches!(refused, Err(ConfError::Name { .. })), "{name:?}: {refused:?}");
        }
        assert!(matches!(render(&map(&[("InClude", "/etc/passwd")])), Err(ConfError::Refused { .. })));
        assert!(matches!(
            render(&map(&[("hz", "1"), ("HZ", "2")])),
            Err(ConfError::Duplicate { name }) if name == "hz"
        ));
        assert!(matches!(render(&map(&[("user", "bob \"")])), Err(ConfError::Quotes { .. })));
    }

    #[test]
    fn debug_shows_no_secret() {
        let directives = Directives::new(&map(&[("RequirePass", "hush")])).expect("should be valid");
        let text = format!("{directives:?}");
        assert!(text.contains("requirepass") && !text.contains("hush"), "{text}");
    }

    proptest! {
        #[test]
        fn no_value_makes_a_second_line(name in "[a-z][a-z0-9._-]{0,10}", value in any::<String>()) {
            if let Ok(text) = render(&map(&[(&name, &value)])) {
                prop_assert_eq!(text.lines().count(), 1, "{}", text);
                prop_assert!(text.ends_with('\n') && text.is_ascii(), "{}", text);
                let words = split(&text).expect("should read what was written");
                prop_assert_eq!(&words[0], &name);
                if !is_file_only(&name) {
                    prop_assert_eq!(words.len(), 2);
                }
            }
        }

        #[test]
        fn any_name_is_survived(name in any::<String>()) {
            if let Ok(text) = render(&map(&[(&name, "x")])) {
                prop_assert_eq!(text.lines().count(), 1);
            }
        }
    }
}
