//! The workers that are attacked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ff_sim::rng::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::truth::Truth;
use crate::worker;

/// What a worker said, or that it has ended.
struct Heard {
    number: u64,
    line: Option<String>,
}

struct Member {
    child: Child,
    /// The turn at which it goes on.
    paused_until: Option<usize>,
}

impl Member {
    fn resume(&mut self) {
        if self.paused_until.take().is_some() {
            signal(&self.child, Signal::CONT);
        }
    }

    /// A worker works until it is killed; one that ends by itself has failed.
    fn ended(mut self) {
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "a worker has ended by itself: {status}");
    }
}

pub struct Fleet {
    port: u16,
    members: BTreeMap<u64, Member>,
    last: u64,
    /// Which worker claimed what last.
    holders: BTreeMap<String, u64>,
    hears: Receiver<Heard>,
    tells: Sender<Heard>,
    pub killed: usize,
    pub paused: usize,
}

impl Fleet {
    /// Workers that reach the server by this port.
    pub fn new(port: u16, count: usize) -> Fleet {
        let (tells, hears) = channel();
        let (members, holders) = (BTreeMap::new(), BTreeMap::new());
        let mut fleet = Fleet { port, members, last: 0, holders, hears, tells, killed: 0, paused: 0 };
        (0..count).for_each(|_| fleet.start());
        fleet
    }

    fn start(&mut self) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        worker::prepare(&mut command, self.port);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        self.last += 1;
        let (number, tells) = (self.last, self.tells.clone());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = tells.send(Heard { number, line: Some(line) });
            }
            let _ = tells.send(Heard { number, line: None });
        });
        self.members.insert(number, Member { child, paused_until: None });
    }

    fn pick(&self, rng: &mut Rng) -> Option<u64> {
        let running = self.members.iter().filter(|(_, it)| it.paused_until.is_none());
        let running: Vec<u64> = running.map(|(number, _)| *number).collect();
        (!running.is_empty()).then(|| *rng.pick(&running))
    }

    /// Kills one; another takes its place when its end is heard.
    pub fn kill(&mut self, rng: &mut Rng) {
        let Some(member) = self.pick(rng).and_then(|number| self.members.get_mut(&number)) else { return };
        member.child.kill().unwrap();
        self.killed += 1;
    }

    pub fn pause(&mut self, rng: &mut Rng, until: usize) {
        if let Some(number) = self.pick(rng) {
            self.pause_one(number, until);
        }
    }

    fn pause_one(&mut self, number: u64, until: usize) {
        let Some(member) = self.members.get_mut(&number) else { return };
        signal(&member.child, Signal::STOP);
        member.paused_until = Some(until);
        self.paused += 1;
    }

    /// Those whose time has come go on.
    pub fn resume(&mut self, turn: usize) {
        let due = |member: &&mut Member| member.paused_until.is_some_and(|it| it <= turn);
        self.members.values_mut().filter(due).for_each(Member::resume);
    }

    /// Sees to it that at least one worker comes back to a lease that another holds by then. Whether faults in turns
    /// bring that about depends on how fast everybody is. Here there is so little work that whoever has some keeps it
    /// for a second.
    pub fn overtake(&mut self, truth: &mut Truth, deadline: Instant, mut submit: impl FnMut(&mut Truth)) {
        while truth.overtaken() == 0 {
            assert!(Instant::now() < deadline, "nobody came back to another's lease: {truth}");
            self.holders.clear();
            submit(truth);
            let step = deadline.min(Instant::now() + Duration::from_secs(10));
            while self.holders.is_empty() && self.hear(truth, step) {}
            let Some(holder) = self.holders.values().next().copied() else { continue };
            self.pause_one(holder, usize::MAX);
            // Hearing of the next holder resumes this one.
            while self.is_paused(holder) && self.hear(truth, step) {}
            self.resume(usize::MAX);
            self.listen(truth, Duration::from_secs(1));
        }
    }

    fn is_paused(&self, number: u64) -> bool {
        self.members.get(&number).is_some_and(|member| member.paused_until.is_some())
    }

    /// Hears what is said for so long.
    pub fn listen(&mut self, truth: &mut Truth, time: Duration) {
        let until = Instant::now() + time;
        while self.hear(truth, until) {}
    }

    /// Hears one thing; `false` if it is too late for that.
    fn hear(&mut self, truth: &mut Truth, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(heard) = self.hears.recv_timeout(left) else { return false };
        match heard.line {
            Some(line) => {
                self.note_holder(heard.number, &line);
                truth.learn(&line);
            }
            None => {
                if let Some(member) = self.members.remove(&heard.number) {
                    member.ended();
                    self.start();
                }
            }
        }
        true
    }

    /// A paused worker goes on as soon as another has got what it held, so that it comes back to another's lease.
    fn note_holder(&mut self, number: u64, line: &str) {
        let Some((_, held)) = line.split_once("@ holds ") else { return };
        let id = held.split(' ').next().unwrap_or_default();
        let before = self.holders.insert(id.to_owned(), number).and_then(|it| self.members.get_mut(&it));
        if let Some(member) = before {
            member.resume();
        }
    }

    /// Ends everybody and hears the last words.
    pub fn stop(mut self, truth: &mut Truth) {
        self.members.values_mut().for_each(|member| member.child.kill().unwrap());
        while !self.members.is_empty() {
            let heard = self.hears.recv_timeout(Duration::from_secs(20)).expect("a killed process ends");
            match heard.line {
                Some(line) => truth.learn(&line),
                None => {
                    if let Some(member) = self.members.remove(&heard.number) {
                        member.ended();
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
