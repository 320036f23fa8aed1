//! The workers that are attacked.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
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

pub struct Fleet {
    port: u16,
    members: BTreeMap<u64, Member>,
    last: u64,
    hears: Receiver<Heard>,
    tells: Sender<Heard>,
    pub killed: usize,
    pub paused: usize,
}

impl Fleet {
    /// Workers that reach the server by this port.
    pub fn new(port: u16, count: usize) -> Fleet {
        let (tells, hears) = channel();
        let mut fleet = Fleet { port, members: BTreeMap::new(), last: 0, hears, tells, killed: 0, paused: 0 };
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
        let Some(member) = self.pick(rng).and_then(|number| self.members.get_mut(&number)) else { return };
        signal(&member.child, Signal::STOP);
        member.paused_until = Some(until);
        self.paused += 1;
    }

    /// Those whose time has come go on.
    pub fn resume(&mut self, turn: usize) {
        for member in self.members.values_mut().filter(|it| it.paused_until.is_some_and(|it| it <= turn)) {
            signal(&member.child, Signal::CONT);
            member.paused_until = None;
        }
    }

    /// Hears what is said for so long.
    pub fn listen(&mut self, truth: &mut Truth, time: Duration) {
        let until = Instant::now() + time;
        while let Ok(heard) = self.hears.recv_timeout(until.saturating_duration_since(Instant::now())) {
            match heard.line {
                Some(line) => truth.learn(&line),
                None => {
                    if let Some(mut member) = self.members.remove(&heard.number) {
                        member.child.wait().unwrap();
                        self.start();
                    }
                }
            }
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
