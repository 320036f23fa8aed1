//! Who calls, and what the caller may do.
//!
//! | may | viewer | worker | operator | admin |
//! |---|---|---|---|---|
//! | read | yes | yes | yes | yes |
//! | submit work and signals | | yes | yes | yes |
//! | claim and work | | yes | | yes |
//! | make the token of a waitpoint again | | yes | yes | yes |
//! | cancel, hold, replay, change lanes and flows, one by one or many | | | yes | yes |
//! | tokens, keys, webhooks | | | | yes |
//!
//! A token may be limited to namespaces: what belongs to others is not there for it. A viewer sees payloads only if its
//! token says so.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use ff_api::Problem;
use ff_core::Namespace;
use ff_core::registry::{AccessToken, Role, SecretHash};

use crate::answer::Refusal;
use crate::app::{App, problem};

/// What a route lets its caller do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    Read,
    Submit,
    Work,
    Operate,
    Administer,
}

impl May {
    fn word(self) -> &'static str {
        match self {
            May::Read => "read",
            May::Submit => "submit",
            May::Work => "work",
            May::Operate => "operate",
            May::Administer => "administer",
        }
    }
}

/// Whether a role may do something.
pub fn allows(role: Role, may: May) -> bool {
    match role {
        Role::Admin => true,
        Role::Operator => matches!(may, May::Read | May::Submit | May::Operate),
        Role::Worker => matches!(may, May::Read | May::Submit | May::Work),
        Role::Viewer => may == May::Read,
    }
}

/// Who calls. Without a token, where none is needed, it is somebody on this machine who may do everything.
#[derive(Clone, Debug)]
pub struct Caller {
    token: Option<Arc<AccessToken>>,
}

/// The actor of what is done without a token.
const LOCAL: &str = "local";

impl Caller {
    pub fn role(&self) -> Role {
        self.token.as_ref().map_or(Role::Admin, |token| token.role)
    }

    /// Under which name what it does is written down. A holder of a token may say for whom it acts, but not hide itself.
    pub fn actor(&self, given: Option<&str>) -> String {
        match (&self.token, given.filter(|given| !given.is_empty())) {
            (None, given) => given.unwrap_or(LOCAL).to_owned(),
            (Some(token), Some(given)) if *given != *token.name => format!("{}/{given}", token.name),
            (Some(token), _) => token.name.to_string(),
        }
    }

    /// Who it is known to be: the name of its token, whatever it says of itself.
    pub fn principal(&self) -> Option<&str> {
        self.token.as_ref().map(|token| &*token.name)
    }

    /// Checks that it may do something.
    pub fn may(&self, may: May) -> Result<(), Problem> {
        if allows(self.role(), may) {
            return Ok(());
        }
        let detail = format!("a token of the role {} may not {}; use another token", self.role(), may.word());
        Err(Problem::new(403, "forbidden", "Not allowed", detail))
    }

    /// By what its token is known, if it has one.
    pub fn token_hash(&self) -> Option<SecretHash> {
        self.token.as_ref().map(|token| token.hash)
    }

    /// What it registers belongs to it.
    pub fn owner(&self) -> Option<&str> {
        self.token.as_ref().map(|token| &*token.id)
    }

    /// Whether namespaces do not limit it.
    pub fn sees_all(&self) -> bool {
        self.namespaces().is_empty()
    }

    /// Those it is limited to; all if empty.
    pub fn namespaces(&self) -> &[Namespace] {
        self.token.as_ref().map_or(&[], |token| &token.namespaces)
    }

    pub fn sees(&self, namespace: &Namespace) -> bool {
        self.token.as_ref().is_none_or(|token| token.covers(namespace))
    }

    /// Whether inputs, results and other content are shown to it.
    pub fn sees_payloads(&self) -> bool {
        self.token.as_ref().is_none_or(|token| token.role != Role::Viewer || token.see_payloads)
    }

    /// Checks that it may act in a namespace.
    pub fn may_in(&self, namespace: &Namespace) -> Result<(), Problem> {
        if self.sees(namespace) {
            return Ok(());
        }
        let detail =
            format!("the token is not good for the namespace {namespace}; it is good for {}", self.listed());
        Err(Problem::new(403, "forbidden", "Not allowed", detail))
    }

    /// Checks that it may change what belongs to all namespaces.
    pub fn may_everywhere(&self) -> Result<(), Problem> {
        if self.sees_all() {
            return Ok(());
        }
        let detail = "this concerns all namespaces, and the token is limited to some";
        Err(Problem::new(403, "forbidden", "Not allowed", detail))
    }

    /// Checks that it may change what nobody but an administrator of everything may touch.
    pub fn may_administer(&self) -> Result<(), Problem> {
        self.may(May::Administer)?;
        self.may_everywhere()
    }

    /// The namespace that a question is about: the one asked for, or the only one it may see.
    pub fn narrow(&self, asked: Option<Namespace>) -> Result<Option<Namespace>, Problem> {
        match (asked, self.namespaces()) {
            (Some(asked), _) => self.may_in(&asked).map(|()| Some(asked)),
            (None, []) => Ok(None),
            (None, [only]) => Ok(Some(only.clone())),
            (None, _) => Err(Problem::invalid(
                "namespace",
                format!("is missing; the token is good for {}", self.listed()),
            )),
        }
    }

    fn listed(&self) -> String {
        self.namespaces().iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", ")
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Caller, Refusal> {
        Ok(caller(app, &parts.headers).await?)
    }
}

/// Finds out who calls.
pub async fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    let Some(secret) = bearer(headers)? else {
        if app.config.authentication {
            return Err(unauthorized("a token is needed: send Authorization: Bearer …"));
        }
        crate::trace::actor(LOCAL);
        return Ok(Caller { token: None });
    };
    // One answer for every kind of wrong token.
    let wrong = || unauthorized("the token is not good; it may be mistyped, expired or revoked");
    let token = app.engine.token_of(secret).await.map_err(problem)?.ok_or_else(wrong)?;
    crate::trace::actor(&token.name);
    Ok(Caller { token: Some(token) })
}

/// The token in the Authorization header.
pub fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let text = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    text.map(Some).ok_or_else(|| unauthorized("the Authorization header is not of the form: Bearer …"))
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(401, "unauthorized", "Not authorized", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_the_table_says_and_no_more() {
        use May::*;
        let table = [
            (Role::Viewer, vec![Read]),
            (Role::Worker, vec![Read, Submit, Work]),
            (Role::Operator, vec![Read, Submit, Operate]),
            (Role::Admin, vec![Read, Submit, Work, Operate, Administer]),
        ];
        for (role, allowed) in table {
            for may in [Read, Submit, Work, Operate, Administer] {
                assert_eq!(allows(role, may), allowed.contains(&may), "{role} {may:?}");
            }
        }
    }

    #[test]
    fn without_a_token_the_given_actor_is_believed() {
        let caller = Caller { token: None };
        assert_eq!(caller.actor(None), "local");
        assert_eq!(caller.actor(Some("ada")), "ada");
    }
}
