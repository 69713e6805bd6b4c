//! A web server and a client as the distribution has them: nginx and wrk. Small responses to one host, which no guard should make
//! dearer.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::row::{Bench, Measure, Row, RowError, Unit, end, fast, io_error};
use crate::testbed::{Namespace, Testbed};

/// What to do where one of them is missing.
const INSTALL: &str = "on Debian or Ubuntu: apt-get install nginx wrk";
/// Octets of a response.
const RESPONSE: usize = 1000;
/// Connections at once.
const CONNECTIONS: &str = "-c8";
/// How long is measured.
const SPAN: &str = "-d3s";
/// How long the server may take to listen.
const PATIENCE: Duration = Duration::from_secs(5);

/// wrk at one host asks nginx at another.
struct Web {
    /// A connection for each request.
    fresh: bool,
    /// The guarded host serves instead of asking.
    serve: bool,
    what: What,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Rate,
    /// What 99 of 100 responses take at most.
    Latency,
}

const KEPT: Web = Web { fresh: false, serve: false, what: What::Rate };

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "web-kept",
        what: "wrk asks nginx for 1 KB over 8 kept connections, no limit",
        unit: Unit::PerSecond,
        measure: &KEPT,
    },
    Row {
        name: "web-kept-p99",
        what: "the same: p99 of the responses",
        unit: Unit::Micros,
        measure: &Web { what: What::Latency, ..KEPT },
    },
    Row {
        name: "web-fresh",
        what: "the same, a connection for each request",
        unit: Unit::PerSecond,
        measure: &Web { fresh: true, ..KEPT },
    },
    Row {
        name: "web-serve",
        what: "nginx at the guarded host, 8 kept connections",
        unit: Unit::PerSecond,
        measure: &Web { serve: true, ..KEPT },
    },
];

impl Measure for Web {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (testbed, guard) = bench.bed(fast(1))?;
        let (receiver, sender) = (Testbed::receiver_address(false), Testbed::sender_address(0, false));
        let (at, address, from) = match self.serve {
            true => (testbed.receiver(), receiver, testbed.sender(0)),
            false => (testbed.sender(0), sender, testbed.receiver()),
        };
        // A client's port is free again at once, or the run ends with the last of them.
        from.set_sysctls(&[("ipv4/tcp_tw_reuse", "1")]).map_err(io_error("setting up a host"))?;
        let _server = Nginx::start(&at, address, &from)?;
        let figure = self.ask(&from, address)?;
        end(guard)?;
        Ok(figure)
    }
}

impl Web {
    /// What wrk measures.
    fn ask(&self, from: &Namespace, address: IpAddr) -> Result<f64, RowError> {
        let mut wrk = Command::new("wrk");
        wrk.args(["-t1", CONNECTIONS, SPAN, "--latency"]).arg(format!("http://{address}/1k"));
        if self.fresh {
            wrk.args(["-H", "Connection: close"]);
        }
        let output = from.inside(|| wrk.output()).and_then(|output| output).map_err(missing("wrk"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = text.contains("Non-2xx") || text.contains("Socket errors") || !output.status.success();
        let value = if failed { None } else { understand(&text, self.what) };
        let told = || format!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr)).replace('\n', "; ");
        value.ok_or_else(|| io_error("asking a web server")(io::Error::other(told())))
    }
}

/// A figure of wrk's report.
fn understand(text: &str, what: What) -> Option<f64> {
    let after = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
    match what {
        What::Rate => after("Requests/sec:")?.parse().ok(),
        What::Latency => {
            let time = after("99%")?;
            let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
            let (number, unit) = units.iter().find_map(|(unit, worth)| Some((time.strip_suffix(unit)?, worth)))?;
            number.parse::<f64>().ok().map(|number| number * unit)
        }
    }
}

/// A program that cannot be started.
fn missing(program: &'static str) -> impl Fn(io::Error) -> RowError {
    move |error| match error.kind() {
        ErrorKind::NotFound => RowError::Impossible(format!("`{program}` is not installed; {INSTALL}")),
        _ => io_error("starting nginx or wrk")(error),
    }
}

/// nginx, one process of it; killed when dropped.
struct Nginx {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// Serves at `address` in a namespace; returns when it is reached from the other one.
    fn start(at: &Namespace, address: IpAddr, from: &Namespace) -> Result<Self, RowError> {
        let failed = io_error("setting up a web server");
        let folder = tempfile::tempdir().map_err(&failed)?;
        let file = folder.path().join("nginx.conf");
        fs::write(folder.path().join("1k"), [b'x'; RESPONSE]).map_err(&failed)?;
        fs::write(&file, settings(folder.path(), address)).map_err(&failed)?;
        let mut nginx = Command::new("nginx");
        nginx.arg("-p").arg(folder.path()).arg("-e").arg("stderr").arg("-c").arg(file);
        nginx.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = at.inside(|| nginx.spawn()).and_then(|child| child).map_err(missing("nginx"))?;
        let server = Self { child, _folder: folder };
        let until = Instant::now() + PATIENCE;
        let to = SocketAddr::new(address, 80);
        while let Err(error) = from.inside(|| TcpStream::connect_timeout(&to, PATIENCE)).and_then(|stream| stream) {
            if Instant::now() > until {
                return Err(io_error("reaching nginx")(error));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One process, which writes nothing outside its folder.
fn settings(folder: &Path, address: IpAddr) -> String {
    let folder = folder.display();
    let paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let paths: String = paths.iter().map(|name| format!("{name}_temp_path {folder}/{name};\n")).collect();
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/pid;\nevents {{ worker_connections 1024; }}\nhttp {{\n{paths}\
         access_log off;\nkeepalive_requests 1000000000;\nserver {{ listen {address}:80; root {folder}; }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_wrk_is_understood() {
        let text = "  Latency Distribution\n     50%   98.00us\n     99%    1.25ms\n  200 requests in 3.00s\nRequests/sec:  81234.56\n";
        assert_eq!(understand(text, What::Rate), Some(81_234.56));
        assert_eq!(understand(text, What::Latency), Some(1250.0));
        assert_eq!(understand("     99%  310.00us", What::Latency), Some(310.0));
        assert_eq!(understand("unable to connect", What::Rate), None);
    }
}
