//! One question, several models: the first good answer wins, spares start only when they are needed, and whoever is
//! not needed any more is stopped in the middle of its sentence.

use std::time::Duration;

use anyhow::Result;
use ff_examples::{Stage, work_while};
use flowfabric::{Context, PublicState, Retryable, TaskFailure, Worker};
use serde::{Deserialize, Serialize};

/// How long a model may be at it before the next one is asked, too.
const HEDGE: Duration = Duration::from_millis(500);
const QUESTION: &str = "why is the sky blue?";
const ANSWER: &str = "because air scatters short waves of light more than long ones";
/// More members than the flow has.
const ALL: usize = 100;

/// A model, as far as this program plays it: how fast it speaks, and whether it takes the question at all.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Model {
    name: String,
    token_ms: u64,
    overloaded: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    by: String,
    text: String,
}

/// Tells when a model is stopped: its handler is dropped where it waits.
struct Speaking {
    name: String,
    said: usize,
    done: bool,
}

impl Drop for Speaking {
    fn drop(&mut self) {
        if !self.done {
            println!("  {} is stopped after {} words", self.name, self.said);
        }
    }
}

async fn ask(ctx: Context, model: Model) -> Result<Answer, TaskFailure> {
    let mut speaking = Speaking { name: model.name.clone(), said: 0, done: false };
    println!("  {} is asked", model.name);
    if model.overloaded {
        speaking.done = true;
        println!("  {} is overloaded", model.name);
        return Err(Retryable("the model is overloaded").code("overloaded"));
    }
    for word in ANSWER.split(' ') {
        tokio::time::sleep(Duration::from_millis(model.token_ms)).await;
        ctx.emit("token", word).await?;
        speaking.said += 1;
    }
    speaking.done = true;
    Ok(Answer { by: model.name, text: ANSWER.to_owned() })
}

#[derive(Deserialize)]
struct Picked {
    inputs: Inputs,
}

#[derive(Deserialize)]
struct Inputs {
    answer: Answer,
}

/// Whoever was first is in the input; nothing is left to choose.
async fn answer(_: Context, Picked { inputs }: Picked) -> Result<Answer, TaskFailure> {
    Ok(inputs.answer)
}

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::open().await?;
    let fabric = &stage.fabric;
    let worker = Worker::new(fabric).name("models").lane("models").on("ask", ask).on("answer", answer);

    let story = async {
        // In the order in which they are asked: the cheapest first.
        let models = [("small", 350, false), ("medium", 0, true), ("large", 30, false), ("huge", 10, false)];
        let flow = fabric.flow("race").tag("question", "sky");
        let asked = models.map(|(name, token_ms, overloaded)| {
            let model = Model { name: name.to_owned(), token_ms, overloaded };
            flow.node("ask", &model).name(name).lane("models").attempts(1)
        });
        let results: Vec<_> = asked.iter().map(|model| model.result_as("answer")).collect();
        flow.node("answer", &()).lane("models").any_of(results).hedge(HEDGE);
        println!("{QUESTION}");
        let run = flow.submit().await?;
        let first: Answer = run.result().await?;
        println!("{} answers: {}", first.by, first.text);

        println!("flow {}: {}", run.id(), run.state().await?);
        for member in run.graph(ALL).await?.members {
            let name = member.node_name().map_or_else(String::new, ToString::to_string);
            let words = fabric.run(member.id).frames().await?.len();
            let starts = fabric.attempts(member.id).await?.len();
            print!("  {name:<8} {:<10} {:<26}", member.public_state(), member.reason());
            match (starts, member.public_state()) {
                (0, _) => println!("was never started"),
                (_, PublicState::Cancelled) => println!("{words} words, and no more are paid for"),
                _ => println!("{words} words"),
            }
        }
        Ok(())
    };
    work_while(worker, story).await?;
    stage.close().await;
    Ok(())
}
