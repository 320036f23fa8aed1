//! `flowfabric token`

use std::time::Duration;

use clap::{Args, Subcommand};
use flowfabric::{Namespace, NewToken, TokenInfo};
use serde_json::json;

use super::operate::By;
use crate::problem::Problem;
use crate::session::{self, Open, Patience};
use crate::settings::Settings;
use crate::{parse, view};

/// The tokens that callers of a server need; their secrets are shown once, when they are made
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  flowfabric token create billing-worker --role worker --namespace billing
  flowfabric token create dashboards --role viewer --expires 90d
  flowfabric token list
  flowfabric token get tok_1f0c9d2a77b1e0c4
  flowfabric token revoke tok_1f0c9d2a77b1e0c4 --cause 'left the team'")]
pub struct Token {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Make a token and print its secret
    #[command(
        after_help = "Example:\n  flowfabric token create billing-worker --role worker --namespace billing"
    )]
    Create(Create),
    /// List all tokens
    List,
    /// Show a token, without its secret
    #[command(after_help = "Example:\n  flowfabric token get tok_1f0c9d2a77b1e0c4 --json")]
    Get {
        /// The token, by its id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Revoke a token; servers refuse it within a second
    #[command(
        after_help = "Example:\n  flowfabric token revoke tok_1f0c9d2a77b1e0c4 --cause 'left the team'"
    )]
    Revoke(Revoke),
}

#[derive(Args, Debug)]
struct Create {
    /// Whose or what it is; it is the actor of everything done with it
    #[arg(value_name = "NAME")]
    name: String,
    /// What it may do: viewer, worker, operator or admin
    #[arg(long, value_name = "ROLE")]
    role: String,
    /// Only this namespace; may be given several times
    #[arg(long, value_name = "NAME")]
    namespace: Vec<Namespace>,
    /// A viewer with it sees inputs, results and output
    #[arg(long)]
    see_payloads: bool,
    /// It ends after so long
    #[arg(long, value_name = "DURATION", value_parser = parse::duration, allow_hyphen_values = true)]
    expires: Option<Duration>,
    #[command(flatten)]
    by: By,
}

#[derive(Args, Debug)]
struct Revoke {
    /// The token, by its id
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    by: By,
}

impl Token {
    pub async fn run(self, settings: &Settings) -> Result<(), Problem> {
        session::with(settings, Open::OrCreate, Patience::Short, async |fabric| match self.what {
            What::Create(it) => {
                let new = NewToken {
                    name: it.name,
                    role: it.role,
                    namespaces: it.namespace.iter().map(|it| it.to_string()).collect(),
                    see_payloads: it.see_payloads,
                    expires_in_ms: it
                        .expires
                        .map(|it| ff_api::Span(i64::try_from(it.as_millis()).unwrap_or(i64::MAX))),
                    actor: Some(it.by.actor()),
                    cause: Some(it.by.cause),
                };
                let (token, secret) = fabric.create_token(new).await?;
                if settings.json {
                    return view::document(&json!({ "token": token, "secret": secret }));
                }
                eprintln!("token {}, role {}; its secret is shown only now:", token.id, token.role);
                view::line(&secret)
            }
            What::List => {
                let tokens = fabric.tokens().await?;
                if settings.json {
                    return view::document(&json!({ "tokens": tokens }));
                }
                view::print_table(&table(&tokens))
            }
            What::Get { id } => {
                let token = fabric.tokens().await?.into_iter().find(|it| it.id == id).ok_or_else(|| {
                    Problem::not_found(format!("there is no token {id}"))
                        .hint("`flowfabric token list` shows them")
                })?;
                match settings.json {
                    true => view::document(&json!({ "token": token })),
                    false => show(&token),
                }
            }
            What::Revoke(it) => {
                let token = fabric.revoke_token(&it.id, &it.by.actor(), &it.by.cause).await?;
                if settings.json {
                    return view::document(&json!({ "token": token }));
                }
                view::line(&format!("{} ({}) is revoked", token.id, token.name))
            }
        })
        .await
    }
}

fn show(token: &TokenInfo) -> Result<(), Problem> {
    let mut fields = vec![
        ("id", token.id.clone()),
        ("name", token.name.clone()),
        ("role", token.role.clone()),
        ("namespaces", namespaces(token)),
        ("payloads", if token.see_payloads { "are shown" } else { "are hidden from viewers" }.to_owned()),
        ("created", view::time(token.created_at.0)),
    ];
    fields.extend(token.expires_at.map(|at| ("expires", view::time(at.0))));
    fields.extend(token.revoked_at.map(|at| ("revoked", view::time(at.0))));
    view::print_fields(&fields)
}

fn namespaces(token: &TokenInfo) -> String {
    if token.namespaces.is_empty() { "all".to_owned() } else { token.namespaces.join(", ") }
}

fn table(tokens: &[TokenInfo]) -> comfy_table::Table {
    let mut table = view::table(&["id", "name", "role", "namespaces", "created", "expires", "revoked"]);
    let time = |at: Option<ff_api::Time>| at.map_or_else(|| "-".to_owned(), |at| view::time(at.0));
    for it in tokens {
        table.add_row(vec![
            it.id.clone(),
            it.name.clone(),
            it.role.clone(),
            namespaces(it),
            view::time(it.created_at.0),
            time(it.expires_at),
            time(it.revoked_at),
        ]);
    }
    table
}
