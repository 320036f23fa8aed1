//! A class is what a worker must match to run an execution.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::{Capability, Kind, Namespace};
use crate::rejection::Invalid;

/// (namespace, kind, required capabilities). Its text form separates the three by blanks, which none of them
/// can contain: `default charge eu,gpu`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class {
    pub namespace: Namespace,
    pub kind: Kind,
    pub capabilities: Capabilities,
}

/// A sorted set of capability words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(Option<Arc<[Capability]>>);

impl Capabilities {
    pub fn new(words: impl IntoIterator<Item = Capability>) -> Self {
        let mut words: Vec<Capability> = words.into_iter().collect();
        words.sort();
        words.dedup();
        Capabilities(if words.is_empty() { None } else { Some(words.into()) })
    }

    pub fn as_slice(&self) -> &[Capability] {
        self.0.as_deref().unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn contains_all(&self, required: &Capabilities) -> bool {
        let have = self.as_slice();
        required.as_slice().iter().all(|word| have.binary_search(word).is_ok())
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.namespace, self.kind)?;
        for (i, word) in self.capabilities.as_slice().iter().enumerate() {
            write!(f, "{}{word}", if i == 0 { ' ' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for Class {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let mut parts = text.splitn(3, ' ');
        let namespace = Namespace::parse(parts.next().unwrap_or_default())?;
        let kind = Kind::parse(parts.next().unwrap_or_default())?;
        let words = parts.next().unwrap_or_default();
        let capabilities = words.split(',').filter(|w| !w.is_empty()).map(Capability::parse);
        Ok(Class {
            namespace,
            kind,
            capabilities: Capabilities::new(capabilities.collect::<Result<Vec<_>, _>>()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(words: &[&str]) -> Capabilities {
        Capabilities::new(words.iter().map(|w| Capability::parse(w).unwrap()))
    }

    #[test]
    fn a_worker_needs_every_required_word() {
        assert!(caps(&[]).contains_all(&caps(&[])));
        assert!(caps(&["eu", "gpu"]).contains_all(&caps(&["gpu"])));
        assert!(!caps(&["eu"]).contains_all(&caps(&["eu", "gpu"])));
    }

    #[test]
    fn the_text_form_reads_back() {
        for text in ["default charge", "default charge eu", "acme.eu a/b:c eu,gpu"] {
            assert_eq!(text.parse::<Class>().unwrap().to_string(), text);
        }
        assert!("default".parse::<Class>().is_err());
    }
}
