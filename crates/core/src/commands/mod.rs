//! Every command, one file each, and [`decide`], which dispatches to them.

mod acknowledge;
mod advance_bulk;
mod append;
mod apply;
mod bury_worker;
mod cancel;
mod claim;
mod complete;
mod create;
mod create_token;
mod delay;
mod drain_worker;
mod drop_letter;
mod errand;
mod fail;
mod fire;
mod flows;
mod heartbeat;
mod hold;
mod issue_token;
mod lifecycle;
mod mail;
mod note_delivery;
mod open_waitpoint;
mod progress;
#[cfg(test)]
mod property_tests;
mod receive;
mod record_steps;
mod register_worker;
mod release;
mod remove;
mod remove_webhook;
mod renew;
mod replay;
mod repost_letter;
mod resume;
mod revoke;
mod revoke_token;
mod rotate_key;
mod send_signal;
mod set_lane;
mod set_priority;
mod set_webhook;
mod start_bulk;
mod start_child;
mod stop_bulk;
mod suspend;
mod sweep;
#[cfg(test)]
mod table_tests;
mod tag;
mod take_bulk;
mod take_webhook;
#[cfg(test)]
pub(crate) mod testing;
mod unhold;

pub use acknowledge::Acknowledge;
pub use advance_bulk::{AdvanceBulk, Reached};
pub use append::{Append, NewFrame};
pub use apply::Apply;
pub use bury_worker::BuryWorker;
pub use cancel::Cancel;
pub use claim::{ANSWER_BYTES_MAX, Claim, Poll, may_claim};
pub use complete::Complete;
pub use create::{Create, When};
pub use create_token::CreateToken;
pub use delay::Delay;
pub use drain_worker::DrainWorker;
pub use drop_letter::DropLetter;
pub use errand::Errand;
pub use fail::Fail;
pub use fire::Fire;
pub use flows::{
    AddEdges, AddNodes, CancelFlow, CreateFlow, Expand, NewChild, NewEdge, NewNode, Seal, SetGroupPolicy,
    TagFlow,
};
pub use heartbeat::Heartbeat;
pub use hold::Hold;
pub use issue_token::IssueToken;
pub use note_delivery::{NoteDelivery, Sent};
pub use open_waitpoint::{NewWaitpoint, OpenWaitpoint};
pub use progress::Report;
pub use receive::Receive;
pub use record_steps::{Drift, NewStep, RecordSteps};
pub use register_worker::RegisterWorker;
pub use release::Release;
pub use remove::Remove;
pub use remove_webhook::RemoveWebhook;
pub use renew::Renew;
pub use replay::Replay;
pub use repost_letter::RepostLetter;
pub use resume::Resume;
pub use revoke::Revoke;
pub use revoke_token::RevokeToken;
pub use rotate_key::RotateKey;
pub use send_signal::{SendSignal, To, token_is_good};
pub use set_lane::SetLane;
pub use set_priority::SetPriority;
pub use set_webhook::SetWebhook;
pub use start_bulk::StartBulk;
pub use start_child::StartChild;
pub use stop_bulk::StopBulk;
pub use suspend::Suspend;
pub use tag::Tag;
pub use take_bulk::TakeBulk;
pub use take_webhook::TakeWebhook;
pub use unhold::Unhold;

use crate::Ms;
use crate::id::{PartitionId, Route};
use crate::limits::Limits;
use crate::registry::HOME;
use crate::rejection::{Invalid, Rejection};
use crate::reply::Reply;
use crate::workspace::{Stop, Workspace};

/// What a command decides to: a reply, or the reason why it stopped.
pub type Decision = Result<Reply, Stop>;

macro_rules! commands {
    ($($name:ident),+ $(,)?) => {
        /// Everything that can be asked of a partition.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Command { $($name($name)),+ }

        impl Command {
            /// The names of all commands.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            pub fn name(&self) -> &'static str {
                match self { $(Command::$name(_) => stringify!($name)),+ }
            }

            fn decide(&self, workspace: &mut Workspace, now: Ms) -> Decision {
                match self { $(Command::$name(command) => command.decide(workspace, now)),+ }
            }
        }

        $(impl From<$name> for Command {
            fn from(command: $name) -> Command {
                Command::$name(command)
            }
        })+
    };
}

