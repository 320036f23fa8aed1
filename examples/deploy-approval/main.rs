//! A deployment that two people have to approve, and neither of them may be the one who asked for it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use ff_examples::{Stage, reaches, work_while};
use flowfabric::{
    Condition, Context, Distinct, Effect, OnTimeout, PublicState, Reason, TaskFailure, TokenText, Worker,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

const APPROVERS: [&str; 3] = ["ada", "grace", "linus"];
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Release {
    service: String,
    version: String,
    requested_by: String,
}

impl Release {
    /// What approvers are shown. The digest of exactly this is inside the token they sign with.
    fn action(&self) -> String {
        format!("deploy {} {} to production", self.service, self.version)
    }
}

/// A letter to an approver: what is proposed, and the token that lets them answer.
#[derive(Debug)]
struct Letter {
    action: String,
    token: TokenText,
}

type Post = mpsc::UnboundedSender<Letter>;

async fn deploy(ctx: Context, release: Release) -> Result<String, TaskFailure> {
    let action = release.action();
    let approval = ctx
        .waitpoint("approval")
        .action(action.as_bytes())
        .approvers(APPROVERS)
        .requester(&release.requested_by)
        .distinct_sources()
        .expires(DAY)
        .await?;
    // A step, because the handler is called again after the wait and nobody wants a second letter.
    let post = ctx.data::<Post>()?;
    ctx.step("ask", async || {
        println!("letters go to {}: {action}", APPROVERS.join(", "));
        let _ = post.send(Letter { action: action.clone(), token: approval.token().await? });
        Ok(())
    })
    .await?;
    let two = Condition::Count { n: 2, distinct: Distinct::Sources, of: vec![approval.matching()] };
    let approved = ctx
        .suspend(two)
        .named("approvals")
        .reason(Reason::WaitingForApproval)
        .timeout(DAY, OnTimeout::Cancel)
        .await?;
    let by: Vec<&str> = approved.signals.iter().filter_map(|it| it.source.as_deref()).collect();
    let by = by.join(" and ");
    ctx.step("roll out", async || {
        println!("rolling out {} {}", release.service, release.version);
        Ok(())
    })
    .await?;
    Ok(format!("{} {} is live, approved by {by}", release.service, release.version))
}

/// The same token with another signature.
fn forged(token: &str) -> String {
    let (front, mac) = token.rsplit_once('.').unwrap_or((token, ""));
    let first = if mac.starts_with('a') { 'b' } else { 'a' };
    format!("{front}.{first}{}", mac.get(1..).unwrap_or_default())
}

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::open().await?;
    let fabric = &stage.fabric;
    let (post, mut letters) = mpsc::unbounded_channel::<Letter>();
    let worker = Worker::new(fabric).name("deployer").data::<Post>(post).on("deploy", deploy);

    let story = async {
        let release = Release {
            service: "shop".to_owned(),
            version: "2.0".to_owned(),
            requested_by: "grace".to_owned(),
        };
        let run = fabric.submit("deploy", &release).tag("service", "shop").await?;
        println!("grace asks for a deployment: execution {}", run.id());
        let letter = letters.recv().await.context("nobody was asked")?;
        reaches(&run, PublicState::Suspended).await?;
        let execution = run.get().await?;
        let holds = if execution.lease().is_some() { "holds a worker" } else { "holds no worker" };
        println!("it is {} ({}) and {holds}", execution.public_state(), execution.reason());

        let token = letter.token.reveal();
        let another = letter.action.replace("2.0", "2.1");
        let forged = forged(token);
        // Who answers, with which token, to which proposal, and how that looks from outside.
        let answers = [
            ("grace", token, &letter.action, "grace approves her own request"),
            ("mallory", token, &letter.action, "mallory, who is no approver, uses a stolen token"),
            ("ada", forged.as_str(), &letter.action, "somebody changes the signature"),
            ("ada", token, &another, "ada was shown version 2.1"),
            ("ada", token, &letter.action, "ada approves"),
            ("ada", token, &letter.action, "ada approves once more"),
            ("linus", token, &letter.action, "linus approves"),
        ];
        for (source, token, action, what) in answers {
            let sent =
                fabric.signal_with_token(token).action(action.as_bytes()).source(source).payload(&true);
            let answer = match sent.await.map(|signalled| signalled.effect) {
                Ok(Effect::Ignored(why)) => format!("ignored, {why}"),
                Ok(effect) => effect.word().to_owned(),
                Err(error) => error.code().to_owned(),
            };
            println!("  {what}: {answer}");
        }
        println!("{}", run.result::<String>().await?);
        println!("attempts: {}, steps:", run.attempts().await?.len());
        for step in run.steps().await? {
            println!("  {} {}", step.number, step.key);
        }
        Ok(())
    };
    work_while(worker, story).await?;
    stage.close().await;
    Ok(())
}
