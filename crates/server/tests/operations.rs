//! What operators install: it parses, and it speaks of nothing that is not there.

#![allow(clippy::unwrap_used, reason = "a file that cannot be read is a failed test")]

use std::collections::BTreeSet;
use std::path::Path;

use ff_server::metrics::NAMES;
use saphyr_parser::{Event, Parser};
use serde_json::Value;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The metrics that a text names, without what Prometheus adds to the names of histograms.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    let ours = words.filter(|word| word.starts_with("flowfabric_"));
    let plain = |word: &str| {
        let suffix = ["_bucket", "_sum", "_count"].into_iter().find_map(|end| word.strip_suffix(end));
        suffix.unwrap_or(word).to_owned()
    };
    ours.map(plain).collect()
}

/// What the server has to tell.
fn told() -> BTreeSet<String> {
    NAMES.iter().map(|(name, _, _)| (*name).to_owned()).collect()
}

#[test]
fn every_metric_is_in_the_table_of_the_documents_with_its_type() {
    let text = read("docs/operations.md");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `flowfabric_")).collect();
    for (name, kind, _) in NAMES {
        let row = rows.iter().find(|row| row.contains(&format!("`{name}`")));
        let row = row.unwrap_or_else(|| panic!("docs/operations.md does not explain {name}"));
        assert!(row.contains(&format!("| {kind} |")), "{name} is a {kind}: {row}");
    }
    assert_eq!(rows.len(), NAMES.len(), "docs/operations.md explains what is not there");
}

/// Every value under a key, at any depth.
fn under<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(entries) => {
            found.extend(entries.get(key).and_then(Value::as_str));
            entries.values().for_each(|it| under(it, key, found));
        }
        Value::Array(items) => items.iter().for_each(|it| under(it, key, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana-dashboard.json")).unwrap();
    let (mut asked, mut variables) = (Vec::new(), Vec::new());
    under(&dashboard, "expr", &mut asked);
    under(&dashboard["templating"], "query", &mut variables);
    assert!(asked.len() >= 20, "the dashboard has lost its panels");
    let used: BTreeSet<String> = asked.iter().chain(&variables).flat_map(|it| metrics(it)).collect();
    assert_eq!(used, told());
}

/// The alerts with their expressions.
fn alerts() -> Vec<(String, String)> {
    let text = read("deploy/alerts.yml");
    let mut scalars = Vec::new();
    for event in Parser::new_from_str(&text) {
        let (event, _) = event.unwrap();
        if let Event::Scalar(text, ..) = event {
            scalars.push(text.into_owned());
        }
    }
    let after = |key: &str| -> Vec<String> {
        scalars.windows(2).filter(|pair| pair[0] == key).map(|pair| pair[1].clone()).collect()
    };
    let (names, expressions) = (after("alert"), after("expr"));
    assert_eq!(names.len(), expressions.len(), "each alert has one expression");
    names.into_iter().zip(expressions).collect()
}

#[test]
fn alerts_ask_only_for_metrics_that_are_there_and_each_is_explained() {
    let (text, told) = (read("docs/operations.md"), told());
    let alerts = alerts();
    assert!(alerts.len() >= 10, "deploy/alerts.yml has lost its rules");
    for (name, expression) in alerts {
        let used = metrics(&expression);
        assert!(used.is_subset(&told), "{name} asks for {used:?}");
        assert!(!used.is_empty() || expression.starts_with("up{"), "{name} asks for nothing of ours");
        assert!(
            text.contains(&format!("| `{name}` |")),
            "docs/operations.md does not say what to do about {name}"
        );
    }
}
