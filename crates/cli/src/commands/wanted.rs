//! Which executions: the filters that several commands share.

use clap::Args;
use flowfabric::{
    Filter, FlowId, InstanceId, Kind, LaneName, Ms, Namespace, PublicState, Reason, WorkerName,
};

use crate::parse;

/// Everything that is given must hold.
#[derive(Args, Debug)]
#[command(next_help_heading = "Filters")]
pub struct Wanted {
    /// In this state; may be given several times
    #[arg(long, value_parser = parse::state)]
    state: Vec<PublicState>,
    #[arg(long, value_name = "NAME")]
    lane: Option<LaneName>,
    #[arg(long, value_name = "NAME")]
    kind: Option<Kind>,
    #[arg(long, value_name = "NAME")]
    namespace: Option<Namespace>,
    /// Members of this flow
    #[arg(long, value_name = "ID")]
    flow: Option<FlowId>,
    /// With this tag; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse::tag)]
    tag: Vec<(String, String)>,
    /// For this reason, such as retry_backoff or deadline_passed
    #[arg(long, value_parser = parse::reason)]
    reason: Option<Reason>,
    /// Whose last attempt failed with this code
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    error_text: Option<String>,
    /// Whose last attempt was on this worker
    #[arg(long, value_name = "NAME")]
    worker: Option<WorkerName>,
    /// Whose last attempt was on this worker instance
    #[arg(long, value_name = "ID")]
    instance: Option<InstanceId>,
    /// Created at or after: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = parse::since, allow_hyphen_values = true)]
    since: Option<Ms>,
    /// Created before: a time, or how long ago
    #[arg(long, value_name = "TIME", value_parser = parse::since, allow_hyphen_values = true)]
    until: Option<Ms>,
}

impl Wanted {
    pub fn filter(self) -> Filter {
        Filter {
            namespace: self.namespace,
            lane: self.lane,
            kind: self.kind,
            flow: self.flow,
            states: self.state,
            reason: self.reason,
            tags: self.tag,
            created_from: self.since,
            created_before: self.until,
            worker: self.worker,
            instance: self.instance,
            error_code: self.error_code,
            error_text: self.error_text,
        }
    }
}
