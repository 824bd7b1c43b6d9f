//! TLS 1.3 without a public-key infrastructure.
//!
//! Each rank makes a certificate when it starts, which nobody signs and whose name nobody checks: with it two sides
//! agree on keys, and no more. Who the other side is it proves by the token, together with what TLS exports
//! of that agreement ([`binding`]); so somebody between the two, who agrees on other keys with each of them, is found out.
//!
//! Certificate and key are never written to a file. Knows no rendezvous and no transport.

use std::fmt::{Debug, Formatter};
use std::io;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ServerConnection};
use rustls::{
    ClientConfig, Connection, DigitallySignedStruct, Error, ServerConfig, SignatureScheme, version,
};

/// The name in certificates, which is of no importance.
const NAME: &str = "burn-dist";

/// The certificate of a process, and how it encrypts.
#[derive(Clone)]
pub(crate) struct Tls {
    connects: Arc<ClientConfig>,
    accepts: Arc<ServerConfig>,
}

impl Tls {
    /// Makes a certificate.
    pub fn new() -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = CertificateParams::new([NAME.to_owned()])
            .and_then(|certificate| certificate.self_signed(&key))
            .map_err(io::Error::other)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(ring::default_provider());
        let any = AnyCertificate(provider.signature_verification_algorithms);
        let mut accepts = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .and_then(|builder| {
                let chain = vec![certificate.der().clone()];
                builder
                    .with_no_client_auth()
                    .with_single_cert(chain, key.into())
            })
            .map_err(io::Error::other)?;
        // No connection is taken up again.
        accepts.send_tls13_tickets = 0;
        accepts.session_storage = Arc::new(NoServerSessionStorage {});
        let mut connects = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(any))
            .with_no_client_auth();
        connects.resumption = Resumption::disabled();
        connects.enable_sni = false;
        Ok(Self {
            connects: Arc::new(connects),
            accepts: Arc::new(accepts),
        })
    }

    /// The side of a connection that connects.
    pub fn connects(&self) -> io::Result<Connection> {
        let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.connects.clone(), name);
        Ok(connection.map_err(io::Error::other)?.into())
    }

    /// The side of a connection that accepts.
    pub fn accepts(&self) -> io::Result<Connection> {
        let connection = ServerConnection::new(self.accepts.clone());
        Ok(connection.map_err(io::Error::other)?.into())
    }
}

impl Debug for Tls {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// What both ends of a connection know of it and nobody can make the same on two (RFC 9266).
pub(crate) fn binding(connection: &Connection) -> io::Result<[u8; 32]> {
    let exported =
        connection.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(b""));
    exported.map_err(io::Error::other)
}

/// Accepts the certificate of anybody who has its key.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
