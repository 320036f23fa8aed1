//! Fields that many documents share.

use std::collections::BTreeMap;
use std::str::FromStr;

use ff_core::class::Capabilities;
use ff_core::limits::Limits;
use ff_core::name::Capability;
use ff_core::rejection::Invalid;
use ff_core::tags::Tags;

/// Who asks and why, beside everything that changes something.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Why {
    /// Who wants it, if not the holder of the token.
    pub actor: Option<String>,
    pub cause: Option<String>,
}

/// An id from its text; `field` is named if it is none.
pub fn id<T: FromStr<Err = ff_core::id::BadId>>(field: &'static str, text: &str) -> Result<T, Invalid> {
    text.parse().map_err(|error: ff_core::id::BadId| Invalid::new(field, format!("is wrong: {error}")))
}

/// One of a list of words.
pub fn word<T: Copy>(
    field: &'static str,
    text: &str,
    all: &[T],
    of: impl Fn(T) -> &'static str,
) -> Result<T, Invalid> {
    all.iter().copied().find(|it| of(*it) == text).ok_or_else(|| {
        let allowed: Vec<&str> = all.iter().map(|it| of(*it)).collect();
        let shown: String = text.chars().take(40).collect();
        Invalid::new(field, format!("is {shown:?}; allowed are {}", allowed.join(", ")))
    })
}

pub fn capabilities(words: &[String]) -> Result<Capabilities, Invalid> {
    let words: Result<Vec<Capability>, Invalid> = words.iter().map(|word| Capability::parse(word)).collect();
    Ok(Capabilities::new(words?))
}

pub fn tags(tags: &BTreeMap<String, String>, limits: &Limits) -> Result<Tags, Invalid> {
    Tags::default().edited(tags.iter().map(|(key, value)| (&**key, &**value)), [], limits)
}

pub fn tags_map(tags: &Tags) -> BTreeMap<String, String> {
    tags.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

pub fn texts<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Vec<String> {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect()
}
