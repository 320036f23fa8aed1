//! placeholder
pub mod doomed;
use crate::problem::Problem;
use std::path::PathBuf;
pub async fn run(_keep: Option<PathBuf>, _json: bool) -> Result<(), Problem> {
    Ok(())
}
