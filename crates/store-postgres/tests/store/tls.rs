//! TLS with the modes that PostgreSQL's own clients have.

use std::path::Path;
use std::process::Command;

use ff_scratch::{Cluster, Settings};
use ff_store::StoreError;

use super::open;

/// An authority and a certificate of its for one address, made by the `openssl` that PostgreSQL's package brings.
fn certificates(folder: &Path, address: &str) {
    let extension = folder.join("extension");
    std::fs::write(&extension, format!("subjectAltName=IP:{address}\n")).expect("written");
    let request = "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=server";
    let sign = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 \
                -extfile extension";
    for arguments in
        ["req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca", request, sign]
    {
        let done = Command::new("openssl").args(arguments.split_whitespace()).current_dir(folder).output();
        let done = done.expect("openssl, which comes with Debian's postgresql");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    // The server runs as another user if the tests run as root.
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("allowed")
    };
    mode(folder, 0o755);
    let key = folder.join("server.key");
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|it| it.stdout == b"0\n");
    if is_root {
        assert!(Command::new("chgrp").arg("postgres").arg(&key).status().is_ok_and(|it| it.success()));
    }
    mode(&key, if is_root { 0o640 } else { 0o600 });
}

fn server(folder: &Path) -> Cluster {
    let path = |name: &str| folder.join(name).display().to_string();
    let settings = Settings::quick().with("ssl", "on");
    let settings =
        settings.with("ssl_cert_file", &path("server.pem")).with("ssl_key_file", &path("server.key"));
    Cluster::start(settings).expect("a server with TLS")
}

#[tokio::test]
async fn the_modes_look_at_as_much_as_they_say() {
    let (right, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificates(right.path(), "127.0.0.1");
    certificates(other.path(), "10.9.8.7");
    let (ours, theirs) = (server(right.path()), server(other.path()));
    let authority = |folder: &Path| folder.join("ca.pem").display().to_string();
    let (good, bad) = (authority(right.path()), authority(other.path()));
    for (server, options, opens) in [
        (&ours, "sslmode=prefer".to_owned(), true),
        (&ours, "sslmode=require".to_owned(), true),
        (&ours, format!("sslmode=verify-ca&sslrootcert={good}"), true),
        (&ours, format!("sslmode=verify-full&sslrootcert={good}"), true),
        (&ours, format!("sslmode=verify-ca&sslrootcert={bad}"), false),
        (&ours, format!("sslmode=verify-full&sslrootcert={bad}"), false),
        // Issued by an authority we trust, but for another host.
        (&theirs, format!("sslmode=verify-ca&sslrootcert={bad}"), true),
        (&theirs, format!("sslmode=verify-full&sslrootcert={bad}"), false),
    ] {
        let opened = open(&format!("{}?{options}", server.url())).await;
        match opened {
            Ok(_) => assert!(opens, "{options} must not open"),
            Err(StoreError::Unavailable(text) | StoreError::Unusable(text) | StoreError::Refused(text)) => {
                assert!(!opens, "{options}: {text}");
                assert!(text.contains("certificate"), "{options}: {text}");
            }
        }
    }
    let missing = open(&format!("{}?sslmode=verify-full&sslrootcert=/no/such.pem", ours.url())).await;
    let Err(StoreError::Unusable(text)) = missing else { panic!("there is no such file") };
    assert!(text.contains("sslrootcert=/no/such.pem"), "{text}");
}
