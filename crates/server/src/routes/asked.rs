//! What may be asked of each route beside its body: the options and the key that its description tells of.
//!
//! An option that a route does not know is a mistake of whoever gives it, and a key that nobody looks at is a promise that
//! nobody keeps. Both are refused here, for all routes alike, by what the document says of them.

use std::collections::HashMap;
use std::sync::OnceLock;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use ff_api::Problem;
use serde_json::Value;

const KEY: &str = "Idempotency-Key";
const SHOWN_CHARS: usize = 40;

/// The routes are the same in every server of a process.
static ROUTES: OnceLock<Routes> = OnceLock::new();

/// By path, what each method takes.
#[derive(Debug)]
struct Routes(HashMap<String, Vec<(Method, Taken)>>);

#[derive(Debug, Default)]
struct Taken {
    options: Vec<String>,
    key: bool,
}

/// Takes in what the document says.
pub(super) fn learn(document: &Value) {
    ROUTES.get_or_init(|| Routes::of(document));
}

/// Whether a request gives nothing that its route does not take.
pub(super) fn check(request: &Request) -> Result<(), Problem> {
    let query = request.uri().query().unwrap_or_default();
    let has_key = request.headers().contains_key(KEY);
    if query.is_empty() && !has_key {
        return Ok(());
    }
    let Some(path) = request.extensions().get::<MatchedPath>() else { return Ok(()) };
    ROUTES.get().map_or(Ok(()), |routes| routes.check(path.as_str(), request.method(), query, has_key))
}

impl Routes {
    fn of(document: &Value) -> Routes {
        let paths = document["paths"].as_object().into_iter().flatten();
        // Whoever looks after servers adds options of their own to the others.
        let ours = paths.filter(|(path, _)| path.starts_with("/v1/"));
        let methods = |item: &Value| -> Vec<(Method, Taken)> {
            let operations = item.as_object().into_iter().flatten();
            let known = operations.filter_map(|(name, operation)| {
                Some((name.to_uppercase().parse::<Method>().ok()?, Taken::of(operation)))
            });
            known.collect()
        };
        Routes(ours.map(|(path, item)| (path.clone(), methods(item))).collect())
    }

    fn check(&self, path: &str, method: &Method, query: &str, has_key: bool) -> Result<(), Problem> {
        let methods = self.0.get(path).into_iter().flatten();
        let Some((_, taken)) = methods.into_iter().find(|(it, _)| it == method) else { return Ok(()) };
        if has_key && !taken.key {
            let problem =
                "is not taken by this route; where something is made, give it an id to ask for it again";
            return Err(Problem::invalid(KEY, problem));
        }
        let names = query.split('&').filter(|pair| !pair.is_empty());
        let mut names = names.map(|pair| pair.split('=').next().unwrap_or_default());
        match names.find(|name| !taken.options.iter().any(|it| it == name)) {
            None => Ok(()),
            Some(name) => {
                let shown: String = name.chars().take(SHOWN_CHARS).collect();
                let problem = match taken.options.is_empty() {
                    true => "is unknown; this route has no options".to_owned(),
                    false => {
                        format!("is unknown; the options of this route are {}", taken.options.join(", "))
                    }
                };
                Err(Problem::invalid(&shown, problem))
            }
        }
    }
}

impl Taken {
    fn of(operation: &Value) -> Taken {
        let mut taken = Taken::default();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            match (parameter["in"].as_str(), parameter["name"].as_str()) {
                (Some("query"), Some(name)) => taken.options.push(name.to_owned()),
                (Some("header"), Some(KEY)) => taken.key = true,
                _ => {}
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_keys_that_a_route_does_not_take_are_named() {
        let routes = Routes::of(&super::super::openapi());
        let said = |method: Method, path: &str, query: &str, key: bool| {
            let problem = routes.check(path, &method, query, key).err()?;
            Some((problem.fields[0].field.clone(), problem.detail))
        };
        for (method, path, query, key) in [
            (Method::GET, "/v1/executions", "limit=5&state=active&state=failed", false),
            (Method::POST, "/v1/executions", "", true),
            (Method::GET, "/healthz", "from=balancer", false),
            (Method::GET, "/nowhere", "a=b", true),
        ] {
            assert_eq!(said(method, path, query, key), None, "{path}");
        }
        for (method, path, query, key, field, text) in [
            (Method::GET, "/v1/lanes", "colour=red", false, "colour", "this route has no options"),
            (Method::POST, "/v1/flows", "nonsense", false, "nonsense", "no options"),
            (Method::GET, "/v1/flows/{id}", "wait=1s&x=1", false, "x", "options of this route are wait"),
            (Method::POST, "/v1/flows", "", true, "Idempotency-Key", "give it an id"),
            (Method::POST, "/v1/bulk/cancel", "", true, "Idempotency-Key", "give it an id"),
        ] {
            let (named, detail) = said(method, path, query, key).unwrap();
            assert_eq!(named, field);
            assert!(detail.contains(text), "{detail}");
        }
    }
}
