//! The text that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ff_engine::meters::Measured;

use super::NAMES;

/// Lines by the name of their metric, which must stand together.
#[derive(Debug, Default)]
pub struct Text(BTreeMap<&'static str, String>);

impl Text {
    pub fn value(&mut self, name: &'static str, labels: &[(&str, &str)], value: f64) {
        let _ = writeln!(self.lines(name), "{name}{} {value}", written(labels, None));
    }

    pub fn histogram(&mut self, name: &'static str, labels: &[(&str, &str)], measured: &Measured) {
        let lines = self.lines(name);
        for (bound, count) in &measured.up_to {
            let bound = if bound.is_infinite() { "+Inf".to_owned() } else { bound.to_string() };
            let _ = writeln!(lines, "{name}_bucket{} {count}", written(labels, Some(&bound)));
        }
        let _ = writeln!(lines, "{name}_sum{} {}", written(labels, None), measured.sum);
        let _ = writeln!(lines, "{name}_count{} {}", written(labels, None), measured.count());
    }

    fn lines(&mut self, name: &'static str) -> &mut String {
        debug_assert!(NAMES.iter().any(|it| it.0 == name), "{name} is not listed and would not be told");
        self.0.entry(name).or_default()
    }

    pub fn finish(self) -> String {
        let mut text = String::new();
        for (name, kind, help) in NAMES {
            let Some(lines) = self.0.get(name) else { continue };
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
        }
        text
    }
}

fn written(labels: &[(&str, &str)], bound: Option<&str>) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    let all: Vec<String> = labels.chain(bound.map(|bound| format!("le=\"{bound}\""))).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_lines_of_a_metric_stand_together() {
        let mut text = Text::default();
        text.value("flowfabric_queue_depth", &[("lane", "a\"b\\c\nd")], 1.0);
        text.value("flowfabric_executions", &[("lane", "x"), ("state", "active")], 2.0);
        text.value("flowfabric_queue_depth", &[("lane", "e")], 3.0);
        let text = text.finish();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                r#"flowfabric_executions{lane="x",state="active"} 2"#,
                r#"flowfabric_queue_depth{lane="a\"b\\c\nd"} 1"#,
                r#"flowfabric_queue_depth{lane="e"} 3"#,
            ]
        );
    }
}
