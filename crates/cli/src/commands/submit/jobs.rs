//! Executions in a file: a JSON object on each line, or a JSON list of objects.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::time::Duration;

use ff_api::submit::Submission as Document;
use ff_core::Command;
use ff_core::commands::{Create, When};
use ff_core::id::Route;
use flowfabric::{ExecutionId, Limits, Submission};
use serde_json::value::RawValue;

use crate::problem::Problem;

/// How long a line may be: more than any server takes.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// How long a list may be, which is read at once.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// An execution to be submitted.
pub struct Job {
    /// Where it stands, from 1.
    pub line: usize,
    pub bytes: usize,
    pub submission: Submission,
}

/// The executions of a file, one after the other.
pub struct Jobs {
    name: String,
    source: Box<dyn BufRead>,
    limits: Limits,
    line: usize,
    /// Something was found; from there on it is either lines or a list.
    begun: bool,
    /// Those of a list.
    list: VecDeque<(usize, Box<RawValue>)>,
}

impl Jobs {
    pub fn open(path: &Path, limits: &Limits) -> Result<Jobs, Problem> {
        let name = path.display().to_string();
        let source: Box<dyn BufRead> = match is_stdin(path) {
            true => Box::new(BufReader::new(std::io::stdin())),
            false => match File::open(path) {
                Ok(file) => Box::new(BufReader::new(file)),
                Err(error) => return Err(Problem::invalid(format!("file: cannot read {name}: {error}"))),
            },
        };
        let name = if is_stdin(path) { "standard input".to_owned() } else { name };
        Ok(Jobs { name, source, limits: limits.clone(), line: 0, begun: false, list: VecDeque::new() })
    }

    pub fn next(&mut self) -> Result<Option<Job>, Problem> {
        loop {
            if let Some((line, text)) = self.list.pop_front() {
                return self.job(line, text.get()).map(Some);
            }
            let Some(text) = self.next_line()? else { return Ok(None) };
            match text.trim_start().chars().next() {
                None => {}
                Some('[') if !self.begun => self.read_list(text)?,
                Some(_) => {
                    self.begun = true;
                    return self.job(self.line, text.trim_end()).map(Some);
                }
            }
        }
    }

    fn next_line(&mut self) -> Result<Option<String>, Problem> {
        let mut bytes = Vec::new();
        let read = self.source.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut bytes);
        self.line += 1;
        match read {
            Ok(0) => Ok(None),
            Ok(length) if length as u64 > LINE_BYTES_MAX => {
                Err(self.wrong(self.line, &format!("is longer than {LINE_BYTES_MAX} bytes")))
            }
            Ok(_) => match String::from_utf8(bytes) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(self.wrong(self.line, "is not UTF-8")),
            },
            Err(error) => Err(Problem::invalid(format!("file: cannot read {}: {error}", self.name))),
        }
    }

    fn read_list(&mut self, mut text: String) -> Result<(), Problem> {
        let read = self.source.by_ref().take(LIST_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| Problem::invalid(format!("file: cannot read {}: {error}", self.name)))?;
        if text.len() as u64 > LIST_BYTES_MAX {
            let problem = format!("begins a list that is longer than {LIST_BYTES_MAX} bytes");
            return Err(self.wrong(self.line, &problem).hint("write one object on each line instead"));
        }
        let items: Vec<&RawValue> = serde_json::from_str(&text)
            .map_err(|error| self.wrong(self.line + error.line().max(1) - 1, &without_place(&error)))?;
        let (mut line, mut seen) = (self.line, 0);
        for item in items {
            let start = item.get().as_ptr().addr() - text.as_ptr().addr();
            line += text[seen..start].matches('\n').count();
            seen = start;
            self.list.push_back((line, item.to_owned()));
        }
        self.begun = true;
        Ok(())
    }

    fn job(&self, line: usize, text: &str) -> Result<Job, Problem> {
        let document: Document =
            serde_json::from_str(text).map_err(|error| self.misread(line, text, &error))?;
        let has_id = document.id.is_some();
        // The id that it gets is made when it is sent; this one only has to fit its key.
        let create = document.create(&self.limits, |namespace, key| {
            let route = key.map_or(Route(0), |key| Route::of_key(namespace, key));
            ExecutionId::from_parts(0, route, 0)
        });
        let create = create.map_err(|invalid| self.wrong(line, &invalid.to_string()))?;
        let checked = Command::from(create.clone()).validate(&self.limits);
        checked.map_err(|invalid| self.wrong(line, &invalid.to_string()))?;
        Ok(Job { line, bytes: text.len(), submission: submission(create, has_id) })
    }

    /// What is wrong with a document, by its field.
    fn misread(&self, line: usize, text: &str, error: &serde_json::Error) -> Problem {
        let deserializer = &mut serde_json::Deserializer::from_str(text);
        let path = serde_path_to_error::deserialize::<_, Document>(deserializer).err();
        let path = path.map(|it| it.path().to_string()).filter(|path| path != "." && path != "?");
        let line = line + error.line().saturating_sub(1);
        let problem = without_place(error);
        let problem = match path {
            Some(field) if !error.is_eof() && !error.is_syntax() => format!("{field}: {problem}"),
            _ => problem,
        };
        let told = self.wrong(line, &problem);
        match error.is_eof() {
            true => told.hint("write each object on one line, or all of them as a list: [{…}, {…}]"),
            false => told.hint("the fields are those of POST /v1/executions, see /openapi.json"),
        }
    }

    fn wrong(&self, line: usize, problem: &str) -> Problem {
        Problem::invalid(format!("{}, line {line}: {problem}", self.name))
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The line is known better here than to the parser.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

fn submission(create: Create, has_id: bool) -> Submission {
    let ms = |ms: i64| Duration::from_millis(ms.unsigned_abs());
    let mut it = Submission::of_bytes(&create.kind, &create.input.content_type, create.input.bytes)
        .namespace(&create.namespace)
        .lane(&create.lane)
        .priority(create.priority.into())
        .policy(create.policy);
    it = create.capabilities.as_slice().iter().fold(it, |it, word| it.capability(word));
    it = create.tags.iter().fold(it, |it, (key, value)| it.tag(key, value));
    it = match create.start {
        Some(When::At(at)) => it.run_at(at),
        Some(When::In(span)) => it.delay(ms(span)),
        None => it,
    };
    it = match create.deadline {
        Some(When::At(at)) => it.deadline_at(at),
        Some(When::In(span)) => it.deadline(ms(span)),
        None => it,
    };
    if let Some(key) = &create.idempotency_key {
        it = it.idempotency_key(key);
    }
    if has_id { it.id(create.id) } else { it }
}
