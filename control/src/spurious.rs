//! Was the timeout spurious? F-RTO (RFC 5682, the basic version) and Eifel detection (RFC 3522), which Vasudevan et al.
//! point to (§3.2, §5) for timeouts that are shorter than the path sometimes is. What is undone is the sender's affair.

use crate::seq::SeqNumber;

/// How spurious timeouts are detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    #[default]
    Off,
    /// By new data after the timeout (RFC 5682).
    FRto,
    /// By the timestamp of the ACK after the retransmission (RFC 3522).
    Eifel,
}

/// What an ACK after a timeout means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing special: go on retransmitting.
    Lost,
    /// F-RTO step 2b: send two new segments instead of retransmitting, then see.
    TryNew,
    /// F-RTO step 3a: it was a loss after all; retransmission begins again at the first unacknowledged byte.
    LostAfterAll,
    /// The ACK was for the original: nothing was lost.
    Spurious,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// The first unacknowledged segment has been retransmitted, with this TSval if there are timestamps.
    Retransmitted(Option<u32>),
    /// New segments have been sent after the first ACK.
    TriedNew,
}

/// The detector of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detector {
    method: Method,
    state: State,
}

impl Detector {
    /// A detector that knows of no timeout.
    #[must_use]
    pub const fn new(method: Method) -> Self {
        Self { method, state: State::Idle }
    }

    /// Whether an ACK would tell something.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.state != State::Idle
    }

    /// The retransmission timer fired.
    pub fn handle_timeout(&mut self) {
        self.state = if self.method == Method::Off { State::Idle } else { State::Retransmitted(None) };
    }

    /// A segment is retransmitted with this TSval. Only the first after the timeout counts.
    pub fn handle_retransmission(&mut self, stamp: u32) {
        if self.state == State::Retransmitted(None) {
            self.state = State::Retransmitted(Some(stamp));
        }
    }

    /// An ACK arrived: `advances` past the first unacknowledged byte, acknowledges `all` that was sent before the
    /// timeout, and echoes the TSval `echo`. `more` when new data may be sent.
    pub fn handle_ack(&mut self, advances: bool, all: bool, more: bool, echo: Option<u32>) -> Meaning {
        let state = core::mem::take(&mut self.state);
        match (self.method, state) {
            (Method::FRto, State::Retransmitted(_)) if advances && !all && more => {
                self.state = State::TriedNew;
                Meaning::TryNew
            }
            (Method::FRto, State::TriedNew) => {
                if advances {
                    Meaning::Spurious
                } else {
                    Meaning::LostAfterAll
                }
            }
            (Method::Eifel, State::Retransmitted(stamp)) if !advances => {
                self.state = State::Retransmitted(stamp);
                Meaning::Lost
            }
            (Method::Eifel, State::Retransmitted(Some(stamp)))
                if echo.is_some_and(|echo| SeqNumber(echo).before(SeqNumber(stamp))) =>
            {
                Meaning::Spurious
            }
            _ => Meaning::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after_timeout(method: Method) -> Detector {
        let mut detector = Detector::new(method);
        detector.handle_timeout();
        detector.handle_retransmission(1_000);
        detector
    }

    #[test]
    fn f_rto_takes_two_acks_that_advance() {
        let mut detector = after_timeout(Method::FRto);
        assert_eq!(detector.handle_ack(true, false, true, None), Meaning::TryNew);
        assert_eq!(detector.handle_ack(true, false, true, None), Meaning::Spurious);
        assert!(!detector.is_waiting());
    }

    #[test]
    fn f_rto_gives_up_on_a_duplicate() {
        let mut detector = after_timeout(Method::FRto);
        assert_eq!(detector.handle_ack(false, false, true, None), Meaning::Lost);
        assert!(!detector.is_waiting());
        let mut detector = after_timeout(Method::FRto);
        detector.handle_ack(true, false, true, None);
        assert_eq!(detector.handle_ack(false, false, true, None), Meaning::LostAfterAll);
    }

    #[test]
    fn f_rto_needs_new_data_and_an_ack_that_leaves_some_open() {
        assert_eq!(after_timeout(Method::FRto).handle_ack(true, true, true, None), Meaning::Lost);
        assert_eq!(after_timeout(Method::FRto).handle_ack(true, false, false, None), Meaning::Lost);
    }

    #[test]
    fn eifel_compares_the_echo_with_the_retransmission() {
        assert_eq!(after_timeout(Method::Eifel).handle_ack(true, true, false, Some(999)), Meaning::Spurious);
        assert_eq!(after_timeout(Method::Eifel).handle_ack(true, false, true, Some(1_000)), Meaning::Lost);
        assert_eq!(after_timeout(Method::Eifel).handle_ack(true, false, true, None), Meaning::Lost);
        let mut detector = after_timeout(Method::Eifel);
        detector.handle_retransmission(2_000);
        detector.handle_ack(false, false, true, Some(5));
        assert_eq!(detector.handle_ack(true, false, true, Some(1_500)), Meaning::Lost, "the first copy counts");
    }

    #[test]
    fn off_is_off() {
        let mut detector = after_timeout(Method::Off);
        assert!(!detector.is_waiting());
        assert_eq!(detector.handle_ack(true, false, true, Some(1)), Meaning::Lost);
    }
}