commands!(
    Create,
    Claim,
    Renew,
    Complete,
    Fail,
    Delay,
    Release,
    Report,
    Cancel,
    Hold,
    Unhold,
    SetPriority,
    Revoke,
    Replay,
    Tag,
    Remove,
    RegisterWorker,
    Heartbeat,
    DrainWorker,
    BuryWorker,
    SetLane,
    Fire,
    Apply,
    Acknowledge,
    Receive,
    RepostLetter,
    DropLetter,
    CreateFlow,
    AddNodes,
    AddEdges,
    Seal,
    SetGroupPolicy,
    CancelFlow,
    TagFlow,
    Expand,
    Suspend,
    OpenWaitpoint,
    SendSignal,
    Resume,
    RecordSteps,
    StartChild,
    Append,
    RotateKey,
    IssueToken,
    CreateToken,
    RevokeToken,
    SetWebhook,
    RemoveWebhook,
    TakeWebhook,
    NoteDelivery,
    StartBulk,
    TakeBulk,
    AdvanceBulk,
    StopBulk,
);

/// Decides one command. On `Err` the workspace is as it was before.
pub fn decide(workspace: &mut Workspace, now: Ms, command: &Command) -> Decision {
    workspace.begin_command();
    let decision = command.decide(workspace, now);
    let decision = decision.and_then(|reply| flows::settle(workspace, now).map(|()| reply));
    if decision.is_err() {
        workspace.roll_back();
    }
    decision
}

/// In which order the commands of one batch are decided: what ends or keeps leases first, so that a renewal
/// and the expiry it prevents cannot meet the wrong way round; then what is due; then the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    Leases,
    Due,
    Rest,
}

impl Command {
    /// When within its batch it is decided.
    pub fn turn(&self) -> Turn {
        use Command::*;
        match self {
            Renew(_) | Complete(_) | Expand(_) | Fail(_) | Delay(_) | Release(_) | Report(_) | Suspend(_)
            | OpenWaitpoint(_) | RecordSteps(_) | StartChild(_) | Append(_) | Heartbeat(_) => Turn::Leases,
            Fire(_) => Turn::Due,
            _ => Turn::Rest,
        }
    }

    /// Which partition must decide it; `None` if the caller has to say (a claim, a message, a timer, a posted
    /// row).
    pub fn route(&self) -> Option<Route> {
        use Command::*;
        Some(match self {
            Create(it) => it.id.route(),
            Complete(it) => it.fence.execution.route(),
            Fail(it) => it.fence.execution.route(),
            Delay(it) => it.fence.execution.route(),
            Release(it) => it.fence.execution.route(),
            Report(it) => it.fence.execution.route(),
            Cancel(it) => it.execution.route(),
            Hold(it) => it.execution.route(),
            Unhold(it) => it.execution.route(),
            SetPriority(it) => it.execution.route(),
            Revoke(it) => it.execution.route(),
            Replay(it) => it.execution.route(),
            Tag(it) => it.execution.route(),
            Remove(it) => it.execution.route(),
            RegisterWorker(it) => it.instance.route(),
            Heartbeat(it) => it.instance.route(),
            DrainWorker(it) => it.instance.route(),
            BuryWorker(it) => it.instance.route(),
            SetLane(it) => Route::of_name(&it.lane),
            RepostLetter(it) => Route(it.partition.0),
            DropLetter(it) => Route(it.partition.0),
            CreateFlow(it) => it.id.route(),
            AddNodes(it) => it.flow.route(),
            AddEdges(it) => it.flow.route(),
            Seal(it) => it.flow.route(),
            SetGroupPolicy(it) => it.flow.route(),
            CancelFlow(it) => it.flow.route(),
            TagFlow(it) => it.flow.route(),
            Expand(it) => it.fence.execution.route(),
            Suspend(it) => it.fence.execution.route(),
            OpenWaitpoint(it) => it.fence.execution.route(),
            SendSignal(it) => it.to.execution().route(),
            Resume(it) => it.execution.route(),
            RecordSteps(it) => it.fence.execution.route(),
            StartChild(it) => it.fence.execution.route(),
            Append(it) => it.fence.execution.route(),
            RotateKey(_) => Route(0),
            CreateToken(_) | RevokeToken(_) | SetWebhook(_) | RemoveWebhook(_) | TakeWebhook(_)
            | NoteDelivery(_) | StartBulk(_) | TakeBulk(_) | AdvanceBulk(_) | StopBulk(_) => HOME,
            IssueToken(it) => it.waitpoint.execution.route(),
            Claim(_) | Renew(_) | Fire(_) | Apply(_) | Acknowledge(_) | Receive(_) => return None,
        })
    }

