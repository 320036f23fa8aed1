//! JSON merge patch (RFC 7396).

use serde_json::Value;

use crate::rejection::Invalid;

/// How deep a document may be nested.
const DEPTH_MAX: usize = 16;

/// Applies a patch to a document: objects are merged, null removes, everything else replaces.
pub fn merge(document: Option<&str>, patch: &[u8]) -> Result<Value, Invalid> {
    let bad = |problem: String| Invalid::new("patch", problem);
    let patch: Value = serde_json::from_slice(patch).map_err(|error| bad(format!("is not JSON: {error}")))?;
    if depth(&patch) > DEPTH_MAX {
        return Err(bad(format!("is nested deeper than {DEPTH_MAX}")));
    }
    let mut document = document.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    apply(&mut document, patch);
    if depth(&document) > DEPTH_MAX {
        return Err(bad(format!("makes a document that is nested deeper than {DEPTH_MAX}")));
    }
    Ok(document)
}

fn apply(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Default::default());
    }
    let Some(object) = target.as_object_mut() else { return };
    for (key, value) in patch {
        if value.is_null() {
            object.remove(&key);
        } else {
            apply(object.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(all) => 1 + all.iter().map(depth).max().unwrap_or(0),
        Value::Object(all) => 1 + all.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(document: Option<&str>, patch: &str) -> String {
        merge(document, patch.as_bytes()).unwrap().to_string()
    }

    #[test]
    fn patches_merge_as_the_standard_says() {
        // The cases of RFC 7396, appendix A.
        let cases = [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ];
        for (document, patch, result) in cases {
            assert_eq!(merged(Some(document), patch), result, "{document} {patch}");
        }
        assert_eq!(merged(None, r#"{"a":1}"#), r#"{"a":1}"#);
    }

    #[test]
    fn what_is_too_deep_or_no_json_is_refused() {
        let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        assert!(merge(None, nested(16).as_bytes()).is_ok());
        assert_eq!(merge(None, nested(17).as_bytes()).unwrap_err().problem, "is nested deeper than 16");
        assert!(merge(None, nested(5_000).as_bytes()).unwrap_err().problem.starts_with("is not JSON"));
        assert!(merge(None, b"{").is_err());
    }
}
