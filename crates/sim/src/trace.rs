//! What happened, line by line: the last lines for people, a hash of all of them to compare two runs.

use std::collections::VecDeque;
use std::fmt::{Arguments, Write};

const KEPT: usize = 40;

#[derive(Debug)]
pub struct Trace {
    lines: VecDeque<String>,
    kept: usize,
    hash: u64,
}

impl Trace {
    /// Keeps the last lines, or all of them.
    pub fn new(whole: bool) -> Trace {
        Trace {
            lines: VecDeque::new(),
            kept: if whole { usize::MAX } else { KEPT },
            hash: 0xcbf2_9ce4_8422_2325,
        }
    }

    pub fn line(&mut self, text: Arguments<'_>) {
        // Lines are reused: a run writes hundreds of thousands of them.
        let mut line = match self.lines.len() >= self.kept {
            true => self.lines.pop_front().unwrap_or_default(),
            false => String::new(),
        };
        line.clear();
        let _ = line.write_fmt(text);
        for chunk in line.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.hash = (self.hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        self.lines.push_back(line);
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}
