//! What makes sense but asks for trouble: told once, with a run's result and on the terminal.

use ackgate_control::units::Span;

use super::{Scenario, Scheme};
use crate::settings;

/// A warning for each group of senders that may time out while the scheme holds its packets.
pub(super) fn warnings(scenario: &Scenario) -> Vec<String> {
    let Some((key, hold)) = longest_hold(scenario) else { return Vec::new() };
    let floor = |party: &super::Party<'_>| (party.name.to_string(), party.tcp(scenario).rto_min);
    let hasty: Vec<(String, Span)> = scenario.parties().iter().map(floor).filter(|(_, floor)| *floor < hold).collect();
    let Some(least) = hasty.iter().map(|(_, floor)| *floor).min() else { return Vec::new() };
    let names: Vec<&str> = hasty.iter().map(|(name, _)| name.as_str()).collect();
    vec![format!(
        "{key} = {hold} is above the RTOmin of {least} (senders: {}): what is held so long makes them time out",
        names.join(", ")
    )]
}

/// How long the scheme may hold an ACK or a request, and what sets it.
fn longest_hold(scenario: &Scenario) -> Option<(&'static str, Span)> {
    match scenario.scheme {
        Scheme::Pac | Scheme::PacPublished | Scheme::Credit | Scheme::RequestsOnly => {
            Some(("pac.max_hold", settings::gate(scenario).max_hold))
        }
        // These hold nothing, or SYN-ACKs alone, or know no longest hold.
        Scheme::WindowOnly
        | Scheme::PacLetter
        | Scheme::None
        | Scheme::Ictcp
        | Scheme::Shaper
        | Scheme::M21
        | Scheme::Hwatch
        | Scheme::Dctcp
        | Scheme::Ecn
        | Scheme::Red
        | Scheme::FixedWindow => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Group;

    #[test]
    fn a_hold_above_the_floor_of_any_timer_is_told_once() {
        let mut scenario = Scenario { scheme: Scheme::Credit, ..Scenario::default() };
        assert_eq!(warnings(&scenario), Vec::<String>::new());
        let name = Some("near".to_owned());
        scenario.group = vec![Group { name, rto_min: Some(Span::millis(5)), ..Group::default() }, Group::default()];
        scenario.pac.max_hold = Some(Span::millis(50));
        let told = warnings(&scenario);
        let wanted =
            "pac.max_hold = 50ms is above the RTOmin of 5ms (senders: near): what is held so long makes them time out";
        assert_eq!(told, [wanted]);
        scenario.scheme = Scheme::WindowOnly;
        assert_eq!(warnings(&scenario), Vec::<String>::new());
    }
}
