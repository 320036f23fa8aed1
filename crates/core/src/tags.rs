//! Tags: a few words people attach to an execution to find it again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::rejection::Invalid;

const KEY_BYTES_MAX: usize = 64;

/// Tag keys and values, in the order of their keys. Cheap to clone, because most executions have none and
/// events carry them along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tags(Option<Arc<BTreeMap<Box<str>, Box<str>>>>);

impl Tags {
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |map| map.len())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.as_ref()?.get(key).map(|value| &**value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|map| map.iter().map(|(k, v)| (&**k, &**v)))
    }

    /// These tags with some set and some removed. Nothing changes if any of it is not allowed.
    pub fn edited<'a>(
        &self,
        set: impl IntoIterator<Item = (&'a str, &'a str)>,
        remove: impl IntoIterator<Item = &'a str>,
        limits: &Limits,
    ) -> Result<Tags, Invalid> {
        let mut map = self.0.as_deref().cloned().unwrap_or_default();
        for key in remove {
            map.remove(key);
        }
        for (key, value) in set {
            check_key(key)?;
            check_value(key, value, limits)?;
            map.insert(key.into(), value.into());
        }
        if map.len() > limits.tags_max {
            let problem = format!("are {} in number; allowed are at most {}", map.len(), limits.tags_max);
            return Err(Invalid::new("tags", problem));
        }
        Ok(if map.is_empty() { Tags(None) } else { Tags(Some(Arc::new(map))) })
    }
}

fn check_key(key: &str) -> Result<(), Invalid> {
    let word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    if key.len() <= KEY_BYTES_MAX && key.split('.').all(word) {
        return Ok(());
    }
    let shown: String = key.chars().take(80).collect();
    Err(Invalid::new(
        "tags",
        format!(
            "has the key {shown:?}; allowed are at most {KEY_BYTES_MAX} bytes of lower-case letters, digits and '_', with dots between, such as team.name"
        ),
    ))
}

fn check_value(key: &str, value: &str, limits: &Limits) -> Result<(), Invalid> {
    let max = limits.tag_value_bytes_max;
    if value.len() > max {
        let problem = format!("has {} bytes under {key:?}; allowed are at most {max}", value.len());
        return Err(Invalid::new("tags", problem));
    }
    if value.contains('\0') {
        return Err(Invalid::new("tags", format!("has a U+0000 character under {key:?}; remove it")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(set: &[(&str, &str)]) -> Result<Tags, Invalid> {
        Tags::default().edited(set.iter().copied(), [], &Limits::default())
    }

    #[test]
    fn keys_are_words_with_dots_between() {
        for good in ["team", "team.name", "a_1.b2.c"] {
            assert!(tags(&[(good, "x")]).is_ok(), "{good}");
        }
        for bad in ["", "Team", "a..b", ".a", "a.", "a b", "ä", &"x".repeat(65)] {
            assert!(tags(&[(bad, "x")]).unwrap_err().to_string().contains("team.name"), "{bad}");
        }
    }

    #[test]
    fn edits_set_and_remove_and_respect_the_limits() {
        let limits = Limits { tags_max: 2, ..Limits::default() };
        let two = Tags::default().edited([("a", "1"), ("b", "2")], [], &limits).unwrap();
        let swapped = two.edited([("c", "3")], ["a"], &limits).unwrap();
        assert_eq!(swapped.iter().collect::<Vec<_>>(), [("b", "2"), ("c", "3")]);
        assert!(two.edited([("c", "3")], [], &limits).is_err());
        assert!(two.edited([("a", "x".repeat(257).as_str())], [], &limits).is_err());
        assert!(two.edited([], ["a", "b"], &limits).unwrap().is_empty());
    }
}
