//! What clients and engines of the benchmark say to each other over a loopback socket: numbered calls and answers, a
//! line of JSON each. Answers come in any order.

use ff_core::execution::Fence;
use ff_core::{ExecutionId, InstanceId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Call {
    Submit,
    /// Makes a worker instance known.
    Register,
    Claim {
        instance: InstanceId,
        max: usize,
    },
    Complete(Vec<Fence>),
}

impl Call {
    pub fn word(&self) -> &'static str {
        match self {
            Call::Submit => "submit",
            Call::Register => "register",
            Call::Claim { .. } => "claim",
            Call::Complete(_) => "complete",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    Submitted(ExecutionId),
    Registered(InstanceId),
    Claimed(Vec<Fence>),
    Completed,
    Failed(String),
}

/// Adds a numbered message to what is about to be sent.
pub fn write<T: Serialize>(to: &mut Vec<u8>, number: u64, message: &T) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *to, &(number, message))?;
    to.push(b'\n');
    Ok(())
}

/// Reads one line.
pub fn read<T: for<'a> Deserialize<'a>>(line: &str) -> anyhow::Result<(u64, T)> {
    Ok(serde_json::from_str(line)?)
}

#[cfg(test)]
mod tests {
    use ff_core::Route;

    use super::*;

    #[test]
    fn what_is_written_is_read_again_a_line_each() {
        let execution = ExecutionId::from_parts(1, Route(2), 3);
        let instance = InstanceId::from_parts(4, Route(5), 6);
        let calls = [
            Call::Submit,
            Call::Register,
            Call::Claim { instance, max: 7 },
            Call::Complete(vec![Fence { execution, attempt: 8, epoch: 9 }; 2]),
        ];
        let mut bytes = Vec::new();
        for (n, call) in calls.iter().enumerate() {
            write(&mut bytes, n as u64, call).unwrap();
        }
        let text = String::from_utf8(bytes).unwrap();
        let read: Vec<(u64, Call)> = text.lines().map(|line| read(line).unwrap()).collect();
        assert_eq!(read, (0..).zip(calls).collect::<Vec<_>>());
        assert!(super::read::<Answer>("[1,\"Nothing\"]").is_err());
    }
}
