//! The processes that are attacked.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ff_sim::rng::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::parts;
use crate::truth::Truth;

const BINARY: &str = env!("CARGO_BIN_EXE_flowfabric");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The binary, as a worker that runs a program.
    Program,
    /// A worker that tells the answers to its completions.
    Teller,
    /// Submits what it is asked to over one connection.
    Submitter,
    /// The binary, submitting one thing and ending.
    Command,
}

/// What a process said, or that it has ended.
struct Heard {
    number: u64,
    line: Option<String>,
}

struct Member {
    role: Role,
    child: Child,
    stdin: Option<ChildStdin>,
    /// The turn at which it goes on.
    paused_until: Option<usize>,
    /// What a command was asked to submit.
    key: Option<String>,
}

impl Member {
    fn resume(&mut self) {
        if self.paused_until.take().is_some() {
            signal(&self.child, Signal::CONT);
        }
    }
}

pub struct Fleet {
    url: String,
    members: BTreeMap<u64, Member>,
    last: u64,
    /// Which teller claimed what last.
    holders: BTreeMap<String, u64>,
    hears: Receiver<Heard>,
    tells: Sender<Heard>,
    tally: Tally,
}

/// What was done to it.
#[derive(Debug, Default)]
pub struct Tally {
    killed: usize,
    paused: usize,
    ended_early: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} killed, {} paused, {} ended early", self.killed, self.paused, self.ended_early)
    }
}

impl Fleet {
    pub fn new(url: &str) -> Fleet {
        let (tells, hears) = channel();
        let (members, holders, tally) = (BTreeMap::new(), BTreeMap::new(), Tally::default());
        Fleet { url: url.to_owned(), members, last: 0, holders, hears, tells, tally }
    }

    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    // ---- processes -----------------------------------------------------------------------------------

