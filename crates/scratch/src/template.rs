//! A new data folder, made once per machine and copied from then on: `initdb` takes a second, a copy a tenth.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::keeper::{Keeper, quote};
use crate::{Binaries, Error};

/// Fills `data` in the keeper's folder.
pub(crate) fn fill(keeper: &mut Keeper, binaries: &Binaries, account: Account) -> Result<(), Error> {
    let (template, data) = (path(binaries, account)?, keeper.folder().join("data"));
    if !is_ours(&template, account) {
        make(keeper, binaries, &template)?;
    }
    if is_ours(&template, account) {
        keeper.run(&format!("cp -a {} {}", quote(&template), quote(&data)))
    } else {
        // Somebody else's folder has the name. What is in it is not to be trusted.
        initdb(keeper, binaries, &data)
    }
}

fn path(binaries: &Binaries, account: Account) -> Result<PathBuf, Error> {
    let name = format!("flowfabric-initdb-{}-{}", binaries.version()?, account.uid());
    Ok(std::env::temp_dir().join(name))
}

fn is_ours(template: &Path, account: Account) -> bool {
    fs::symlink_metadata(template)
        .is_ok_and(|it| it.is_dir() && it.uid() == account.uid() && it.mode() & 0o777 == 0o700)
}

/// A folder gets the template's name only when it is whole, and only if none has it: several processes may do this at
/// the same time.
fn make(keeper: &mut Keeper, binaries: &Binaries, template: &Path) -> Result<(), Error> {
    let draft = keeper.folder().join("template");
    initdb(keeper, binaries, &draft)?;
    // Another process may have been quicker, and then the name is taken.
    let _ = fs::rename(&draft, template);
    Ok(())
}

fn initdb(keeper: &mut Keeper, binaries: &Binaries, folder: &Path) -> Result<(), Error> {
    keeper.run(&format!(
        "{} --pgdata={} --username=postgres --locale=C --encoding=UTF8 --auth-local=trust \
         --auth-host=scram-sha-256 --no-sync --no-instructions",
        quote(binaries.program("initdb")),
        quote(folder)
    ))
}
