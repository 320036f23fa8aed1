//! The part that waits for a person: the demonstration grants itself what it asks for, with a signed token.

use std::time::Duration;

use flowfabric::{Context, Effect, Ignored, Reason, TaskFailure, WaitpointId};
use serde_json::Value;

use super::Stage;
use super::parts::{Part, Verdict, ended, pause, submit, task};
use crate::problem::Problem;

const NAME: &str = "approval";
const ACTION: &[u8] = b"refund 120.00";

/// Asks for an approval and waits for it without holding a worker.
pub async fn refund(ctx: Context, _: Value) -> Result<String, TaskFailure> {
    let approval =
        ctx.waitpoint(NAME).action(ACTION).requester("robot").expires(Duration::from_secs(600)).await?;
    let approved = approval.wait::<bool>().reason(Reason::WaitingForApproval).await?;
    Ok(approved.source.map_or_else(String::new, |source| format!("approved by {source}")))
}

pub async fn approval(stage: &Stage) -> Result<Verdict, Problem> {
    let part = Part::Approval;
    let runs = submit(stage, vec![task(part, "refund", 120).priority(10)]).await?;
    let waitpoint = in_the_inbox(stage).await?;
    let holds_a_worker = runs[0].get().await?.lease().is_some();
    stage.live.say("a refund waits for an approval and holds no worker");
    let token = stage.fabric.issue_token(waitpoint).await?.token;
    let sign =
        |source| stage.fabric.signal_with_token(token.reveal()).action(ACTION).payload(&true).source(source);
    let own = sign("robot").await?.effect;
    let granted = sign("ada").await?.effect;
    let (good, attempts) = ended(part, &runs).await?;
    let result: String = runs[0].result().await?;
    stage.live.say("the approval was granted with a signed token, and the refund went on");
    let refused_own = own == Effect::Ignored(Ignored::OwnRequest);
    let once = attempts[0].len() == 1 && granted == Effect::Satisfied && result == "approved by ada";
    let detail = "granted with a signed token; the requester's own yes did not count".to_owned();
    Ok(Verdict::new(part, good && refused_own && once && !holds_a_worker, detail))
}

/// Waits until somebody is asked.
async fn in_the_inbox(stage: &Stage) -> Result<WaitpointId, Problem> {
    loop {
        let page = stage.fabric.waitpoints().name(NAME).reason(Reason::WaitingForApproval).await?;
        if let Some(waitpoint) = page.waitpoints.first() {
            return Ok(waitpoint.id);
        }
        pause(10).await;
    }
}
