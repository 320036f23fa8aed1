//! A shell that keeps one server: it alone starts and stops it, and it outlives the owner just long enough to end it.
//!
//! The owner writes one command per line and reads its exit code. The pipe closes when the owner lets go of it or dies
//! in any way; then the keeper stops the server and removes its folder. Because commands and the end of the pipe come
//! in one order, a server that is being started when its owner dies is stopped as well.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use crate::Error;
use crate::account::Account;

/// What a signal to the owner's group or a pipe without a reader would end must still be done.
const SCRIPT: &str = "\
trap '' HUP INT TERM PIPE
while IFS= read -r line; do
    eval \"$line\" >\"$1/said\" 2>&1 </dev/null
    echo $?
done
eval \"$2\" >/dev/null 2>&1 </dev/null
cd / && rm -rf \"$1\"
";

#[derive(Debug)]
pub(crate) struct Keeper {
    shell: Child,
    /// `None` once it was told to end.
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
    folder: PathBuf,
    account: Account,
}

impl Keeper {
    /// Makes a folder, in which all command lines run; `ending` is the one that stops whatever was started.
    pub fn start(account: Account, ending: &str) -> Result<Keeper, Error> {
        let failed = |error: std::io::Error| Error::doing("making a temporary folder", error);
        let folder = tempfile::Builder::new().prefix("flowfabric-scratch-").tempdir().map_err(failed)?;
        account.give(folder.path())?;
        let mut command = account.command("/bin/sh");
        command
            .args(["-c", SCRIPT, "keeper"])
            .arg(folder.path())
            .arg(ending)
            .current_dir(folder.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut shell = command.spawn().map_err(|error| Error::doing("starting /bin/sh", error))?;
        let pipes = shell.stdin.take().zip(shell.stdout.take().map(BufReader::new));
        // From here on the shell removes it.
        Ok(Keeper { shell, pipes, folder: folder.keep(), account })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs one command line and waits for it.
    pub fn run(&mut self, line: &str) -> Result<(), Error> {
        let Some((stdin, stdout)) = &mut self.pipes else {
            return Err(Error::new("the keeper has ended"));
        };
        let mut answer = String::new();
        writeln!(stdin, "{line}")
            .and_then(|()| stdout.read_line(&mut answer))
            .map_err(|error| Error::doing("asking the keeper", error))?;
        if answer.trim() == "0" {
            return Ok(());
        }
        let said = fs::read(self.folder.join("said")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        Err(Error::new(format!("{line} ended with {:?}: {}", answer.trim(), said.trim())))
    }

    /// Writes a file that the server can read.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf, Error> {
        let path = self.folder.join(name);
        let written = fs::write(&path, content);
        written.map_err(|error| Error::doing(format_args!("writing {}", path.display()), error))?;
        self.account.give(&path)?;
        Ok(path)
    }

    /// The last lines of a file in the folder.
    pub fn tail(&self, name: &str) -> String {
        const LINES: usize = 40;
        let text = fs::read(self.folder.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.pipes.take());
        let _ = self.shell.wait();
    }
}

/// One word for the shell, whatever is in it.
pub(crate) fn quote(word: impl AsRef<Path>) -> String {
    format!("'{}'", word.as_ref().display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_runs_commands_says_why_they_fail_and_ends_with_the_ending() {
        let mark = tempfile::NamedTempFile::new().unwrap();
        let account = Account::choose().unwrap();
        account.give(mark.path()).unwrap();
        let mut keeper = Keeper::start(account, &format!("echo over > {}", quote(mark.path()))).unwrap();
        let folder = keeper.folder().to_owned();
        keeper.run("kept='it''s kept'").unwrap();
        keeper.run("test \"$kept\" = 'its kept'").unwrap();
        let error = keeper.run("echo no paper >&2; false").unwrap_err().to_string();
        assert!(error.contains("ended with \"1\": no paper"), "{error}");
        assert_eq!(fs::read_to_string(mark.path()).unwrap(), "");
        drop(keeper);
        assert_eq!(fs::read_to_string(mark.path()).unwrap(), "over\n");
        assert!(!folder.exists());
    }

    #[test]
    fn quoted_words_stay_whole() {
        assert_eq!(quote("a 'b' $c"), r"'a '\''b'\'' $c'");
    }
}