    /// The partition of its [`route`](Self::route).
    pub fn partition(&self, partitions: u16) -> Option<PartitionId> {
        self.route().map(|route| route.partition(partitions))
    }

    /// Checks everything that can be checked without looking at stored state, so that bad input costs the
    /// partition nothing.
    pub fn validate(&self, limits: &Limits) -> Result<(), Rejection> {
        use Command::*;
        match self {
            Create(it) => it.validate(limits)?,
            Complete(it) => it.validate(limits)?,
            Fail(it) => it.validate(limits)?,
            Delay(it) => it.validate(limits)?,
            Report(it) => it.validate(limits)?,
            Cancel(it) => it.validate(limits)?,
            Hold(it) => check_by(&it.actor, &it.cause)?,
            Unhold(it) => check_by(&it.actor, &it.cause)?,
            SetPriority(it) => it.validate()?,
            Revoke(it) => check_by(&it.actor, &it.cause)?,
            Replay(it) => check_by(&it.actor, &it.cause)?,
            Tag(it) => check_by(&it.actor, &it.cause)?,
            Remove(it) => check_by(&it.actor, &it.cause)?,
            RegisterWorker(it) => it.validate(limits)?,
            DrainWorker(it) => check_by(&it.actor, &it.cause)?,
            BuryWorker(it) => check_by(&it.actor, &it.cause)?,
            SetLane(it) => it.validate(limits)?,
            RepostLetter(it) => check_by(&it.actor, &it.cause)?,
            DropLetter(it) => check_by(&it.actor, &it.cause)?,
            CreateFlow(it) => it.validate(limits)?,
            AddNodes(it) => it.validate(limits)?,
            AddEdges(it) => it.validate(limits)?,
            Seal(it) => check_by(&it.actor, &it.cause)?,
            SetGroupPolicy(it) => it.validate()?,
            CancelFlow(it) => check_by(&it.actor, &it.cause)?,
            TagFlow(it) => check_by(&it.actor, &it.cause)?,
            Expand(it) => it.validate(limits)?,
            Suspend(it) => it.validate(limits)?,
            OpenWaitpoint(it) => it.validate(limits)?,
            SendSignal(it) => it.validate(limits)?,
            Resume(it) => check_by(&it.actor, &it.cause)?,
            IssueToken(it) => check_by(&it.actor, &it.cause)?,
            RecordSteps(it) => it.validate(limits)?,
            StartChild(it) => it.validate(limits)?,
            Append(it) => it.validate(limits)?,
            RotateKey(it) => it.validate(limits)?,
            CreateToken(it) => it.validate(limits)?,
            RevokeToken(it) => check_by(&it.actor, &it.cause)?,
            SetWebhook(it) => it.validate()?,
            RemoveWebhook(it) => check_by(&it.actor, &it.cause)?,
            TakeWebhook(it) => it.validate()?,
            NoteDelivery(it) => it.validate()?,
            StartBulk(it) => it.validate(limits)?,
            TakeBulk(it) => it.validate()?,
            StopBulk(it) => check_by(&it.actor, &it.cause)?,
            // A posted row is checked when it is decided: what is wrong with it must be kept, not answered.
            Receive(_) => {}
            Claim(_) | Renew(_) | Release(_) | Heartbeat(_) | Fire(_) | Apply(_) | Acknowledge(_)
            | AdvanceBulk(_) => {}
        }
        Ok(())
    }

