//! The servers that tests need: found or installed, started, and ended with this process.

use std::process::{Command, ExitCode, Stdio};

use ff_scratch::{
    BOUNCER_VARIABLE, Binaries, Bouncer, Cluster, Error, POSTGRES_VARIABLE, Settings, find_pgbouncer,
};

/// Servers for one run of tests, and the variables by which tests find them.
pub struct Servers {
    variables: [(&'static str, String); 2],
    /// Held for their end: the pooler goes before the server. `None` if somebody else runs them.
    _own: Option<(Bouncer, Cluster)>,
}

impl Servers {
    /// Those of the environment, or new ones.
    pub fn start() -> Result<Servers, Error> {
        if let (Ok(server), Ok(bouncer)) = (std::env::var(POSTGRES_VARIABLE), std::env::var(BOUNCER_VARIABLE))
        {
            let variables = [(POSTGRES_VARIABLE, server), (BOUNCER_VARIABLE, bouncer)];
            return Ok(Servers { variables, _own: None });
        }
        install_what_is_missing()?;
        let cluster = Cluster::start(Settings::quick())?;
        let bouncer = Bouncer::start(&cluster.url())?;
        let variables = [(POSTGRES_VARIABLE, cluster.url()), (BOUNCER_VARIABLE, bouncer.url_of("postgres"))];
        Ok(Servers { variables, _own: Some((bouncer, cluster)) })
    }

    pub fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }
}

/// Runs one command that finds the servers in its environment.
pub fn with_postgres(command: &[&str]) -> ExitCode {
    let Some((program, args)) = command.split_first() else {
        eprintln!("error: which command? For example: cargo xtask with-postgres -- cargo nextest run");
        return ExitCode::from(2);
    };
    let servers = match Servers::start() {
        Ok(servers) => servers,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let variables = servers.variables().iter().map(|(name, value)| (name, value));
    match Command::new(program).args(args).envs(variables).status() {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1).into(),
        Err(error) => {
            eprintln!("error: {program} could not be started: {error}");
            ExitCode::FAILURE
        }
    }
}

fn install_what_is_missing() -> Result<(), Error> {
    let python = || {
        let found = Command::new("python3").arg("--version").output();
        found.map(drop).map_err(|error| Error::new(format!("python3 cannot be started: {error}")))
    };
    let venv = || match Command::new("python3").args(["-c", "import venv, ensurepip"]).output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Error::new("python3 cannot make virtual environments".to_owned())),
    };
    let needed = [
        ("postgresql", Binaries::find().err()),
        ("pgbouncer", find_pgbouncer().err()),
        ("python3", python().err()),
        ("python3-venv", venv().err()),
    ];
    let missing: Vec<&str> =
        needed.into_iter().filter_map(|(package, missing)| missing.map(|_| package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // A folder that somebody named and that is wrong is theirs to set right.
    if std::env::var_os("FLOWFABRIC_PG_BIN").is_some() {
        Binaries::find()?;
    }
    eprintln!("\n── installing {}", missing.join(" "));
    let installed = install(&missing);
    let found = Binaries::find().and_then(|_| find_pgbouncer()).and_then(|_| python()).and_then(|()| venv());
    found.map_err(|error| {
        let why = installed.err().map(|it| format!(" ({it})")).unwrap_or_default();
        Error::new(format!(
            "the tests need PostgreSQL, PgBouncer and Python: {error}. They could not be installed{why}; as root run \
             `apt-get install postgresql pgbouncer python3 python3-venv` and try again"
        ))
    })
}

fn install(packages: &[&str]) -> Result<(), String> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|it| it.stdout.trim_ascii() == b"0");
    let mut command = if is_root { Command::new("sh") } else { Command::new("sudo") };
    if !is_root {
        command.args(["-n", "sh"]);
    }
    // Standard output is for the verdict.
    command.args(["-c", include_str!("install.sh"), "install"]).args(packages).stdout(std::io::stderr());
    let status = command.stdin(Stdio::null()).status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the installation ended with {status}")) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Runs the script in a folder that stands for the machine, where `apt-get` fails until it was updated.
    #[test]
    fn an_installation_starts_nothing_and_leaves_no_settings_behind() {
        let machine = tempfile::tempdir().unwrap();
        let apt = "#!/bin/sh\ncat \"$ETC/postgresql-common/createcluster.d/\"* \"$POLICY\" > seen\n\
                   echo \"$@\" >> calls\n[ \"$1\" = update ] || grep -q update calls\n";
        for (name, text) in [("apt-get", apt), ("update-rc.d", "#!/bin/sh\necho \"$@\" >> calls\n")] {
            let path = machine.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let policy = machine.path().join("policy");
        let status = Command::new("sh")
            .args(["-c", include_str!("install.sh"), "install", "postgresql", "pgbouncer"])
            .env("PATH", format!("{}:/usr/bin:/bin", machine.path().display()))
            .env("ETC", machine.path())
            .env("POLICY", &policy)
            .current_dir(machine.path())
            .status();
        assert!(status.unwrap().success());
        let read = |name: &str| fs::read_to_string(machine.path().join(name)).unwrap();
        assert_eq!(read("seen"), "create_main_cluster = false\n#!/bin/sh\nexit 101\n");
        let install = "install --yes --no-install-recommends postgresql pgbouncer\n";
        assert_eq!(read("calls"), format!("{install}update\n{install}pgbouncer disable\n"));
        assert!(!policy.exists());
        let left = fs::read_dir(machine.path().join("postgresql-common/createcluster.d")).unwrap().count();
        assert_eq!(left, 0);
    }
}
