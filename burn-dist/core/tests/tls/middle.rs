//! Somebody in between, who decrypts and encrypts again.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SignatureScheme, StreamOwned,
};

use crate::worlds::free_port;
use crate::{encrypted, reach, refused, second};

/// Accepts any certificate, as ranks do.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
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
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = ring::default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Who speaks TLS and is no rank.
pub fn client() -> ClientConnection {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), "anybody".try_into().unwrap()).unwrap()
}

fn server() -> ServerConnection {
    let certified = rcgen::generate_simple_self_signed(["anybody".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    ServerConnection::new(Arc::new(config)).unwrap()
}

/// Decrypts what goes from one to the other, and encrypts it again: all that was read.
fn intercept(from: TcpStream, to: TcpStream, over: &AtomicBool) -> Vec<u8> {
    for socket in [&from, &to] {
        socket
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
    }
    let mut from = StreamOwned::new(server(), from);
    let mut to = StreamOwned::new(client(), to);
    let (mut read, mut bytes) = (Vec::new(), [0; 4096]);
    while !over.load(Ordering::Acquire) {
        for turn in 0..2 {
            let (reads, writes): (&mut dyn Read, &mut dyn Write) = match turn {
                0 => (&mut from, &mut to),
                _ => (&mut to, &mut from),
            };
            match reads.read(&mut bytes) {
                Ok(count @ 1..) => {
                    read.extend(&bytes[..count]);
                    if writes.write_all(&bytes[..count]).is_err() {
                        return read;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                _ => return read,
            }
        }
    }
    read
}

#[test]
fn a_man_in_the_middle_is_found_out_by_both_sides() {
    let (port, proxy) = (free_port(), TcpListener::bind("127.0.0.1:0").unwrap());
    let between = proxy.local_addr().unwrap().port();
    proxy.set_nonblocking(true).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let middle = scope.spawn(|| {
            let mut read = Vec::new();
            while !over.load(Ordering::Acquire) {
                match proxy.accept() {
                    Ok((from, _)) => {
                        from.set_nonblocking(false).unwrap();
                        read.extend(intercept(from, reach(("127.0.0.1", port)), &over));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
            read
        });
        let identity_1 = second("127.0.0.1", between);
        let outcome = scope.spawn(move || refused(port, encrypted(), encrypted(), &identity_1));
        let outcome = outcome.join();
        // Whatever it was: else a failure would wait for ever.
        over.store(true, Ordering::Release);
        for text in outcome.unwrap() {
            assert!(text.contains("a man in the middle"), "{text}");
        }
        // It did read what they said.
        let read = middle.join().unwrap();
        assert!(read.windows(8).any(|bytes| bytes == b"BurnDist"));
    });
}
