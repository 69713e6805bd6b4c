//! A web server at every sender host: nginx, as the distribution has it.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::WebError;
use crate::testbed::Testbed;

/// Where it listens.
pub(super) const PORT: u16 = 8080;
/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// The servers of a testbed, and the folder of what they serve. Dropping it ends both.
#[derive(Debug)]
pub(super) struct Servers {
    children: Vec<Child>,
    folder: PathBuf,
}

/// Whether there is a web server at all.
///
/// # Errors
/// When nginx is not installed.
pub(crate) fn require_server() -> Result<(), WebError> {
    let mut nginx = Command::new("nginx");
    match nginx.arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(source) => Err(missing(source)),
    }
}

fn missing(source: io::Error) -> WebError {
    match source.kind() {
        io::ErrorKind::NotFound => WebError::Missing,
        _ => WebError::Io { what: "starting nginx", source },
    }
}

impl Servers {
    /// Starts one at each sender host, which serves files of these names and lengths.
    ///
    /// # Errors
    /// When nginx is not installed, or does not begin to serve.
    pub(super) fn start(testbed: &Testbed, files: &[(&str, u64)]) -> Result<Self, WebError> {
        let io = |what: &'static str| move |source| WebError::Io { what, source };
        let folder = std::env::temp_dir().join(format!("ackgate-web-{}", std::process::id()));
        // What an earlier process of that number left.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("files")).map_err(io("creating the folder of what is served"))?;
        let mut servers = Self { children: Vec::new(), folder };
        for (name, bytes) in files {
            // Zeros that take no room.
            let file = fs::File::create(servers.folder.join("files").join(name));
            file.and_then(|file| file.set_len(*bytes)).map_err(io("creating what is served"))?;
        }
        for k in 0..testbed.spec().hosts {
            let address = SocketAddr::new(Testbed::sender_address(k, false), PORT);
            let settings = servers.folder.join(format!("{k}.conf"));
            fs::write(&settings, servers.settings(k, address)).map_err(io("writing nginx's settings"))?;
            let mut nginx = Command::new("nginx");
            nginx.arg("-p").arg(&servers.folder).arg("-c").arg(&settings);
            nginx.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let started = testbed.sender(k).inside(|| nginx.spawn()).and_then(|child| child);
            servers.children.push(started.map_err(missing)?);
            servers.wait(testbed, k, address)?;
        }
        Ok(servers)
    }

    /// The settings of one server: a single process that keeps connections.
    fn settings(&self, host: usize, address: SocketAddr) -> String {
        let folder = self.folder.display();
        let mut text = format!(
            "daemon off;\nmaster_process off;\nworker_rlimit_nofile 65536;\npid {folder}/{host}.pid;\nerror_log stderr crit;\n\
             events {{ worker_connections 16384; }}\nhttp {{\naccess_log off;\nsendfile on;\ntcp_nopush on;\nkeepalive_timeout 1h;\n\
             keepalive_requests 1000000;\n"
        );
        for purpose in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{purpose}_temp_path {folder}/{host}.{purpose};");
        }
        text + &format!("server {{ listen {address} backlog=16384; root {folder}/files; }}\n}}\n")
    }

    /// Waits until a server takes connections.
    fn wait(&mut self, testbed: &Testbed, host: usize, address: SocketAddr) -> Result<(), WebError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let connected = testbed.sender(host).inside(|| TcpStream::connect(address)).and_then(|done| done);
            if connected.is_ok() {
                return Ok(());
            }
            let child = &mut self.children[host];
            let ended = child.try_wait().map_err(|source| WebError::Io { what: "waiting for nginx", source })?;
            if ended.is_some() || Instant::now() > until {
                let _ = child.kill();
                let told = child.stderr.take().map(io::read_to_string).and_then(Result::ok).unwrap_or_default();
                return Err(WebError::Server(told.trim().replace('\n', "; ")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // One that has ended already is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
