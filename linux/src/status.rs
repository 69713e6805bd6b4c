//! Asking a guard how it stands, and answering: over the socket that claims the device.
//!
//! Its name is in the abstract namespace, so it belongs to the network namespace, leaves no file behind and ends with the process.
//! Such a name has no permissions; whoever asks is asked who it is, and only root, or whoever runs the guard, gets an answer.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{Shutdown, getsockopt, shutdown, sockopt};
use nix::unistd::Uid;

use crate::privilege;

/// What comes before the interface's index in the name of a claim.
const CLAIM: &str = "ackgate/guard/";
/// Longest wait for a guard's answer, and for whoever asks.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer at most.
const LONGEST: u64 = 1 << 20;

/// The name of the claim on the interface of this index.
pub(crate) fn claim_address(index: i32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{CLAIM}{index}"))
}

/// Answers whoever may ask, on a thread of its own, until this is dropped.
#[derive(Debug)]
pub struct Answers {
    listener: UnixListener,
    thread: Option<JoinHandle<()>>,
}

impl Answers {
    /// `tell` makes the answer, a line of text. `listener` is the socket of the claim.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(listener: UnixListener, tell: impl Fn() -> String + Send + 'static) -> io::Result<Self> {
        let ours = listener.try_clone()?;
        let serve = move || {
            if let Err(error) = privilege::give_up() {
                return tracing::error!("`ackgate status` is not answered: could not drop capabilities: {error}");
            }
            // Ends when the listener is shut down.
            while let Ok((stream, _)) = ours.accept() {
                // Whoever goes away before the answer is there does not matter.
                let _ = answer(stream, &tell);
            }
        };
        let thread = std::thread::Builder::new().name("ackgate-status".into()).spawn(serve)?;
        Ok(Self { listener, thread: Some(thread) })
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let _ = shutdown(self.listener.as_raw_fd(), Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: UnixStream, tell: &impl Fn() -> String) -> io::Result<()> {
    let asks = Uid::from_raw(getsockopt(&stream, sockopt::PeerCredentials)?.uid());
    if !asks.is_root() && asks != Uid::effective() {
        return Ok(());
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(tell().as_bytes())
}

/// Indices of the guarded interfaces of this network namespace.
///
/// # Errors
/// When the system does not tell.
pub fn guarded() -> io::Result<Vec<i32>> {
    let table = fs::read_to_string("/proc/thread-self/net/unix")?;
    let claimed = |line: &str| line.rsplit('@').next()?.strip_prefix(CLAIM)?.trim().parse().ok();
    let mut indices: Vec<i32> = table.lines().filter(|line| line.contains('@')).filter_map(claimed).collect();
    indices.sort_unstable();
    // A connection that is open has the name as well.
    indices.dedup();
    Ok(indices)
}

/// The answer of the guard of an interface; `None` when it gives none to this user.
///
/// # Errors
/// When there is no such guard, or it does not answer in time; when whoever has taken its name is neither root nor this user, and may
/// answer anything.
pub fn ask(index: i32) -> io::Result<Option<String>> {
    let stream = UnixStream::connect_addr(&claim_address(index)?)?;
    let answers = Uid::from_raw(getsockopt(&stream, sockopt::PeerCredentials)?.uid());
    if !answers.is_root() && answers != Uid::effective() {
        let who = format!("user {answers}, who is not root, has taken the name of a guard of interface {index}");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, who));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LONGEST).read_to_string(&mut text)?;
    Ok((!text.is_empty()).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_answered_until_the_claim_ends() {
        let index = i32::MAX - 7;
        let listener = UnixListener::bind_addr(&claim_address(index).unwrap()).unwrap();
        let answers = Answers::start(listener, || "well\n".into()).unwrap();
        assert!(guarded().unwrap().contains(&index));
        assert_eq!(ask(index).unwrap().as_deref(), Some("well\n"));
        assert_eq!(ask(index).unwrap().as_deref(), Some("well\n"));
        drop(answers);
        assert!(ask(index).is_err());
        assert!(!guarded().unwrap().contains(&index));
    }

    /// Runs `work` as nobody, on a thread of its own; `None` where this process may not become nobody.
    fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
        const NOBODY: libc::uid_t = 65_534;
        if !Uid::effective().is_root() {
            eprintln!("skipped: only root can try what another user can do");
            return None;
        }
        let become_nobody = || {
            // SAFETY: takes integers; called by its number it changes this thread alone.
            let done = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(done, 0, "{}", io::Error::last_os_error());
            work()
        };
        std::thread::scope(|scope| scope.spawn(become_nobody).join().ok())
    }

    #[test]
    fn another_user_is_told_nothing() {
        let index = i32::MAX - 8;
        let listener = UnixListener::bind_addr(&claim_address(index).unwrap()).unwrap();
        let _answers = Answers::start(listener, || "well\n".into()).unwrap();
        let Some(told) = as_nobody(|| ask(index).unwrap()) else { return };
        assert_eq!(told, None);
        assert_eq!(ask(index).unwrap().as_deref(), Some("well\n"));
    }

    #[test]
    fn who_only_takes_the_name_of_a_guard_is_not_believed() {
        let index = i32::MAX - 9;
        let taken = as_nobody(|| UnixListener::bind_addr(&claim_address(index).unwrap()).unwrap());
        let Some(listener) = taken else { return };
        let false_guard = Answers::start(listener, || "well\n".into()).unwrap();
        let error = ask(index).unwrap_err();
        assert!(error.kind() == io::ErrorKind::PermissionDenied && error.to_string().contains("65534"), "{error}");
        drop(false_guard);
    }

    #[test]
    fn another_user_cannot_mark_packets() {
        let mark = || {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            nix::sys::socket::setsockopt(&socket, sockopt::Mark, &crate::emitter::PASS_MARK)
        };
        let Some(marked) = as_nobody(mark) else { return };
        assert_eq!(marked, Err(nix::errno::Errno::EPERM));
    }
}
