//! The load's two ends against each other over loopback: what is asked for arrives, in every mode, and what goes wrong
//! is said.

#![expect(clippy::unwrap_used, reason = "a panic is the failure report")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ackgate_lab::load::LoadError;
use ackgate_lab::load::pull::{Event, PullConfig, Start, Volume, pull};
use ackgate_lab::load::serve::Server;

struct Serving {
    addrs: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn on(addrs: &[&str]) -> Self {
        let mut server = Server::new().unwrap();
        let addrs = addrs.iter().map(|a| server.listen(a.parse().unwrap(), None).unwrap()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || server.run(&flag).unwrap()));
        Self { addrs, stop, thread }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn config(servers: &[SocketAddr]) -> PullConfig {
    PullConfig {
        servers: servers.to_vec(),
        connections: 10,
        volume: Volume::PerConnection(100_000),
        rounds: 3,
        warmup: 1,
        start: Start::Pull,
        fresh: false,
        cc: None,
        mss: None,
        own_cc: None,
        quickack: false,
        pace: None,
        deadline: Duration::from_secs(30),
    }
}

fn run(config: &PullConfig) -> Result<ackgate_lab::load::report::LoadReport, LoadError> {
    pull(config, &AtomicBool::new(false), |_| {})
}

#[test]
fn every_mode_moves_every_byte() {
    let serving = Serving::on(&["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"]);
    for (start, fresh) in [(Start::Pull, false), (Start::Pull, true), (Start::Push, false), (Start::Push, true)] {
        let config = PullConfig { start, fresh, ..config(&serving.addrs) };
        let mut rounds = 0;
        let report =
            pull(&config, &AtomicBool::new(false), |e| rounds += u32::from(matches!(e, Event::Round(_)))).unwrap();
        assert_eq!((report.rounds, rounds, report.servers, report.connections), (3, 3, 3, 10), "{start:?} {fresh}");
        assert_eq!(report.bytes, 3 * 10 * 100_000);
        assert!(report.goodput_mbps > 0.0 && report.flow_ms.max <= report.round_ms.max);
        if !fresh {
            assert_eq!(report.senders.connections, 10, "TCP_INFO was read of every connection");
        }
    }
}

#[test]
fn a_total_is_shared_by_the_connections() {
    let serving = Serving::on(&["127.0.0.1:0"]);
    let report = run(&PullConfig { volume: Volume::Total(1_000_003), ..config(&serving.addrs) }).unwrap();
    assert_eq!(report.bytes, 3 * 1_000_000);
}

#[test]
fn a_thousand_connections_on_one_thread_each_end() {
    let serving = Serving::on(&["127.0.0.1:0"]);
    let config =
        PullConfig { connections: 1000, volume: Volume::PerConnection(5_000), rounds: 2, ..config(&serving.addrs) };
    assert_eq!(run(&config).unwrap().bytes, 2 * 1000 * 5_000);
}

#[test]
fn a_congestion_control_that_is_not_there_is_named() {
    let serving = Serving::on(&["127.0.0.1:0"]);
    let error = run(&PullConfig { cc: Some("nosuchcc".into()), ..config(&serving.addrs) }).unwrap_err();
    assert!(matches!(error, LoadError::NoSuchCc { .. }), "{error}");
    assert!(error.to_string().contains("tcp_available_congestion_control"));
    assert_eq!(run(&PullConfig { cc: Some("reno".into()), ..config(&serving.addrs) }).unwrap().rounds, 3);
}

#[test]
fn a_refused_connection_says_what_to_start() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = run(&config(&[free])).unwrap_err();
    assert!(error.to_string().contains("ackgate load serve"), "{error}");
}

#[test]
fn a_stranger_at_the_other_end_is_an_error_and_no_hang() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    assert!(matches!(run(&config(&[addr])), Err(LoadError::Wire { .. } | LoadError::Connect { .. })));
    stranger.join().unwrap();
}

#[test]
fn a_strange_client_costs_only_its_own_connection() {
    let serving = Serving::on(&["127.0.0.1:0"]);
    let mut stranger = TcpStream::connect(serving.addrs[0]).unwrap();
    stranger.write_all(&[b'x'; 100]).unwrap();
    // The server closes with octets unread, which TCP may tell as a reset.
    let end = stranger.read(&mut [0; 1]);
    assert!(matches!(end, Ok(0)) || end.is_err());
    assert_eq!(run(&config(&serving.addrs)).unwrap().rounds, 3);
}

#[test]
fn the_deadline_and_the_stop_flag_end_a_load() {
    let serving = Serving::on(&["127.0.0.1:0"]);
    let huge = PullConfig { volume: Volume::PerConnection(1 << 40), ..config(&serving.addrs) };
    let error = run(&PullConfig { deadline: Duration::from_millis(200), ..huge.clone() }).unwrap_err();
    assert!(matches!(error, LoadError::Deadline { asked: 10, .. }), "{error}");
    let stopped = pull(&huge, &AtomicBool::new(true), |_| {}).unwrap_err();
    assert!(matches!(stopped, LoadError::Stopped), "{stopped}");
}

#[test]
fn senseless_settings_are_refused() {
    let addr: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let base = config(&[addr]);
    for bad in [
        PullConfig { servers: vec![], ..base.clone() },
        PullConfig { connections: 0, ..base.clone() },
        PullConfig { rounds: 0, ..base.clone() },
        PullConfig { volume: Volume::Total(3), ..base.clone() },
        PullConfig { cc: Some("a name".into()), ..base.clone() },
    ] {
        assert!(matches!(run(&bad), Err(LoadError::Config(_))), "{bad:?}");
    }
}
