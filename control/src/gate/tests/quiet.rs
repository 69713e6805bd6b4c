//! After a burst, however it ends, the gate is open again within 100 ms: nothing waits, nothing is owed, nobody counts as active.

use super::*;

const FLOWS: u32 = 30;

/// Connections that were opened and, if `asked`, have sent a request that was let go or waits.
fn opened(guard: Guard, asked: bool) -> Host {
    let mut host = Host::new(Config { rate_mbps: 1_000, ..Config::of(guard, 96_000) });
    for flow in 0..FLOWS {
        host.connect(flow);
    }
    host.wait(Span::millis(20));
    for flow in 0..if asked { FLOWS } else { 0 } {
        host.send(flow, request(1));
    }
    host
}

/// Every flow gets the first segments of its response, acknowledged one by one.
fn answered(guard: Guard, segments: u32) -> Host {
    let mut host = opened(guard, true);
    for i in 0..segments {
        for flow in 0..FLOWS {
            host.now += Span::micros(12);
            host.data(flow, 1 + i * MSS, MSS);
            host.ack(flow, 1 + (i + 1) * MSS);
        }
    }
    host
}

/// The states in which a burst may end.
fn states(guard: Guard) -> Vec<(&'static str, Host)> {
    let mut states =
        vec![("requests that nobody answers", opened(guard, true)), ("responses that stop midway", answered(guard, 3))];

    let mut host = answered(guard, 3);
    for flow in 0..FLOWS {
        host.receive(flow, Segment { flags: Flags::PSH | Flags::ACK, ..data(1 + 3 * MSS, 700) });
        host.ack(flow, 1 + 3 * MSS + 700);
    }
    states.push(("responses that are over", host));

    let mut host = answered(guard, 1);
    for flow in 0..FLOWS {
        host.data(flow, 1 + 2 * MSS, MSS);
        for _ in 0..3 {
            host.send(flow, Segment { sack: true, ..pure_ack(1 + MSS) });
        }
    }
    states.push(("losses that nobody repairs", host));

    let mut host = answered(guard, 2);
    for flow in 0..FLOWS {
        host.data(flow, 1, MSS);
        host.ack(flow, 1 + 2 * MSS);
    }
    states.push(("retransmissions of what has arrived", host));

    let mut host = answered(guard, 2);
    for flow in 0..FLOWS {
        host.data(flow, 1 + 2 * MSS, MSS);
        host.send(flow, Segment { window: 0, ..pure_ack(1 + 3 * MSS) });
    }
    states.push(("closed windows", host));

    for (what, flags) in [("resets", Flags::RST), ("their ends", Flags::FIN | Flags::ACK)] {
        let mut host = answered(guard, 2);
        for flow in 0..FLOWS {
            host.receive(flow, Segment { flags, ..data(1 + 2 * MSS, 0) });
        }
        states.push((what, host));
    }

    let mut host = answered(guard, 2);
    for flow in 0..FLOWS {
        host.send(flow, Segment { flags: Flags::FIN | Flags::ACK, ..pure_ack(1 + 2 * MSS) });
    }
    states.push(("our own ends", host));

    let mut host = opened(guard, false);
    for flow in FLOWS..2 * FLOWS {
        host.receive(flow, Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), ..blank() });
        host.send(flow, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale: Some(7), ..pure_ack(1) });
    }
    states.push(("handshakes that nobody ends", host));

    let mut host = opened(guard, true);
    for _ in 0..5 {
        for flow in 0..FLOWS {
            host.now += Span::micros(50);
            host.send(flow, request(1));
        }
    }
    states.push(("messages one way", host));

    let mut host = answered(guard, 2);
    for flow in 0..FLOWS {
        host.receive(flow, Segment { ce: true, ..data(1 + 2 * MSS, MSS) });
        host.send(flow, Segment { flags: Flags::ACK | Flags::ECE, ..pure_ack(1 + 3 * MSS) });
    }
    states.push(("marks", host));
    states
}

#[test]
fn whatever_a_burst_leaves_behind_the_gate_is_open_again_within_100_ms() {
    for guard in [Guard::Credit, Guard::Pac] {
        for (what, mut host) in states(guard) {
            let end = host.now + Span::millis(100);
            while host.now < end {
                // The daemon looks at its heartbeat, if nothing asks for it sooner.
                let wake = host.shim.poll_timeout().unwrap_or(Time::NEVER).min(host.now + Span::millis(25)).min(end);
                host.now = host.now.max(wake);
                host.poll();
            }
            let gate = host.shim.gate();
            let left = [gate.held.get(), gate.owed.get(), gate.active.get(), gate.offered.get()];
            assert_eq!(left, [0; 4], "held, owed, active and offered behind {what}, {guard:?}");
            host.check_ledger();
        }
    }
}
