//! A payment at a third party, which is given a token and calls back when it is done: at once, later, or never.

use std::time::Duration;

use anyhow::{Context as _, Result};
use ff_examples::{Stage, reaches, work_while};
use flowfabric::{Context, Effect, Fabric, PublicState, Reason, TaskFailure, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// How long an order waits for its payment.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    number: u32,
    customer: String,
    cents: u64,
}

/// What a provider is asked for. The token is all it knows of us: no account, no password.
#[derive(Clone, Debug)]
struct Charge {
    order: Order,
    token: String,
}

/// The payment provider. Some customers' banks answer at once; others' charges lie on its desk.
#[derive(Debug)]
struct Provider {
    line: Fabric,
    desk: mpsc::UnboundedSender<Charge>,
}

impl Provider {
    async fn charge(&self, charge: Charge) {
        if charge.order.customer == "prompt" {
            // Providers promise to call at least once, and this one is known to keep that promise.
            call_back(&self.line, &charge).await;
            call_back(&self.line, &charge).await;
        } else {
            let _ = self.desk.send(charge);
        }
    }
}

/// What a provider does: one request, with the token, its own number for the charge, and what was paid.
async fn call_back(line: &Fabric, Charge { order, token }: &Charge) {
    let sent = line
        .signal_with_token(token)
        .source("provider")
        .correlation(&format!("order-{}", order.number))
        .idempotency_key(&format!("charge-{}", order.number))
        .payload(&order.cents)
        .await;
    let answer = match sent.map(|signalled| signalled.effect) {
        Ok(Effect::Ignored(why)) => format!("ignored, {why}"),
        Ok(effect) => effect.word().to_owned(),
        Err(error) => error.code().to_owned(),
    };
    println!("  the provider calls back about order {}: {answer}", order.number);
}

async fn fulfil(ctx: Context, order: Order) -> Result<String, TaskFailure> {
    let number = order.number;
    let payment = ctx.waitpoint("payment").expires(Duration::from_secs(3600)).await?;
    let provider = ctx.data::<Provider>()?;
    ctx.step("charge", async || {
        println!("order {number}: the provider is asked for {} cents", order.cents);
        let token = payment.token().await?.reveal().to_owned();
        provider.charge(Charge { order: order.clone(), token }).await;
        Ok(())
    })
    .await?;
    // The waitpoint was there before the provider was asked, so an answer that is faster than we are counts.
    let paid = payment.wait::<u64>().or_timeout(PATIENCE).reason(Reason::WaitingForCallback).await?;
    Ok(match paid {
        Some(paid) => {
            let correlation = paid.correlation.unwrap_or_default();
            format!("shipped, {} cents were paid ({correlation})", paid.payload)
        }
        None => "put aside, the provider has not answered in time".to_owned(),
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::open().await?;
    let fabric = &stage.fabric;
    let (desk, mut charges) = mpsc::unbounded_channel();
    let provider = Provider { line: fabric.clone(), desk };
    let worker = Worker::new(fabric).name("shop").data(provider).on("fulfil", fulfil);

    let story = async {
        let order = |number, customer: &str| Order { number, customer: customer.to_owned(), cents: 1_999 };
        let submit = async |order: Order| fabric.submit("fulfil", &order).await;

        let prompt = submit(order(1, "prompt")).await?;
        println!("order 1: {}", prompt.result::<String>().await?);

        let slow = submit(order(2, "slow")).await?;
        let charge = charges.recv().await.context("the provider was not asked")?;
        reaches(&slow, PublicState::Suspended).await?;
        let execution = slow.get().await?;
        let holds = if execution.lease().is_some() { "holds a worker" } else { "holds no worker" };
        println!("order 2: it is {} ({}) and {holds}", execution.public_state(), execution.reason());
        call_back(fabric, &charge).await;
        println!("order 2: {}", slow.result::<String>().await?);

        let silent = submit(order(3, "silent")).await?;
        let charge = charges.recv().await.context("the provider was not asked")?;
        println!("order 3: {}", silent.result::<String>().await?);
        call_back(fabric, &charge).await;

        // What is stolen is worth little: the token of one order is no good for another.
        let mut parts: Vec<&str> = charge.token.split('.').collect();
        let other = submit(order(4, "slow")).await?;
        let next = charges.recv().await.context("the provider was not asked")?;
        reaches(&other, PublicState::Suspended).await?;
        parts[2] = next.token.split('.').nth(2).unwrap_or_default();
        println!("order 4: somebody tries the signature of order 3 on it");
        call_back(fabric, &Charge { token: parts.join("."), ..next.clone() }).await;
        call_back(fabric, &next).await;
        println!("order 4: {}", other.result::<String>().await?);
        Ok(())
    };
    work_while(worker, story).await?;
    stage.close().await;
    Ok(())
}
