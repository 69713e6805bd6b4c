//! The delay line on this kernel: nothing comes before its time, nothing is lost, nothing overtakes. Needs root; says so when
//! it has to skip.

#![expect(clippy::unwrap_used, reason = "a panic is the failure report")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use ackgate_lab::testbed::{Spec, Testbed, TestbedError, require_privilege};
use socket2::SockRef;

const FAR: Duration = Duration::from_millis(30);

/// A near host and a far one, or nothing where that cannot be.
fn near_and_far(offloads: bool) -> Option<Testbed> {
    if let Err(e) = require_privilege() {
        eprintln!("SKIPPED: {e}");
        return None;
    }
    let rate = 500_000_000;
    let spec = Spec {
        hosts: 2,
        rate,
        burst: Spec::burst_for(rate),
        buffer: 4_000_000,
        offloads,
        rtts: vec![Duration::ZERO, FAR],
        ..Spec::pac_edge()
    };
    match Testbed::build(spec) {
        Err(error @ TestbedError::Io { .. }) if error.to_string().contains("CONFIG_TUN") => {
            eprintln!("SKIPPED: {error}");
            None
        }
        built => Some(built.unwrap()),
    }
}

fn anywhere(ipv6: bool) -> SocketAddr {
    let address = if ipv6 { IpAddr::from(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(address, 0)
}

/// Least time of a few exchanges of one octet between the receiver and a host.
fn least_rtt(testbed: &Testbed, host: usize, ipv6: bool) -> Duration {
    let echo = testbed.sender(host).inside(|| UdpSocket::bind(anywhere(ipv6)).unwrap()).unwrap();
    let to = SocketAddr::new(Testbed::sender_address(host, ipv6), echo.local_addr().unwrap().port());
    let asking = testbed.receiver().inside(|| UdpSocket::bind(anywhere(ipv6)).unwrap()).unwrap();
    for socket in [&echo, &asking] {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    let exchange = |_| {
        let began = Instant::now();
        let mut octet = [0];
        asking.send_to(&[7], to).unwrap();
        let (_, from) = echo.recv_from(&mut octet).unwrap();
        echo.send_to(&octet, from).unwrap();
        asking.recv_from(&mut octet).unwrap();
        began.elapsed()
    };
    (0..10).map(exchange).min().unwrap()
}

#[test]
fn far_hosts_are_far_and_near_ones_near() {
    let Some(testbed) = near_and_far(false) else { return };
    for ipv6 in [false, true] {
        assert!(least_rtt(&testbed, 1, ipv6) >= FAR);
        assert!(least_rtt(&testbed, 0, ipv6) < FAR, "the near host waits as well");
    }
}

#[test]
fn paths_become_longer_and_shorter_again_while_they_are_used() {
    let Some(testbed) = near_and_far(false) else { return };
    for (by, least) in [(FAR, 2 * FAR), (Duration::ZERO, FAR)] {
        testbed.lengthen(by).unwrap();
        assert!((least..least + FAR).contains(&least_rtt(&testbed, 1, false)), "longer by {by:?}");
        assert!(least_rtt(&testbed, 0, false) < FAR, "the near host waits as well");
    }
}

#[test]
fn datagrams_arrive_all_and_in_order() {
    const COUNT: u32 = 5000;
    let Some(testbed) = near_and_far(false) else { return };
    let sink = testbed.sender(1).inside(|| UdpSocket::bind(anywhere(false)).unwrap()).unwrap();
    // A buffer that holds them all, so that only the network could lose one.
    SockRef::from(&sink).set_recv_buffer_size(4 << 20).unwrap();
    sink.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let to = SocketAddr::new(Testbed::sender_address(1, false), sink.local_addr().unwrap().port());
    let send = || {
        let socket = UdpSocket::bind(anywhere(false)).unwrap();
        for n in 0..COUNT {
            socket.send_to(&n.to_be_bytes(), to).unwrap();
            // Some wait for others to be due.
            if n % 500 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    };
    testbed.receiver().inside(send).unwrap();
    for n in 0..COUNT {
        let mut octets = [0; 4];
        sink.recv_from(&mut octets).unwrap();
        assert_eq!(u32::from_be_bytes(octets), n);
    }
    assert_eq!(testbed.delay_lost(), 0);
}

#[test]
fn bulk_passes_whole_with_offloads_and_without() {
    const BYTES: usize = 20_000_000;
    for offloads in [false, true] {
        let Some(testbed) = near_and_far(offloads) else { return };
        let at = SocketAddr::new(Testbed::sender_address(1, false), 4000);
        let listener = testbed.sender(1).inside(|| TcpListener::bind(at).unwrap()).unwrap();
        let mut sending = testbed.receiver().inside(|| TcpStream::connect(at).unwrap()).unwrap();
        let (mut receiving, _) = listener.accept().unwrap();
        let pattern: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
        let began = Instant::now();
        let came = std::thread::scope(|scope| {
            scope.spawn(|| {
                sending.write_all(&pattern).unwrap();
                sending.shutdown(std::net::Shutdown::Write).unwrap();
            });
            let mut came = Vec::with_capacity(BYTES);
            receiving.read_to_end(&mut came).unwrap();
            came
        });
        let mbps = came.len() as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e6;
        eprintln!("offloads {offloads}: {mbps:.0} Mb/s through the delay line");
        assert!(came == pattern, "what came is not what was sent");
        assert_eq!(testbed.delay_lost(), 0);
    }
}

#[test]
fn nothing_is_left_of_it() {
    let Some(testbed) = near_and_far(true) else { return };
    let switch = testbed.switch();
    assert!(switch.path().exists());
    drop(testbed);
    assert!(!switch.path().exists());
}
