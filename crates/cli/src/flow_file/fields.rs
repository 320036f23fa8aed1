//! Fields of a tree: which there may be, and what they may hold.

use std::time::Duration;

use flowfabric::Ms;

use super::Fault;
use super::tree::{Content, Tree};
use crate::parse;

/// A part of the tree, and what it is called in messages.
#[derive(Clone, Debug)]
pub struct At<'t> {
    pub tree: &'t Tree,
    pub path: String,
}

impl<'t> At<'t> {
    pub fn fault(&self, problem: impl Into<String>) -> Fault {
        Fault::new(self.tree.place, self.path.clone(), problem)
    }

    fn needs(&self, what: &str) -> Fault {
        let found = match &self.tree.content {
            Content::List(_) => "a list",
            Content::Object(_) => "an object",
            Content::Scalar { .. } if self.tree.value().is_number() => "a number",
            Content::Scalar { .. } if self.tree.value().is_null() => "empty",
            Content::Scalar { .. } => "a word",
        };
        self.fault(format!("is {found}; {what} is needed here"))
    }

    fn below(&self, name: &str, tree: &'t Tree) -> At<'t> {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        At { tree, path }
    }

    /// The entries of an object whose names are free; one that is empty has none.
    pub fn entries(&self) -> Result<Vec<(&'t str, At<'t>)>, Fault> {
        let entries = match &self.tree.content {
            Content::Object(entries) => entries.as_slice(),
            Content::Scalar { .. } if self.tree.value().is_null() => &[],
            _ => return Err(self.needs("an object")),
        };
        let mut found: Vec<(&str, At<'t>)> = Vec::with_capacity(entries.len());
        for (n, (key, tree)) in entries.iter().enumerate() {
            if entries[..n].iter().any(|(other, _)| other.name == key.name) {
                return Err(Fault::new(key.place, self.path.clone(), format!("has {:?} twice", key.name)));
            }
            found.push((&key.name, self.below(&key.name, tree)));
        }
        Ok(found)
    }

    /// The entries of an object that has only these fields.
    pub fn fields(&self, allowed: &[&str]) -> Result<Fields<'t>, Fault> {
        let entries = self.entries()?;
        for (name, _) in &entries {
            if !allowed.contains(name) {
                let place = self.tree.key_place(name).unwrap_or(self.tree.place);
                let path = if self.path.is_empty() { "the flow" } else { &self.path };
                let hint = match nearest(name, allowed.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("allowed are {}", allowed.join(", ")),
                };
                return Err(Fault::new(place, path, format!("has no field {name:?}; {hint}")));
            }
        }
        Ok(Fields { entries })
    }

    /// The items of a list; what is no list counts as one item.
    pub fn items(&self) -> Vec<At<'t>> {
        match &self.tree.content {
            Content::List(items) => items.iter().map(|tree| At { tree, path: self.path.clone() }).collect(),
            _ => vec![self.clone()],
        }
    }

    /// A text, in quotes or not.
    pub fn text(&self) -> Result<&'t str, Fault> {
        match &self.tree.content {
            Content::Scalar { text, quoted } if *quoted || !self.tree.value().is_null() => Ok(text),
            _ => Err(self.needs("a text")),
        }
    }

    pub fn number<T: TryFrom<i64>>(&self) -> Result<T, Fault> {
        let number = self.tree.value().as_i64().ok_or_else(|| self.fault("is not a whole number"))?;
        T::try_from(number).map_err(|_| self.fault(format!("is {number}, which is out of range")))
    }

    pub fn switch(&self) -> Result<bool, Fault> {
        self.tree.value().as_bool().ok_or_else(|| self.fault("is neither true nor false"))
    }

    /// `30s`, `5m`, `2h`, or milliseconds.
    pub fn duration(&self) -> Result<Duration, Fault> {
        self.parsed(parse::duration)
    }

    /// RFC 3339, or milliseconds since 1970.
    pub fn time(&self) -> Result<Ms, Fault> {
        self.parsed(parse::time)
    }

    fn parsed<T>(&self, parse: fn(&str) -> Result<T, String>) -> Result<T, Fault> {
        let problem = |error: String| self.fault(error.strip_prefix("it ").unwrap_or(&error));
        parse(self.text()?).map_err(problem)
    }
}

/// The entries of an object whose fields are known.
#[derive(Clone, Debug)]
pub struct Fields<'t> {
    entries: Vec<(&'t str, At<'t>)>,
}

impl<'t> Fields<'t> {
    /// A field; one that is empty counts as absent.
    pub fn get(&self, name: &str) -> Option<&At<'t>> {
        let found = self.entries.iter().find(|(it, _)| *it == name).map(|(_, at)| at);
        found.filter(|at| !at.tree.value().is_null())
    }
}

/// The word that somebody may have meant.
pub fn nearest<'a>(word: &str, among: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = among.into_iter().map(|it| (distance(word, it), it)).min()?;
    let letters = word.chars().count();
    (near.0 < letters && near.0 <= 1 + letters / 4).then_some(near.1)
}

/// How many letters must be changed, added, left out or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
