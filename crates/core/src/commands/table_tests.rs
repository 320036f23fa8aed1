//! Every command in every state an execution can be in: what it becomes, or which refusal it gets.
//!
//! The table cannot have a hole: a new command or a new shape without its row or column does not compile.

use std::sync::Arc;

use super::testing::*;
use super::*;
use crate::agenda::{AgendaKey, Subject};
use crate::execution::Fence;
use crate::flow::{CancelPolicy, Join};
use crate::id::{FlowId, Route};
use crate::inbox::DeadLetter;
use crate::lane::{Lane, LaneMode};
use crate::message::Message;

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The states an execution can be in, told apart as far as commands do.
        #[derive(Clone, Copy, Debug)]
        enum Shape { $($(#[$doc])* $name),+ }

        const SHAPES: [Shape; [$(stringify!($name)),+].len()] = [$(Shape::$name),+];
    };
}

shapes!(
    Ready,
    /// Waiting for the start it was created with.
    Start,
    Backoff,
    /// Put off by its worker.
    PutOff,
    Active,
    /// Active, and asked to cancel within a grace.
    Asked,
    /// Active again after its worker had put it off.
    Resumed,
    Held,
    Completed,
    Failed,
    /// Cancelled while it ran.
    Cancelled,
    /// Past its deadline while it ran.
    Expired,
    /// Parked until a signal comes.
    Suspended,
    /// A member of a flow that waits for another.
    Blocked,
);

/// The flow of a member, or one that does not exist.
fn flow_id() -> FlowId {
    FlowId::from_parts(START, Route(0), 4711)
}

/// A flow of two nodes, of which the second is the given one.
fn flow_of(bench: &mut Bench, create: &Create) -> CreateFlow {
    let first = NewNode::new(bench.submission());
    let edges = vec![NewEdge::new(first.create.id, create.id)];
    let nodes = vec![first, NewNode::new(create.clone())];
    CreateFlow { nodes, edges, ..empty_flow(flow_id()) }
}

/// An execution in the given shape, with the fence of its newest lease (or of one it never had).
fn bring(bench: &mut Bench, shape: Shape) -> (Create, Fence) {
    let mut create = bench.submission();
    match shape {
        Shape::Ready => create.policy.schedule_to_start_ms = Some(60_000),
        Shape::Start => create.start = Some(When::In(60_000)),
        Shape::Expired => create.deadline = Some(When::In(1_000)),
        Shape::Backoff
        | Shape::PutOff
        | Shape::Active
        | Shape::Asked
        | Shape::Resumed
        | Shape::Held
        | Shape::Completed
        | Shape::Failed
        | Shape::Cancelled
        | Shape::Suspended
        | Shape::Blocked => {}
    }
    if let Shape::Blocked = shape {
        let flow = flow_of(bench, &create);
        bench.ok(flow);
    } else {
        bench.ok(create.clone());
    }
    let execution = create.id;
    let mut fence = Fence { execution, attempt: 1, epoch: 1 };
    if !matches!(shape, Shape::Ready | Shape::Start | Shape::Held | Shape::Blocked) {
        assert_eq!(bench.claim(), fence);
    }
    match shape {
        Shape::Ready | Shape::Start | Shape::Active | Shape::Blocked => {}
        Shape::Backoff => drop(bench.ok(fail(fence))),
        Shape::PutOff => drop(bench.ok(delay(fence, 20_000))),
        Shape::Asked => drop(bench.ok(cancel(execution, Some(5_000)))),
        Shape::Resumed => {
            bench.ok(delay(fence, 1_000));
            bench.pass(1_000);
            fence = bench.claim();
        }
        Shape::Held => drop(bench.ok(hold(execution))),
        Shape::Completed => drop(bench.ok(complete(fence))),
        Shape::Failed => drop(bench.ok(fail_fatally(fence))),
        Shape::Cancelled => drop(bench.ok(cancel(execution, None))),
        Shape::Expired => bench.pass(1_000),
        Shape::Suspended => drop(bench.ok(suspend(fence))),
    }
    (create, fence)
}

/// What a command does to each shape, in the order of [`SHAPES`]: `=` leaves it where it stands, `!` is a
/// refusal, `gone` removes it, and anything else is the reason of its new state.
#[rustfmt::skip]
fn row(command: &Command) -> [&'static str; SHAPES.len()] {
    const SAME: [&str; SHAPES.len()] = ["="; SHAPES.len()];
    const NO_FLOW: [&str; SHAPES.len()] = ["!not_found"; SHAPES.len()];
    /// Nothing of that name is in the registry.
    const UNKNOWN: [&str; SHAPES.len()] = NO_FLOW;
    const BAD: &str = "!invalid";
    fn last(mut row: [&'static str; SHAPES.len()], word: &'static str) -> [&'static str; SHAPES.len()] {
        row[SHAPES.len() - 1] = word;
        row
    }
    const LOST: &str = "!lease_lost";
    const OVER: &str = "!already_ended";
    const ENDED: &str = "!terminal";
    const LIVES: &str = "!not_terminal";
    const IDLE: &str = "!not_active";
    const READY: &str = "waiting_for_worker";
    const RETRY: &str = "retry_backoff";
    const AWAY: &str = "resume_delay";
    const CANCEL: &str = "cancelled_by_request";
    const PAUSED: &str = "paused_by_operator";
    const DONE: &str = "succeeded";
    const LATE: &str = "schedule_to_start_passed";
    const TIMED: &str = "suspension_timed_out";
    const WAITS: &str = "waiting_for_signal";
    const MOVES: &str = "!not_suspended";
    /// What a worker says of a lease that stands.
    const NOTED: [&str; SHAPES.len()] =
        [LOST, LOST, OVER, OVER, "=", "=", "=", LOST, OVER, OVER, LOST, LOST, OVER, LOST];
    const ISSUED: [&str; SHAPES.len()] = {
        let mut row = NO_FLOW;
        row[SHAPES.len() - 2] = "=";
        row
    };
    match command {
        //                          ready start backoff putoff active asked resumed held completed failed cancelled expired suspended blocked
        Command::Create(_)      => SAME,
        Command::Claim(_)       => ["running", "=", "=", "=", "=", "=", "=", "=", "=", "=", "=", "=", "=", "="],
        Command::Renew(_)       => [LOST, LOST, OVER, OVER, "=", "=", "=", LOST, OVER, OVER, LOST, LOST, OVER, LOST],
        Command::Complete(_)    => [LOST, LOST, OVER, OVER, DONE, DONE, DONE, LOST, "=", OVER, LOST, LOST, OVER, LOST],
        Command::Fail(_)        => [LOST, LOST, "=", OVER, RETRY, CANCEL, RETRY, LOST, OVER, "=", LOST, LOST, OVER, LOST],
        Command::Delay(_)       => [LOST, LOST, OVER, "=", AWAY, CANCEL, AWAY, LOST, OVER, OVER, LOST, LOST, OVER, LOST],
        Command::Release(_)     => [LOST, LOST, OVER, OVER, READY, CANCEL, READY, LOST, OVER, OVER, LOST, LOST, OVER, LOST],
        Command::Report(_)      => [LOST, LOST, OVER, OVER, "=", "=", "=", LOST, OVER, OVER, LOST, LOST, OVER, LOST],
        Command::Cancel(_)      => [CANCEL, CANCEL, CANCEL, CANCEL, CANCEL, CANCEL, CANCEL, CANCEL, ENDED, ENDED, "=", ENDED, CANCEL, CANCEL],
        Command::Hold(_)        => [PAUSED, PAUSED, PAUSED, PAUSED, PAUSED, CANCEL, PAUSED, "=", ENDED, ENDED, ENDED, ENDED, PAUSED, PAUSED],
        Command::Unhold(_)      => ["=", "=", "=", "=", "=", "=", "=", READY, ENDED, ENDED, ENDED, ENDED, "=", "="],
        Command::SetPriority(_) => ["=", "=", "=", "=", "=", "=", "=", "=", ENDED, ENDED, ENDED, ENDED, "=", "="],
        Command::Revoke(_)      => [IDLE, IDLE, IDLE, IDLE, READY, CANCEL, READY, IDLE, IDLE, IDLE, IDLE, IDLE, IDLE, IDLE],
        Command::Replay(_)      => [LIVES, LIVES, LIVES, LIVES, LIVES, LIVES, LIVES, LIVES, READY, READY, READY, READY, LIVES, LIVES],
        Command::Tag(_)         => SAME,
        Command::Remove(_)      => [LIVES, LIVES, LIVES, LIVES, LIVES, LIVES, LIVES, LIVES, "gone", "gone", "gone", "gone", LIVES, LIVES],
        Command::Fire(_)        => [LATE, READY, READY, READY, RETRY, CANCEL, RETRY, "=", "=", "=", "=", "=", TIMED, "="],
        Command::Suspend(_)     => [LOST, LOST, OVER, OVER, WAITS, CANCEL, WAITS, LOST, OVER, OVER, LOST, LOST, "=", LOST],
        Command::SendSignal(_)  => ["=", "=", "=", "=", "=", "=", "=", "=", ENDED, ENDED, ENDED, ENDED, READY, "="],
        Command::Resume(_)      => [MOVES, MOVES, MOVES, MOVES, MOVES, MOVES, MOVES, MOVES, MOVES, MOVES, MOVES, MOVES, READY, MOVES],
        Command::OpenWaitpoint(_) => NOTED,
        Command::RecordSteps(_)   => NOTED,
        Command::StartChild(_)    => NOTED,
        Command::Append(_)        => NOTED,
        Command::IssueToken(_)    => ISSUED,
        // Of these only a member of the flow has anything to say.
        Command::CreateFlow(_)     => last(SAME, "!flow_mismatch"),
        Command::AddNodes(_)       => last(NO_FLOW, "="),
        Command::AddEdges(_)       => last(NO_FLOW, "="),
        Command::Seal(_)           => last(NO_FLOW, "="),
        Command::SetGroupPolicy(_) => last(NO_FLOW, "="),
        Command::CancelFlow(_)     => last(NO_FLOW, "flow_cancelled"),
        Command::TagFlow(_)        => last(NO_FLOW, "="),
        Command::Expand(_)      => [LOST, LOST, OVER, OVER, BAD, BAD, BAD, LOST, "=", OVER, LOST, LOST, OVER, LOST],
        // What is done to workers, lanes and partitions moves an execution only through the agenda.
        Command::RegisterWorker(_) => SAME,
        Command::Heartbeat(_)      => SAME,
        Command::DrainWorker(_)    => SAME,
        Command::BuryWorker(_)     => SAME,
        Command::SetLane(_)        => SAME,
        Command::RotateKey(_)      => SAME,
        Command::CreateToken(_)    => SAME,
        Command::RevokeToken(_)    => UNKNOWN,
        Command::SetWebhook(_)     => SAME,
        Command::RemoveWebhook(_)  => UNKNOWN,
        Command::TakeWebhook(_)    => UNKNOWN,
        Command::NoteDelivery(_)   => UNKNOWN,
        Command::StartBulk(_)      => SAME,
        Command::TakeBulk(_)       => UNKNOWN,
        Command::AdvanceBulk(_)    => UNKNOWN,
        Command::StopBulk(_)       => UNKNOWN,
        Command::Apply(_)          => SAME,
        Command::Acknowledge(_)    => SAME,
        // A row whose id exists is only taken.
        Command::Receive(_)        => SAME,
        Command::RepostLetter(_)   => SAME,
        Command::DropLetter(_)     => SAME,
    }
}

/// One of each command, aimed at the execution.
fn commands(bench: &Bench, create: &Create, fence: Fence) -> Vec<Command> {
    let (id, flow) = (fence.execution, flow_id());
    let instance = bench.worker;
    let due = bench.get(id).live.timer.unwrap_or(bench.now);
    let entry = AgendaKey { due, subject: Subject::Timer(id) };
    let from = PartitionId(1);
    let other_lane = Lane { revision: 1, mode: LaneMode::Paused, ..Lane::default_of(lane("other")) };
    vec![
        create.clone().into(),
        Claim { poll: Arc::new(bench.poll()), max: 1 }.into(),
        renew(fence).into(),
        complete(fence).into(),
        fail(fence).into(),
        delay(fence, 1_000).into(),
        release(fence).into(),
        report(fence, 50).into(),
        cancel(id, None).into(),
        hold(id).into(),
        unhold(id).into(),
        set_priority(id, 7).into(),
        revoke(id).into(),
        replay(id).into(),
        tag(id, "team", "red").into(),
        remove(id).into(),
        bench.registration(instance).into(),
        Heartbeat { instance }.into(),
        drain(instance).into(),
        bury(instance).into(),
        SetLane { mode: Some(LaneMode::Paused), ..set_lane("default") }.into(),
        Fire { entry, seed: 7, after_outage: false }.into(),
        Apply { from, number: 1, message: Arc::new(Message::Lane(other_lane)) }.into(),
        Acknowledge { entry: AgendaKey { subject: Subject::Deliver { to: from, number: 1 }, ..entry } }
            .into(),
        bench.receive(|it| it.id = Some(id)).into(),
        repost_letter(bench.last_id).into(),
        drop_letter(bench.last_id).into(),
        empty_flow(flow_id()).into(),
        AddNodes { flow, expected_revision: None, nodes: vec![], edges: vec![], actor: "op".into() }.into(),
        AddEdges { flow, expected_revision: None, edges: vec![], actor: "op".into() }.into(),
        seal(flow).into(),
        set_group_policy(flow, id, Join::AllOf).into(),
        cancel_flow(flow, CancelPolicy::CancelAll).into(),
        TagFlow { flow, set: vec![], remove: vec![], actor: "op".into(), cause: "test".into() }.into(),
        Expand { fence, result: None, nodes: vec![], edges: vec![] }.into(),
        suspend(fence).into(),
        open_waitpoint(fence, "later").into(),
        signal(id, "go").into(),
        resume(id).into(),
        record_step(fence, "one", 0).into(),
        start_child(fence).into(),
        append(fence, 1, 2).into(),
        rotate_key(1, 0).into(),
        issue_token(id, 1).into(),
        create_token("tok_1", 1).into(),
        revoke_token("tok_1").into(),
        set_webhook("hook").into(),
        remove_webhook("hook").into(),
        take_webhook(None, Some("server")).into(),
        note_delivery(1, None, "c1.1", 200).into(),
        start_bulk("a").into(),
        take_bulk(None, Some("server")).into(),
        advance_bulk(1, Reached::End).into(),
        stop_bulk("a").into(),
    ]
}

#[test]
fn every_command_does_to_every_shape_what_the_table_says() {
    for memory in [Memory::Everything, Memory::Nothing] {
        for (column, shape) in SHAPES.into_iter().enumerate() {
            for (number, name) in Command::NAMES.iter().enumerate() {
                let mut bench = Bench::new();
                bench.memory = memory;
                let (create, fence) = bring(&mut bench, shape);
                let command = commands(&bench, &create, fence).swap_remove(number);
                assert_eq!(command.name(), *name);
                let expected = row(&command)[column];
                if let Command::Fire(fire) = &command {
                    bench.now = bench.now.max(fire.entry.due);
                    while bench.ws.agenda().mark() < bench.now {
                        bench.first_due();
                    }
                }
                let row = bench.receive(|it| it.id = Some(fence.execution)).posted;
                match &command {
                    Command::Receive(_) => drop(bench.store.inbox.insert(row.number, (*row).clone())),
                    Command::RepostLetter(_) | Command::DropLetter(_) => {
                        let letter =
                            DeadLetter { posted: (*row).clone(), reason: "why".into(), at: bench.now };
                        bench.store.dead_letters.insert(row.number, letter);
                    }
                    _ => {}
                }
                let before = bench.get(fence.execution).clone();
                let result = bench.run(command);
                check(&bench, &before, &result, expected, &format!("{name} on {shape:?}"));
            }
        }
    }
}

fn check(
    bench: &Bench,
    before: &crate::Execution,
    result: &Result<Reply, Rejection>,
    expected: &str,
    what: &str,
) {
    let after = bench.find(before.id);
    match (expected, expected.strip_prefix('!')) {
        (_, Some(refusal)) => {
            assert_eq!(code(result), refusal, "{what}");
            assert_eq!(after, Some(before), "{what}: a refusal changes nothing");
        }
        ("gone", _) => assert_eq!((code(result), after), ("ok", None), "{what}"),
        ("=", _) => {
            assert_eq!(code(result), "ok", "{what}");
            let place = |it: &crate::Execution| {
                (it.public_state(), it.reason(), it.live.epoch, it.live.series.clone())
            };
            assert_eq!(after.map(place), Some(place(before)), "{what}");
        }
        (reason, _) => {
            assert_eq!(code(result), "ok", "{what}");
            assert_eq!(after.map(|it| it.reason().word()), Some(reason), "{what}");
        }
    }
}
