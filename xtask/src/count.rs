//! Reads how many tests a runner says it has run.

/// Tests that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: u64,
    pub failed: u64,
}

impl Count {
    pub fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Adds up the closing lines of nextest (`Summary … 3 passed, 1 failed`) and of cargo's own runner
/// (`test result: ok. 3 passed; 0 failed`).
pub fn of(output: &str) -> Count {
    let mut count = Count::default();
    for line in output.lines() {
        let line = line.trim();
        if line.starts_with("Summary [") || line.starts_with("test result:") {
            count.passed += number_before(line, "passed");
            count.failed += number_before(line, "failed") + number_before(line, "timed out");
        }
    }
    count
}

fn number_before(line: &str, word: &str) -> u64 {
    let digits =
        |text: &str| text.trim_end().rsplit([' ', '(']).next().and_then(|number| number.parse().ok());
    line.split_once(&format!(" {word}")).and_then(|(before, _)| digits(before)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners_are_added_up() {
        let output = "\
            Summary [   5.939s] 176 tests run: 170 passed (1 slow), 5 failed, 1 timed out, 2 skipped\n\
            test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored";
        assert_eq!(of(output), Count { passed: 183, failed: 8 });
        assert_eq!(of("nothing here"), Count::default());
    }
}
