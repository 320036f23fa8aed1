//! Names that have been checked: lanes, kinds, namespaces, capabilities, workers, nodes, fields, signals, steps and frames.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rejection::Invalid;

fn check(
    field: &'static str,
    text: &str,
    max_bytes: usize,
    allowed: &'static str,
    fits: impl Fn(char) -> bool,
) -> Result<(), Invalid> {
    if text.is_empty() || text.len() > max_bytes {
        return Err(Invalid::new(field, format!("has {} bytes; allowed are 1 to {max_bytes}", text.len())));
    }
    match text.chars().find(|c| !fits(*c)) {
        Some(bad) => Err(Invalid::new(field, format!("contains {bad:?}; allowed are {allowed}"))),
        None => Ok(()),
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $field:literal, $max:expr, $allowed:literal, $fits:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                check($field, text, $max, $allowed, $fits)?;
                Ok($name(Arc::from(text)))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::parse(&text)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::parse(text)
            }
        }

        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

fn word(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && c != ','
}

name!(
    /// A named queue.
    LaneName, "lane", 64, "printable characters", |c| !c.is_control()
);
name!(
    /// The name of a task.
    Kind, "kind", 128, "printable characters without blanks and commas", word
);
name!(
    /// Who owns a piece of work.
    Namespace, "namespace", 64, "lower-case letters, digits, '-', '_' and '.'",
    |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.')
);
name!(
    /// A word that a worker has and an execution may require.
    Capability, "capability", 256, "printable characters without blanks and commas", word
);
name!(
    /// The name of a worker program.
    WorkerName, "worker", 128, "printable characters without blanks", |c: char| !c.is_whitespace() && !c.is_control()
);
name!(
    /// What a node is called within its flow.
    NodeName, "name", 128, "printable characters without blanks and commas", word
);
name!(
    /// Under which name an input gets a result of another node.
    FieldName, "field", 64, "letters, digits and '_'", |c: char| c.is_ascii_alphanumeric() || c == '_'
);

name!(
    /// What a signal or a waitpoint is called.
    SignalName, "name", 128, "printable characters without blanks and commas", word
);
name!(
    /// What a durable step is called.
    StepName, "step", 128, "printable characters", |c: char| !c.is_control()
);
name!(
    /// What a frame of an output stream is.
    FrameKind, "kind", 64, "printable characters without blanks and commas", word
);

impl Default for LaneName {
    fn default() -> Self {
        LaneName(Arc::from("default"))
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Namespace(Arc::from("default"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_errors_name_the_field_and_what_is_allowed() {
        let cases: &[(Result<(), Invalid>, &str)] = &[
            (LaneName::parse("").map(drop), "lane has 0 bytes; allowed are 1 to 64"),
            (LaneName::parse(&"x".repeat(65)).map(drop), "lane has 65 bytes; allowed are 1 to 64"),
            (LaneName::parse("a\nb").map(drop), "lane contains '\\n'; allowed are printable characters"),
            (LaneName::parse("a\0b").map(drop), "lane contains '\\0'; allowed are printable characters"),
            (
                Capability::parse("a b").map(drop),
                "capability contains ' '; allowed are printable characters without blanks and commas",
            ),
            (
                Namespace::parse("Acme").map(drop),
                "namespace contains 'A'; allowed are lower-case letters, digits, '-', '_' and '.'",
            ),
        ];
        for (got, want) in cases {
            assert_eq!(got.as_ref().unwrap_err().to_string(), *want);
        }
        assert!(LaneName::parse("EU billing, urgent").is_ok());
        assert!(Kind::parse("orders/charge:v2").is_ok());
    }

    #[test]
    fn a_stored_name_is_checked_again_when_read() {
        assert!(serde_json::from_str::<Kind>("\"a b\"").is_err());
    }
}