    /// Whether it may be sent again when it is not known what became of it. Most have one effect and one answer however often
    /// they arrive; these would act on what has come since, or deny what they have done.
    pub fn is_repeatable(&self) -> bool {
        match self {
            Command::Replay(_) | Command::Revoke(_) | Command::Resume(_) | Command::Remove(_) => false,
            Command::RepostLetter(_) | Command::DropLetter(_) | Command::RotateKey(_) => false,
            Command::SendSignal(it) => it.key.is_some(),
            _ => true,
        }
    }

    /// The command as it is sent a second time: an id that was fresh may have been used by the first.
    pub fn repeated(mut self) -> Command {
        let nodes = match &mut self {
            Command::Create(create) => {
                create.fresh = false;
                return self;
            }
            Command::StartChild(it) => {
                it.create.fresh = false;
                return self;
            }
            Command::CreateFlow(it) => {
                it.fresh = false;
                &mut it.nodes
            }
            Command::AddNodes(it) => &mut it.nodes,
            Command::Expand(it) => &mut it.nodes,
            _ => return self,
        };
        not_fresh(nodes);
        self
    }

    /// Roughly how many bytes it carries, for bounding queues and batches.
    pub fn weight(&self) -> usize {
        match self {
            Command::Create(it) => 512 + it.input.len(),
            Command::Complete(it) => 256 + it.result.as_ref().map_or(0, |result| result.len()),
            Command::Receive(it) => it.posted.weight(),
            Command::Fail(it) => 256 + it.error.message.len(),
            Command::CreateFlow(it) => flow_weight(&it.nodes, &it.edges),
            Command::AddNodes(it) => flow_weight(&it.nodes, &it.edges),
            Command::AddEdges(it) => flow_weight(&[], &it.edges),
            Command::Expand(it) => flow_weight(&it.nodes, &it.edges),
            Command::SendSignal(it) => 512 + it.payload.len(),
            Command::RecordSteps(it) => it.steps.iter().map(|step| 256 + step.result.len()).sum(),
            Command::StartChild(it) => 512 + it.create.input.len(),
            Command::StartBulk(it) => match &it.selection {
                crate::registry::Selection::Ids(ids) => 512 + ids.len() * 40,
                crate::registry::Selection::Filter { .. } => 2_048,
            },
            Command::Append(it) => it.frames.iter().map(|frame| 128 + frame.bytes.len()).sum(),
            _ => 256,
        }
    }
}

fn not_fresh(nodes: &mut [NewNode]) {
    for node in nodes {
        node.create.fresh = false;
        node.child.iter_mut().for_each(|child| not_fresh(&mut child.nodes));
    }
}

fn flow_weight(nodes: &[NewNode], edges: &[NewEdge]) -> usize {
    let child = |node: &NewNode| node.child.as_ref().map_or(0, |it| flow_weight(&it.nodes, &it.edges));
    let weight = |node: &NewNode| 1_024 + node.create.input.len() + child(node);
    512 + nodes.iter().map(weight).sum::<usize>() + edges.len() * 256
}

const BY_BYTES_MAX: usize = 512;

/// Checks who did something and why.
fn check_by(actor: &str, cause: &str) -> Result<(), Invalid> {
    check_text("actor", actor, BY_BYTES_MAX)?;
    check_text("cause", cause, BY_BYTES_MAX)
}

fn check_text(field: &'static str, text: &str, max: usize) -> Result<(), Invalid> {
    if text.len() > max {
        return Err(Invalid::new(field, format!("has {} bytes; allowed are at most {max}", text.len())));
    }
    if text.contains('\0') {
        return Err(Invalid::new(field, "contains a U+0000 character; remove it"));
    }
    Ok(())
}
