//! Whom a client believes to be the server: those whom the machine believes, and one more if it is told.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use crate::Error;

pub(super) fn config(ca_file: Option<&Path>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    // A machine may have certificates that cannot be read; one of the others will do.
    for certificate in rustls_native_certs::load_native_certs().certs {
        let _ = roots.add(certificate);
    }
    if let Some(path) = ca_file {
        add_file(&mut roots, path)?;
    }
    if roots.is_empty() {
        let problem = "is missing, and this machine has no certificates either: name a file of the certificate \
                       authority with Options::ca_file";
        return Err(Error::invalid("ca_file", problem));
    }
    Ok(versions()?.with_root_certificates(roots).with_no_client_auth())
}

/// For addresses that need none.
pub(super) fn none() -> Result<ClientConfig, Error> {
    Ok(versions()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn versions() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Internal(format!("no usable version of TLS: {error}")))
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), Error> {
    let bad = |problem: String| Error::invalid("ca_file", format!("is {}: {problem}", path.display()));
    let mut count = 0;
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))? {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
        count += 1;
    }
    if count == 0 {
        return Err(bad("there is no certificate in it; expected is a PEM file".to_owned()));
    }
    Ok(())
}
