//! The commands, one file each.

mod bench;
mod bulk;
mod cancel;
mod completions;
mod counts;
mod demo;
mod doctor;
mod explain;
mod flow;
mod get;
mod health;
mod hold;
mod inbox;
mod info;
mod key;
mod lane;
mod list;
mod metrics;
mod namespaces;
mod operate;
mod payload;
mod priority;
mod release;
mod remove;
mod replay;
mod result;
mod resume;
mod revoke;
pub mod serve;
mod signal;
mod signals;
mod steps;
pub mod store;
mod stream;
mod submit;
mod tag;
mod tail;
mod token;
mod waitpoint;
mod wanted;
mod watch;
mod webhook;
mod worker;
mod workers;

use clap::Subcommand;

use crate::problem::Problem;
use crate::settings::Settings;

#[derive(Subcommand, Debug)]
pub enum Command {
    Demo(demo::Demo),
    Serve(serve::Serve),
    Submit(submit::Submit),
    Get(get::Get),
    Result(result::Result),
    List(list::List),
    Watch(watch::Watch),
    Explain(explain::Explain),
    Cancel(cancel::Cancel),
    Flow(flow::Flow),
    Waitpoint(waitpoint::Waitpoint),
    Signal(signal::Signal),
    Signals(signals::Signals),
    Resume(resume::Resume),
    Stream(stream::Stream),
    Steps(steps::Steps),
    Key(key::Key),
    Token(token::Token),
    Webhook(webhook::Webhook),
    Bulk(bulk::Bulk),
    Replay(replay::Replay),
    Hold(hold::Hold),
    Release(release::Release),
    Revoke(revoke::Revoke),
    Priority(priority::Priority),
    Tag(tag::Tag),
    Remove(remove::Remove),
    Counts(counts::Counts),
    Namespaces(namespaces::Namespaces),
    Info(info::Info),
    Health(health::Health),
    Metrics(metrics::Metrics),
    Tail(tail::Tail),
    Worker(worker::Worker),
    Workers(workers::Workers),
    Lane(lane::Lane),
    Inbox(inbox::Inbox),
    Store(store::Store),
    Doctor(doctor::Doctor),
    Bench(bench::Bench),
    Completions(completions::Completions),
    #[command(name = "__demo-worker", hide = true)]
    DemoWorker(crate::demo::doomed::DoomedWorker),
}

pub async fn run(command: Command, settings: Settings) -> Result<(), Problem> {
    match command {
        Command::Demo(it) => it.run(&settings).await,
        Command::Serve(it) => it.run(&settings).await,
        Command::Submit(it) => it.run(&settings).await,
        Command::Get(it) => it.run(&settings).await,
        Command::Result(it) => it.run(&settings).await,
        Command::List(it) => it.run(&settings).await,
        Command::Watch(it) => it.run(&settings).await,
        Command::Explain(it) => it.run(&settings).await,
        Command::Cancel(it) => it.run(&settings).await,
        Command::Flow(it) => it.run(&settings).await,
        Command::Waitpoint(it) => it.run(&settings).await,
        Command::Signal(it) => it.run(&settings).await,
        Command::Signals(it) => it.run(&settings).await,
        Command::Resume(it) => it.run(&settings).await,
        Command::Stream(it) => it.run(&settings).await,
        Command::Steps(it) => it.run(&settings).await,
        Command::Key(it) => it.run(&settings).await,
        Command::Token(it) => it.run(&settings).await,
        Command::Webhook(it) => it.run(&settings).await,
        Command::Bulk(it) => it.run(&settings).await,
        Command::Replay(it) => it.run(&settings).await,
        Command::Hold(it) => it.run(&settings).await,
        Command::Release(it) => it.run(&settings).await,
        Command::Revoke(it) => it.run(&settings).await,
        Command::Priority(it) => it.run(&settings).await,
        Command::Tag(it) => it.run(&settings).await,
        Command::Remove(it) => it.run(&settings).await,
        Command::Counts(it) => it.run(&settings).await,
        Command::Namespaces(it) => it.run(&settings).await,
        Command::Info(it) => it.run(&settings).await,
        Command::Health(it) => it.run(&settings).await,
        Command::Metrics(it) => it.run(&settings).await,
        Command::Tail(it) => it.run(&settings).await,
        Command::Worker(it) => it.run(&settings).await,
        Command::Workers(it) => it.run(&settings).await,
        Command::Lane(it) => it.run(&settings).await,
        Command::Inbox(it) => it.run(&settings).await,
        Command::Store(it) => it.run(&settings).await,
        Command::Doctor(it) => it.run(&settings).await,
        Command::Bench(it) => it.run(&settings).await,
        Command::Completions(it) => it.run(),
        Command::DemoWorker(it) => it.run(&settings).await,
    }
}
