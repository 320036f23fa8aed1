//! `flowfabric completions`

use clap::Args;
use clap_complete::Shell;

use crate::problem::Problem;

/// Print completions for a shell
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  flowfabric completions bash > ~/.local/share/bash-completion/completions/flowfabric"
)]
pub struct Completions {
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Result<(), Problem> {
        // First into memory, because the generator panics when the reader of a pipe goes away.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::cli::command(), "flowfabric", &mut script);
        Ok(std::io::Write::write_all(&mut std::io::stdout(), &script)?)
    }
}
