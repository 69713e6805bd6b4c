//! What is made up for when the scheduler stops: who was told less than TCP said, and what the scheduler forgets afterwards.

use super::*;

impl Host {
    /// What is to be said in TCP's name on a flow: acknowledgement number, sequence number and window.
    fn word(&self, flow: u32) -> Option<(u32, u32, u16)> {
        let flow = &self.shim.state.flows[flow as usize];
        let word = decision::told_less(&self.shim.rules, &self.shim.state.gate, flow)?;
        let position = word.position(flow);
        Some((position.ack.0, position.seq.0, word.window()))
    }

    fn leave_to_tcp(&self, flow: u32) {
        let flow = &self.shim.state.flows[flow as usize];
        let word = decision::told_less(&self.shim.rules, &self.shim.state.gate, flow).unwrap();
        decision::leave_to_tcp(&self.shim.rules, &self.shim.state.gate, flow, &word);
    }
}

#[test]
fn whose_window_was_lowered_is_told_once() {
    let mut host = Host::new(Config::credit(128_000));
    host.connect(0);
    host.connect(1);
    for flow in 0..2 {
        host.send(flow, Segment { seq: SeqNumber(7), window: 2000, ..request(1) });
    }
    assert_eq!(host.word(1), Some((1, 107, 2000)), "TCP offers 256 000 bytes");
    host.leave_to_tcp(1);
    assert_eq!((host.word(1), host.owed(1)), (None, 0));
    host.check_ledger();
    let open = host.shim.state.flows[1].edge.get();
    assert_eq!(open, 1 + 2000 * 128);
}

#[test]
fn whose_ack_is_held_is_told_and_whose_is_not_hears_nothing() {
    let mut host = Host::new(config());
    for flow in 0..3 {
        host.connect(flow);
    }
    for flow in 0..2 {
        host.data(flow, 1, MSS);
        host.data(flow, 1 + MSS, MSS);
    }
    host.ack(0, 1 + MSS);
    host.fill(2);
    host.ack(1, 1 + MSS);
    host.ack(1, 1 + 2 * MSS);
    assert_eq!(host.shim.held(), 2);
    assert_eq!((host.word(0), host.word(1).map(|(ack, ..)| ack)), (None, Some(1 + 2 * MSS)));
}

#[test]
fn a_handshake_has_no_last_word() {
    let mut host = Host::new(Config::credit(128_000));
    host.receive(0, Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), ..blank() });
    host.send(0, Segment { flags: Flags::SYN | Flags::ACK, mss: 1460, wscale: Some(7), window: 64_000, ..pure_ack(1) });
    assert_eq!(host.word(0), None);
}

#[test]
fn what_is_abandoned_never_leaves() {
    for config in [config(), Config::credit(128_000)] {
        let mut host = Host::new(config);
        for flow in 0..4 {
            host.connect(flow);
        }
        for flow in 0..3 {
            host.data(flow, 1, MSS);
            host.data(flow, 1 + MSS, MSS);
        }
        host.fill(3);
        for flow in 0..3 {
            host.ack(flow, 1 + 2 * MSS);
        }
        assert_eq!(host.shim.held(), 3);
        let (left, wire) = (host.left.len(), host.wire.len());
        host.shim.scheduler.abandon(&host.shim.state);
        host.poll();
        assert_eq!((host.shim.held(), host.left.len(), host.wire.len()), (0, left, wire));
        host.check_ledger();
        host.wait(Span::secs(1));
        assert_eq!(host.wire.len(), wire);
        assert!(host.split.is_empty(), "nothing is kept any longer");
    }
}
