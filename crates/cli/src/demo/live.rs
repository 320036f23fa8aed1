//! What is shown while the demonstration runs: bars on a terminal, lines otherwise, nothing for programs.

use std::time::Instant;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::parts::Part;

pub struct Live {
    started: Instant,
    how: How,
}

enum How {
    Bars { all: MultiProgress, bars: Vec<(Part, ProgressBar)> },
    Lines,
    Silent,
}

impl Live {
    pub fn new(json: bool) -> Live {
        let all = MultiProgress::new();
        let how = match (json, all.is_hidden()) {
            (true, _) => How::Silent,
            (false, true) => How::Lines,
            (false, false) => {
                How::Bars { bars: Part::ALL.iter().map(|part| (*part, bar(&all, *part))).collect(), all }
            }
        };
        Live { started: Instant::now(), how }
    }

    /// Something worth a line has happened.
    pub fn say(&self, text: &str) {
        let line = format!("{:5.1}s  {text}", self.started.elapsed().as_secs_f64());
        match &self.how {
            How::Bars { all, .. } => drop(all.println(line)),
            How::Lines => eprintln!("{line}"),
            How::Silent => {}
        }
    }

    /// One more of a part has ended.
    pub fn one_more(&self, part: Part) {
        if let How::Bars { bars, .. } = &self.how {
            bars.iter().filter(|(it, _)| *it == part).for_each(|(_, bar)| bar.inc(1));
        }
    }

    /// A picture of a part, on one line.
    pub fn draw(&self, part: Part, line: &str) {
        if let How::Bars { bars, .. } = &self.how {
            bars.iter().filter(|(it, _)| *it == part).for_each(|(_, bar)| bar.set_message(line.to_owned()));
        }
    }

    /// Leaves the bars as they are.
    pub fn finish(&self) {
        if let How::Bars { bars, .. } = &self.how {
            bars.iter().for_each(|(_, bar)| bar.abandon());
        }
    }
}

fn bar(all: &MultiProgress, part: Part) -> ProgressBar {
    let style = ProgressStyle::with_template("  {prefix:16} {bar:32} {pos:>3}/{len:3} {msg}");
    let style = style.map_or_else(|_| ProgressStyle::default_bar(), |style| style.progress_chars("━━─"));
    let bar = all.add(ProgressBar::new(part.count()).with_style(style));
    bar.set_prefix(part.title());
    bar.set_message(part.promise());
    bar.tick();
    bar
}
