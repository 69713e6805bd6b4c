//! Schemes that are nothing but settings of endpoints and switches: what each sets. They make a sweep over schemes
//! possible; whoever wants another combination (PAC over DCTCP senders, say) sets `tcp` and `switch` and leaves
//! `scheme` to the shim.

use super::{CongestionControl, Discipline, Ecn, EcnMode, Red, Scenario, Scheme};

/// Writes what `scenario.scheme` sets into `tcp` and `switch`.
pub(super) fn resolve(scenario: &Scenario) -> Scenario {
    let mut resolved = scenario.clone();
    let (tcp, switch) = (&mut resolved.tcp, &mut resolved.switch);
    match scenario.scheme {
        Scheme::Dctcp => {
            tcp.cc = CongestionControl::Dctcp;
            tcp.ecn = if scenario.dctcp.ecn_syn { EcnMode::Plus } else { EcnMode::On };
            switch.discipline = Discipline::Ecn(Ecn { mark_above: scenario.dctcp.mark_above, ..Ecn::default() });
        }
        // "Marking packets anytime RED would drop them" (M21TCP-A §III): above the upper threshold too.
        Scheme::Ecn => {
            tcp.ecn = EcnMode::On;
            switch.discipline = Discipline::Red(Red { ecn: true, hard_drop: false, ..scenario.red.clone() });
        }
        Scheme::Red => switch.discipline = Discipline::Red(Red { ecn: false, ..scenario.red.clone() }),
        Scheme::FixedWindow => {
            tcp.initial_window = scenario.fixed_window.segments;
            tcp.max_window = Some(scenario.fixed_window.segments);
        }
        Scheme::None
        | Scheme::Pac
        | Scheme::PacPublished
        | Scheme::PacLetter
        | Scheme::Credit
        | Scheme::WindowOnly
        | Scheme::RequestsOnly
        | Scheme::Ictcp
        | Scheme::Shaper
        | Scheme::M21
        | Scheme::Hwatch => {}
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Capacity;

    #[test]
    fn a_preset_sets_both_ends_and_the_switch() {
        let scenario = Scenario { scheme: Scheme::Dctcp, ..Scenario::default() }.resolved();
        assert_eq!((scenario.tcp.cc, scenario.tcp.ecn), (CongestionControl::Dctcp, EcnMode::Plus));
        let marking = Ecn { mark_above: Capacity::Packets(10), ..Ecn::default() };
        assert_eq!(scenario.switch.discipline, Discipline::Ecn(marking));
        assert_eq!(scenario.resolved(), scenario, "once is enough");
    }

    #[test]
    fn shims_leave_endpoints_and_switches_alone() {
        for scheme in [Scheme::None, Scheme::Pac, Scheme::Ictcp, Scheme::Hwatch, Scheme::M21, Scheme::Shaper] {
            let scenario = Scenario { scheme, ..Scenario::default() };
            assert_eq!(scenario.resolved(), scenario);
        }
    }
}
