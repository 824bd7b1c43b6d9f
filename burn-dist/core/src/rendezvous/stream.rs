//! A connection on which both sides have recognised each other, encrypted or not.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

#[cfg(feature = "tls")]
use super::session::Session;

/// An authenticated connection. One thread may read while another writes.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: TcpStream,
    #[cfg(feature = "tls")]
    // Large.
    session: Option<Box<Session>>,
}

impl Stream {
    /// What goes over `socket` as it is.
    pub fn plain(socket: TcpStream) -> Self {
        Self {
            socket,
            #[cfg(feature = "tls")]
            session: None,
        }
    }

    /// What goes over `socket` by way of `connection`, whose handshake is done.
    #[cfg(feature = "tls")]
    pub fn encrypted(socket: TcpStream, connection: rustls::Connection) -> Self {
        let session = Some(Box::new(Session::new(connection)));
        Self { socket, session }
    }

    pub fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.session.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// What nobody can make the same on two connections, if this is encrypted; else zeros.
    pub fn binding(&self) -> io::Result<[u8; 32]> {
        #[cfg(feature = "tls")]
        if let Some(session) = &self.session {
            return session.binding();
        }
        Ok([0; 32])
    }

    /// The connection below: for its addresses, time limits and end, not for what it carries.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether something has come that is not read yet. Does not wait.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::UnexpectedEof`] if the other side has closed the connection, else what the system says of it.
    pub fn is_readable(&self) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Some(session) = &self.session
            && session.has_decrypted()?
        {
            return Ok(true);
        }
        match recv(
            &self.socket,
            &mut [0],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        ) {
            Ok((0, _)) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Says that no more will be sent, and ends the connection in that direction or in both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if let Some(session) = &self.session {
            // Who is gone need not know.
            let _ = session.close(&self.socket);
        }
        self.socket.shutdown(how)
    }

    #[cfg(not(feature = "tls"))]
    pub fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// The connection, and what encrypts it.
    #[cfg(feature = "tls")]
    pub fn into_parts(self) -> (TcpStream, Option<rustls::Connection>) {
        (
            self.socket,
            self.session.map(|session| session.into_inner()),
        )
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(session) = &self.session {
            return session.read(&self.socket, into);
        }
        (&self.socket).read(into)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Some(session) = &self.session {
            return session.write(&self.socket, bytes);
        }
        (&self.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
