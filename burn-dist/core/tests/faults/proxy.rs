//! A network between two ranks that cuts bytes apart: each goes alone.
//!
//! Rank 1 takes the proxy for rank 0. What rank 0 says of its own port is replaced by a port of the proxy, so that the
//! connection for data passes it as well.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Greeting and proof of a handshake.
const HANDSHAKE: [usize; 2] = [75, 32];
/// Between two bytes: enough for the other side to see the first alone.
const PAUSE: Duration = Duration::from_micros(200);

/// Stands between the ranks of a job of two whose rank 0 listens at `meeting`; the port that rank 1 is to take for it.
pub fn between(meeting: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        // Rank 1 comes again until rank 0 is there.
        while let Ok((near, _)) = listener.accept() {
            let Ok(far) = TcpStream::connect(("127.0.0.1", meeting)) else {
                continue;
            };
            let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pass_bytes(from, to));
            pass_roster(far, near);
            return;
        }
    });
    port
}

/// Passes each byte alone, until the end.
fn pass_bytes(mut from: TcpStream, mut to: TcpStream) {
    to.set_nodelay(true).unwrap();
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        for byte in &bytes[..count] {
            if to.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
    // The other side may be gone.
    let _ = to.shutdown(Shutdown::Write);
}

/// Passes what rank 0 says, with another port in its roster.
fn pass_roster(mut from: TcpStream, mut to: TcpStream) {
    for length in HANDSHAKE {
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes).unwrap();
        to.write_all(&bytes).unwrap();
    }
    let run = message(&mut from);
    send(&mut to, &run);
    let mut welcome = message(&mut from);
    let port = &mut welcome["roster"]["members"][0]["port"];
    *port = data_proxy(port.as_u64().unwrap() as u16).into();
    send(&mut to, &welcome);
    pass_bytes(from, to);
}

fn message(from: &mut TcpStream) -> Value {
    let mut length = [0; 4];
    from.read_exact(&mut length).unwrap();
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut message).unwrap();
    serde_json::from_slice(&message).unwrap()
}

fn send(to: &mut TcpStream, message: &Value) {
    let message = message.to_string().into_bytes();
    to.write_all(&(message.len() as u32).to_le_bytes()).unwrap();
    to.write_all(&message).unwrap();
}

/// A port by which the data of rank 0 are reached at `port`.
fn data_proxy(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        std::thread::spawn(move || pass_bytes(from, to));
        pass_bytes(far, near);
    });
    own
}
