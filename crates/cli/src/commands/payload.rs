//! Payloads as commands take them: from the command line, a file or the standard input.

use std::io::Read;
use std::path::Path;

use crate::problem::Problem;

/// How much there may be, and what it is called in messages.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub field: &'static str,
    pub max: usize,
}

impl Bounds {
    /// What a file holds; `-` is the standard input.
    pub fn file(self, path: &Path) -> Result<Vec<u8>, Problem> {
        if path.as_os_str() == "-" {
            return self.stdin();
        }
        let problem =
            |error| Problem::invalid(format!("{}-file: cannot read {}: {error}", self.field, path.display()));
        self.read(std::fs::File::open(path).map_err(problem)?)
    }

    pub fn stdin(self) -> Result<Vec<u8>, Problem> {
        self.read(std::io::stdin())
    }

    /// Reads no more than a little over what is allowed, however long the source is.
    fn read(self, source: impl Read) -> Result<Vec<u8>, Problem> {
        let Bounds { field, max } = self;
        let mut bytes = Vec::new();
        let read = source.take(max as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| Problem::invalid(format!("{field}: cannot be read: {error}")))?;
        if bytes.len() > max {
            let problem = format!("{field} has more than {max} bytes; allowed are at most {max}");
            return Err(Problem::invalid(problem).hint("store large data elsewhere and submit its address"));
        }
        Ok(bytes)
    }
}

/// Parsed only to be refused here, where a person can mend it, and not by everybody who reads it.
pub fn check_json(field: &str, content_type: &str, bytes: &[u8]) -> Result<(), Problem> {
    if content_type == ff_core::payload::JSON
        && let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(bytes)
    {
        return Err(Problem::invalid(format!("{field} is not JSON: {error}")).hint(
            "write a text as '\"text\"', an object as '{\"key\":1}', or give --content-type text/plain",
        ));
    }
    Ok(())
}
