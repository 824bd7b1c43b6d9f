//! What encrypts a stream.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::Connection;

use crate::tls;

/// A TLS connection of which one thread may read while another writes: neither waits for the socket with the lock.
#[derive(Debug)]
pub(super) struct Session(Mutex<Connection>);

impl Session {
    /// Takes over a connection whose handshake is done.
    pub fn new(connection: Connection) -> Self {
        Self(Mutex::new(connection))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // Only `rustls` works under the lock, and it does not panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn binding(&self) -> io::Result<[u8; 32]> {
        tls::binding(&self.connection())
    }

    /// Whether something is at hand that was decrypted before.
    pub fn has_decrypted(&self) -> io::Result<bool> {
        let processed = self.connection().process_new_packets();
        let state = processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(state.plaintext_bytes_to_read() > 0)
    }

    /// Reads from `socket` once, if nothing is at hand. An end without a word of farewell is an error.
    pub fn read(&self, socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
        match self.connection().reader().read(into) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
        socket.peek(&mut [0])?;
        let mut connection = self.connection();
        // Has come, and nobody else reads it.
        connection.read_tls(&mut &*socket)?;
        let processed = connection.process_new_packets();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        match connection.reader().read(into) {
            // Only a part of a record: called again, as after a signal, for as long as there is time.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Err(ErrorKind::Interrupted.into())
            }
            // In fewer words.
            Err(error) => Err(error.kind().into()),
            outcome => outcome,
        }
    }

    /// Writes some of `bytes`.
    pub fn write(&self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let mut connection = self.connection();
        let taken = connection.writer().write(bytes)?;
        send(connection, socket)?;
        Ok(taken)
    }

    /// Says farewell.
    pub fn close(&self, socket: &TcpStream) -> io::Result<()> {
        let mut connection = self.connection();
        connection.send_close_notify();
        send(connection, socket)
    }

    pub fn into_inner(self) -> Connection {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends what is encrypted.
fn send(mut connection: MutexGuard<'_, Connection>, mut socket: &TcpStream) -> io::Result<()> {
    let mut encrypted = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut encrypted)?;
    }
    drop(connection);
    socket.write_all(&encrypted)
}
