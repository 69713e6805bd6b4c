//! A control connection to a server: blocking, for what is said between rounds.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::load::LoadError;
use crate::load::wire::Reply;

pub(super) struct Control {
    pub(super) addr: SocketAddr,
    pub(super) stream: TcpStream,
    pub(super) inbox: Vec<u8>,
}

impl Control {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        let addr = self.addr;
        self.stream.write_all(bytes).map_err(|source| LoadError::Connect { addr, source })
    }

    pub(super) fn reply(&mut self) -> Result<Reply, LoadError> {
        let addr = self.addr;
        let mut chunk = [0; 1024];
        loop {
            let decoded = Reply::decode(&self.inbox).map_err(|source| LoadError::Wire { addr, source })?;
            if let Some((reply, taken)) = decoded {
                self.inbox.drain(..taken);
                return Ok(reply);
            }
            let read = self.stream.read(&mut chunk).map_err(|source| LoadError::Connect { addr, source })?;
            if read == 0 {
                let source = io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the control connection (is it `ackgate load serve` of the same version?)",
                );
                return Err(LoadError::Connect { addr, source });
            }
            self.inbox.extend_from_slice(&chunk[..read]);
        }
    }
}
