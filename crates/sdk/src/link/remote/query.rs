//! Paths with questions in them.

use std::fmt::Display;

use ff_core::query::{Filter, FlowFilter, Order, WaitpointFilter};

/// A path and what is asked of it.
#[derive(Clone, Debug)]
pub(super) struct Query {
    text: String,
    asked: bool,
}

impl Query {
    pub fn new(path: impl Into<String>) -> Query {
        Query { text: path.into(), asked: false }
    }

    pub fn set(mut self, key: &str, value: impl Display) -> Query {
        self.text.push(if self.asked { '&' } else { '?' });
        self.asked = true;
        self.text.push_str(key);
        self.text.push('=');
        escape(&mut self.text, &value.to_string());
        self
    }

    pub fn maybe<T: Display>(self, key: &str, value: Option<T>) -> Query {
        match value {
            Some(value) => self.set(key, value),
            None => self,
        }
    }

    pub fn order(self, order: Order) -> Query {
        self.set(
            "order",
            match order {
                Order::NewestFirst => "newest_first",
                Order::OldestFirst => "oldest_first",
            },
        )
    }

    pub fn path(self) -> String {
        self.text
    }
}

/// Everything but letters, digits and a few signs is written as its bytes.
pub(super) fn escape(into: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' | b',' => {
                into.push(byte.into());
            }
            _ => into.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// The filter of executions.
pub(super) fn filter(query: Query, filter: &Filter) -> Query {
    let words: Vec<&str> = filter.states.iter().map(|state| state.word()).collect();
    let query = query
        .maybe("namespace", filter.namespace.as_ref())
        .maybe("lane", filter.lane.as_ref())
        .maybe("kind", filter.kind.as_ref())
        .maybe("flow", filter.flow)
        .maybe("state", (!words.is_empty()).then(|| words.join(",")))
        .maybe("reason", filter.reason)
        .maybe("created_from", filter.created_from)
        .maybe("created_before", filter.created_before)
        .maybe("worker", filter.worker.as_ref())
        .maybe("instance", filter.instance)
        .maybe("error_code", filter.error_code.as_ref())
        .maybe("error_text", filter.error_text.as_ref());
    tags(query, &filter.tags)
}

/// The filter of flows.
pub(super) fn flow_filter(query: Query, filter: &FlowFilter) -> Query {
    let words: Vec<&str> = filter.states.iter().map(|state| state.word()).collect();
    let query = query
        .maybe("namespace", filter.namespace.as_ref())
        .maybe("kind", filter.kind.as_ref())
        .maybe("state", (!words.is_empty()).then(|| words.join(",")))
        .maybe("created_from", filter.created_from)
        .maybe("created_before", filter.created_before);
    tags(query, &filter.tags)
}

/// The filter of open waitpoints.
pub(super) fn waitpoint_filter(query: Query, filter: &WaitpointFilter) -> Query {
    query
        .maybe("namespace", filter.namespace.as_ref())
        .maybe("lane", filter.lane.as_ref())
        .maybe("kind", filter.kind.as_ref())
        .maybe("name", filter.name.as_ref())
        .maybe("reason", filter.reason)
        .maybe("execution", filter.execution)
}

fn tags(query: Query, tags: &[(String, String)]) -> Query {
    tags.iter().fold(query, |query, (key, value)| query.set("tag", format!("{key}={value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_so_that_they_read_back() {
        let query = Query::new("/x").set("a", "b c&d=e/ü").maybe("n", None::<u8>).set("limit", 5);
        assert_eq!(query.path(), "/x?a=b%20c%26d%3De%2F%C3%BC&limit=5");
    }
}
