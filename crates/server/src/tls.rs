//! TLS by rustls: certificates, clients' encrypted connections, and those of replication.
//!
//! ```text
//!   socket ──ciphertext──► rustls ──plaintext──► input     (read)
//!   socket ◄─ciphertext── rustls ◄──plaintext── replies    (send)
//! ```
//! For clients nothing here waits: the event loop reads and sends when the socket is ready, and asks whether ciphertext is left
//! over. rustls buffers at most 64 KiB of it for a client; more of a reply stays where replies wait. Replication has threads that
//! read and write sockets: between an encrypted connection and such a thread stands a relay.

mod relay;
mod session;

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use crate::error::Error;
pub(crate) use session::{Taken, Tls};

/// Why there is no configuration.
const NO_AUTHORITIES: &str = "TLS: clients are to show certificates, and no authority is named: set tls-ca-cert-file, or \
                              tls-auth-clients no";

/// Why there is none for the connection to a primary.
const NO_AUTHORITY_OF_PRIMARY: &str =
    "TLS: tls-replication needs the authority of the primary's certificate: set tls-ca-cert-file";

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They do not.
    None,
    /// One that is shown must be valid.
    Optional,
    /// Each client must show a valid one.
    #[default]
    Required,
}

impl ClientCertificates {
    /// The value of `tls-auth-clients`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClientCertificates::None => "no",
            ClientCertificates::Optional => "optional",
            ClientCertificates::Required => "yes",
        }
    }

    /// From the value of `tls-auth-clients`.
    pub(crate) fn of(name: &[u8]) -> ClientCertificates {
        match name {
            b"no" => ClientCertificates::None,
            b"optional" => ClientCertificates::Optional,
            _ => ClientCertificates::Required,
        }
    }
}

/// What TLS needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// The port; 0 takes any that is free.
    pub port: u16,
    /// The server's certificate, and those that it is signed with, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM, not encrypted.
    pub key: PathBuf,
    /// The authorities of clients' certificates, in PEM.
    pub authorities: Option<PathBuf>,
    /// Whether clients have to show a certificate.
    pub clients: ClientCertificates,
    /// The connection to a primary is encrypted too, with the same certificate.
    pub replication: bool,
}

/// Reads the certificates.
///
/// # Errors
/// [`Error::Tls`]: a file that cannot be read, or holds something else; [`Error::Config`]: no authorities where clients may
/// show certificates.
pub(crate) fn server_config(config: &TlsConfig) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&config.certificate)?;
    let key =
        PrivateKeyDer::from_pem_file(&config.key).map_err(|error| failed(&config.key, &error))?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&config.certificate, &error))?;
    let builder = match (&config.authorities, config.clients) {
        (_, ClientCertificates::None) => builder.with_no_client_auth(),
        (None, _) => return Err(Error::Config(NO_AUTHORITIES.to_owned())),
        (Some(path), clients) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier = match clients {
                ClientCertificates::Optional => verifier.allow_unauthenticated(),
                ClientCertificates::Required | ClientCertificates::None => verifier,
            };
            let verifier = verifier.build().map_err(|error| failed(path, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let made = builder.with_single_cert(chain, key);
    Ok(Arc::new(made.map_err(|error| failed(&config.certificate, &error))?))
}

/// Reads the certificates for the connection to a primary, if it is to be encrypted.
///
/// # Errors
/// As those of [`server_config`].
pub(crate) fn client_config(config: &TlsConfig) -> Result<Option<Arc<ClientConfig>>, Error> {
    if !config.replication {
        return Ok(None);
    }
    let Some(path) = &config.authorities else {
        return Err(Error::Config(NO_AUTHORITY_OF_PRIMARY.to_owned()));
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&config.certificate, &error))?
        .with_root_certificates(authorities(path)?);
    let key =
        PrivateKeyDer::from_pem_file(&config.key).map_err(|error| failed(&config.key, &error))?;
    let made = builder.with_client_auth_cert(certificates(&config.certificate)?, key);
    Ok(Some(Arc::new(made.map_err(|error| failed(&config.certificate, &error))?)))
}

/// Encrypts a connection that was made to `host`, and waits for the handshake. What is written to the stream that is returned
/// is sent encrypted.
///
/// # Errors
/// The system's, and those of rustls: the certificate is of another host, or no known authority has signed it.
pub(crate) fn connect(
    config: &Arc<ClientConfig>,
    host: &str,
    mut socket: TcpStream,
) -> io::Result<UnixStream> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let mut session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    relay::start(Tls::from(session), socket.into())
}

/// Has a thread encrypt and decrypt what a client reads and writes. Returns the socket that takes the place of the client's.
///
/// # Errors
/// The system's.
pub(crate) fn start_relay(tls: Tls, socket: OwnedFd) -> io::Result<OwnedFd> {
    let plain = relay::start(tls, socket)?;
    plain.set_nonblocking(true)?;
    Ok(plain.into())
}

fn authorities(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| failed(path, &error))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<CertificateDer<'static>> = found.map_err(|error| failed(path, &error))?;
    if found.is_empty() {
        return Err(failed(path, &"it holds no certificate"));
    }
    Ok(found)
}

fn failed(path: &Path, reason: &dyn std::fmt::Display) -> Error {
    Error::Tls { path: path.to_owned(), reason: reason.to_string() }
}
