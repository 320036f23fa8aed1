//! A film goes through four stages, and whoever watches sees each of them at work while it works.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use ff_examples::{Stage, work_while};
use flowfabric::{Context, Fatal, Output, TaskFailure, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const WIDTH: usize = 48;
const HEIGHT: usize = 12;
const PICTURES: usize = 24;
/// How long the camera takes for a picture.
const SHUTTER: Duration = Duration::from_millis(30);

/// What a stage hands to the next: large things stay where they are, and only their place is passed on.
#[derive(Debug, Serialize, Deserialize)]
struct Film {
    path: PathBuf,
    bytes: usize,
}

#[derive(Debug, Deserialize)]
struct Input {
    folder: PathBuf,
    #[serde(default)]
    inputs: Films,
}

#[derive(Debug, Default, Deserialize)]
struct Films {
    raw: Option<Film>,
    packed: Option<Film>,
}

/// The picture of a ball that bounces through the dark.
fn picture(n: usize) -> Vec<u8> {
    let (x, y) = (2 * n, n % (2 * HEIGHT - 2));
    let y = if y < HEIGHT { y } else { 2 * HEIGHT - 2 - y };
    let is_ball = |at: usize| (at % WIDTH).abs_diff(x) <= 1 && (at / WIDTH).abs_diff(y) <= 1;
    (0..WIDTH * HEIGHT).map(|at| if is_ball(at) { b'#' } else { b'.' }).collect()
}

/// Run-length coding: how often, and what.
fn pack(picture: &[u8]) -> Vec<u8> {
    let runs = picture.chunk_by(|a, b| a == b).flat_map(|run| run.chunks(255));
    runs.flat_map(|run| [u8::try_from(run.len()).unwrap_or(255), run[0]]).collect()
}

fn unpack(packed: &[u8]) -> Vec<u8> {
    packed.chunks_exact(2).flat_map(|run| std::iter::repeat_n(run[1], run[0].into())).collect()
}

fn missing() -> TaskFailure {
    Fatal("the stage before has passed nothing on").code("no_film")
}

async fn record(ctx: Context, input: Input) -> Result<Film, TaskFailure> {
    let mut film = Vec::new();
    for n in 0..PICTURES {
        tokio::time::sleep(SHUTTER).await;
        film.extend(picture(n));
        ctx.emit("picture", format!("picture {}", n + 1)).await?;
    }
    let path = input.folder.join("film.raw");
    std::fs::write(&path, &film)?;
    Ok(Film { path, bytes: film.len() })
}

async fn transcode(ctx: Context, input: Input) -> Result<Film, TaskFailure> {
    let raw = std::fs::read(input.inputs.raw.ok_or_else(missing)?.path)?;
    let mut film = Vec::new();
    for (n, picture) in raw.chunks(WIDTH * HEIGHT).enumerate() {
        let packed = pack(picture);
        ctx.emit("packed", format!("picture {}: {} -> {} bytes", n + 1, picture.len(), packed.len())).await?;
        film.extend(packed);
        ctx.summary(&json!({ "pictures": n + 1, "bytes": film.len() })).await?;
    }
    let path = input.folder.join("film.rle");
    std::fs::write(&path, &film)?;
    Ok(Film { path, bytes: film.len() })
}

async fn thumbnail(ctx: Context, input: Input) -> Result<String, TaskFailure> {
    let film = unpack(&std::fs::read(input.inputs.packed.ok_or_else(missing)?.path)?);
    let middle = film.chunks(WIDTH * HEIGHT).nth(PICTURES / 3).ok_or_else(missing)?;
    let lines: Vec<_> = middle.chunks(WIDTH).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    for line in &lines {
        ctx.emit("line", line.clone()).await?;
    }
    Ok(lines.join("\n"))
}

async fn publish(ctx: Context, input: Input) -> Result<Value, TaskFailure> {
    let (Some(raw), Some(packed)) = (input.inputs.raw, input.inputs.packed) else { return Err(missing()) };
    if unpack(&std::fs::read(&packed.path)?) != std::fs::read(&raw.path)? {
        return Err(Fatal("the packed film is another film").code("damaged"));
    }
    ctx.emit("note", "the packed film was compared with the raw one: the same").await?;
    Ok(json!({ "pictures": PICTURES, "raw_bytes": raw.bytes, "packed_bytes": packed.bytes }))
}

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::open().await?;
    let fabric = &stage.fabric;
    let worker = Worker::new(fabric).name("studio").lane("media").on("record", record);
    let worker = worker.on("transcode", transcode).on("thumbnail", thumbnail).on("publish", publish);

    let story = async {
        let folder = tempfile::tempdir()?;
        let input = json!({ "folder": folder.path() });
        let flow = fabric.flow("film");
        let node = |kind: &str| flow.node(kind, &input).lane("media");
        let raw = node("record");
        let packed = node("transcode").input("raw", &raw);
        let thumbnail = node("thumbnail").input("packed", &packed);
        let published = node("publish").input("raw", &raw).input("packed", &packed).after(&thumbnail);
        let run = flow.submit().await?;
        println!("flow {}", run.id());
        for (name, node) in
            [("record", &raw), ("transcode", &packed), ("thumbnail", &thumbnail), ("publish", &published)]
        {
            let mut tail = run.node(node).tail(None).await?;
            while let Some(output) = tail.next().await? {
                match output {
                    Output::Frame(frame) if &*frame.kind != "summary" => {
                        println!("{name:>10} | {}", String::from_utf8_lossy(&frame.bytes))
                    }
                    Output::Ended(state) => println!("{name:>10} = {state}"),
                    Output::Frame(_) | Output::Closed { .. } => {}
                }
            }
        }
        let summary = run.node(&packed).summary().await?;
        println!(
            "summary of transcode: {}",
            summary.map_or_else(String::new, |it| it.document.get().to_owned())
        );
        println!("result: {}", run.result::<Value>().await?);
        Ok(())
    };
    work_while(worker, story).await?;
    stage.close().await;
    Ok(())
}