    /// Starts a process; one that submits is told everything that has not been acknowledged.
    pub fn start(&mut self, role: Role, truth: &Truth) {
        let key = match role {
            Role::Command => match truth.first_pending(role) {
                Some(key) => Some(key),
                None => return,
            },
            _ => None,
        };
        let mut command = self.command(role, key.as_deref());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        self.last += 1;
        let (number, tells) = (self.last, self.tells.clone());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = tells.send(Heard { number, line: Some(line) });
            }
            let _ = tells.send(Heard { number, line: None });
        });
        let stdin = child.stdin.take();
        self.members.insert(number, Member { role, child, stdin, paused_until: None, key });
        if role == Role::Submitter {
            truth.pending_of(role).iter().for_each(|key| self.tell_submitter(key));
        }
    }

    fn command(&self, role: Role, key: Option<&str>) -> Command {
        let mut command = match role {
            Role::Program | Role::Command => Command::new(BINARY),
            Role::Teller | Role::Submitter => Command::new(std::env::current_exe().unwrap()),
        };
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FLOWFABRIC")) {
            command.env_remove(name);
        }
        match role {
            Role::Program => {
                command.args(["--store", &self.url, "worker", "--exec", "cat", "--kind", parts::KIND]);
                // Most of the work is for those who keep it for a while.
                command.args(["--concurrency", "1"]);
            }
            Role::Command => {
                let input = format!("\"{}\"", key.unwrap_or_default());
                command.args(["--store", &self.url, "submit", parts::KIND, "--lease", "1s"]);
                command.args(["--input", &input, "--key", key.unwrap_or_default()]);
            }
            Role::Teller => parts::prepare(&mut command, parts::TELLER, &self.url),
            Role::Submitter => parts::prepare(&mut command, parts::SUBMITTER, &self.url),
        }
        command
    }

    fn tell_submitter(&mut self, key: &str) {
        let submitter = self.members.values_mut().find(|member| member.role == Role::Submitter);
        if let Some(stdin) = submitter.and_then(|member| member.stdin.as_mut()) {
            // One that has ended is replaced by one that is told again.
            let _ = writeln!(stdin, "{key}");
        }
    }

    /// Asks for new work to be submitted.
    pub fn ask(&mut self, truth: &mut Truth, count: usize) {
        for _ in 0..count {
            let key = truth.ask(Role::Submitter);
            self.tell_submitter(&key);
        }
        truth.ask(Role::Command);
        if !self.members.values().any(|member| member.role == Role::Command) {
            self.start(Role::Command, truth);
        }
    }

    // ---- faults --------------------------------------------------------------------------------------

    pub fn kill_one(&mut self, rng: &mut Rng, truth: &Truth) {
        let Some((number, role)) = self.pick(rng, &[]) else { return };
        let mut member = self.members.remove(&number).unwrap();
        member.child.kill().unwrap();
        member.child.wait().unwrap();
        // What it had said before counts; its lines are still on their way.
        self.tally.killed += 1;
        self.start(role, truth);
    }

    /// Pauses one of these roles, or of all if none is given.
    pub fn pause_one(&mut self, rng: &mut Rng, until: usize, roles: &[Role]) {
        let Some((number, _)) = self.pick(rng, roles) else { return };
        self.pause(number, until);
    }

    pub fn resume_those_due(&mut self, turn: usize) {
        let due = |member: &&mut Member| member.paused_until.is_some_and(|at| at <= turn);
        self.members.values_mut().filter(due).for_each(Member::resume);
    }

    /// Sees to it that at least one teller comes back to a lease that another teller holds by then. Whether faults in
    /// turns bring that about depends on how fast everybody is. Here nobody else takes work, and there is so little of
    /// it that whoever has some keeps it for a second.
    pub fn overtake(&mut self, truth: &mut Truth, deadline: Instant) {
        self.listen_until(truth, deadline, "all submissions", |truth| truth.pending().is_empty());
        self.pause_all(Role::Program);
        while truth.overtaken() == 0 {
            assert!(
                Instant::now() < deadline,
                "nobody came back to another's lease: {}, {truth}",
                self.tally
            );
            self.holders.clear();
            self.ask(truth, 1);
            let step = deadline.min(Instant::now() + Duration::from_secs(10));
            while self.holders.is_empty() && self.hear(truth, step) {}
            let Some(holder) = self.holders.values().next().copied() else { continue };
            self.pause(holder, usize::MAX);
            // Hearing of the next holder resumes this one.
            while self.is_paused(holder) && self.hear(truth, step) {}
            self.resume_all(Role::Teller);
            self.listen(truth, Duration::from_secs(1));
        }
        self.resume_all(Role::Program);
    }

    fn is_paused(&self, number: u64) -> bool {
        self.members.get(&number).is_some_and(|member| member.paused_until.is_some())
    }

    fn pause_all(&mut self, role: Role) {
        let all: Vec<u64> =
            self.members.iter().filter(|(_, it)| it.role == role).map(|(number, _)| *number).collect();
        all.into_iter().for_each(|number| self.pause(number, usize::MAX));
    }

    fn pause(&mut self, number: u64, until: usize) {
        let Some(member) = self.members.get_mut(&number) else { return };
        signal(&member.child, Signal::STOP);
        member.paused_until = Some(until);
        self.tally.paused += 1;
    }

    fn resume_all(&mut self, role: Role) {
        self.members.values_mut().filter(|member| member.role == role).for_each(Member::resume);
    }

    /// One that runs.
    fn pick(&self, rng: &mut Rng, roles: &[Role]) -> Option<(u64, Role)> {
        let fits = |member: &Member| roles.is_empty() || roles.contains(&member.role);
        let running = self.members.iter().filter(|(_, it)| it.paused_until.is_none() && fits(it));
        let running: Vec<(u64, Role)> = running.map(|(number, member)| (*number, member.role)).collect();
        (!running.is_empty()).then(|| *rng.pick(&running))
    }

    // ---- listening -----------------------------------------------------------------------------------

    /// Hears what is said for so long.
    pub fn listen(&mut self, truth: &mut Truth, time: Duration) {
        let until = Instant::now() + time;
        while self.hear(truth, until) {}
    }

    #[track_caller]
    pub fn listen_until(
        &mut self,
        truth: &mut Truth,
        deadline: Instant,
        what: &str,
        over: impl Fn(&Truth) -> bool,
    ) {
        while !over(truth) {
            assert!(self.hear(truth, deadline), "still waiting for {what}: {}, {truth}", self.tally);
        }
    }

    /// Hears one thing; `false` if it is too late for that.
    fn hear(&mut self, truth: &mut Truth, until: Instant) -> bool {
        let heard = match self.hears.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
        };
        let Some(line) = heard.line else {
            self.ended(heard.number, truth);
            return true;
        };
        match self.members.get(&heard.number).and_then(|member| member.key.as_deref()) {
            Some(key) => truth.submitted(key, &line),
            None => {
                self.note_holder(heard.number, &line);
                truth.learn(&line);
            }
        }
        true
    }

    /// A paused teller goes on as soon as another has got what it held, so that it comes back to another's lease.
    fn note_holder(&mut self, number: u64, line: &str) {
        let Some((_, id)) = line.split_once("@ holds ") else { return };
        let before = self.holders.insert(id.to_owned(), number).and_then(|it| self.members.get_mut(&it));
        if let Some(member) = before {
            member.resume();
        }
    }

    /// Whoever ends is replaced. A command ends when it is done; others only if they could not reach the store.
    fn ended(&mut self, number: u64, truth: &Truth) {
        let Some(mut member) = self.members.remove(&number) else { return };
        let status = member.child.wait().unwrap();
        if member.role != Role::Command || !status.success() {
            self.tally.ended_early += 1;
        }
        self.start(member.role, truth);
    }

    /// Asks everybody to end and hears the last words.
    pub fn stop(&mut self, truth: &mut Truth) {
        for member in self.members.values_mut() {
            drop(member.stdin.take());
            signal(&member.child, Signal::TERM);
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.members.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let heard = self.hears.recv_timeout(left).expect("a process does not end when it is asked to");
            match heard.line {
                Some(line) => truth.learn(&line),
                None => {
                    if let Some(mut member) = self.members.remove(&heard.number) {
                        member.child.wait().unwrap();
                    }
                }
            }
        }
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for member in self.members.values_mut() {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}
