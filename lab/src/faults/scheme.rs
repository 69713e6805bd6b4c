//! What a guard needs to have something to do, how it tells that it does it, and which faults can strike it.

use std::path::PathBuf;

use super::Case;
use crate::guard::{Guard, GuardConfig, GuardError, Place};
use crate::harm::row::RowError;
use crate::testbed::Spec;

/// Sender hosts.
const HOSTS: usize = 8;
/// The port's buffer, and what the guard is told of it.
const DEEP: u64 = 16_000_000;
const TOLD: &str = "64KB";
/// A buffer that a hundred connections overflow, but not so far that TCP's own timers go on doubling.
const LOSSY: u64 = 1_000_000;

/// A guard under faults.
pub(super) struct Scheme(GuardConfig);

impl Scheme {
    pub(super) fn new(policy: &str, program: Option<&PathBuf>) -> Self {
        let extra = ["--buffer", TOLD].map(str::to_owned).to_vec();
        Self(GuardConfig { program: program.cloned(), policy: policy.to_owned(), max_hold: None, extra })
    }

    pub(super) fn policy(&self) -> &str {
        &self.0.policy
    }

    pub(super) fn places(&self) -> &'static [Place] {
        self.0.places()
    }

    /// The sets of places that are struck, one after the other: each by itself, then all at once; or the one that is asked for.
    pub(super) fn parts(&self, at: Option<Place>) -> Vec<&'static [Place]> {
        let places = self.places();
        let mut parts: Vec<_> = places.chunks(1).filter(|part| at.is_none_or(|at| part[0] == at)).collect();
        parts.extend((at.is_none() && places.len() > 1).then_some(places));
        parts
    }

    /// The guard's settings, with further options.
    pub(super) fn config(&self, options: &[&str]) -> GuardConfig {
        let extra = self.0.extra.iter().cloned().chain(options.iter().map(|&option| option.to_owned()));
        GuardConfig { extra: extra.collect(), ..self.0.clone() }
    }

    /// Fine timeouts have something to do where the port loses frames.
    pub(super) fn spec(&self, rate: u64) -> Spec {
        let buffer = if self.loses_frames() { LOSSY } else { DEEP };
        self.0.fit(Spec { hosts: HOSTS, rate, burst: Spec::burst_for(rate), buffer, ..Spec::pac_edge() })
    }

    /// Whether connections pause without any fault, too, because the port loses frames.
    pub(super) fn loses_frames(&self) -> bool {
        self.policy() == "rto"
    }

    /// Whether it is a guard on the fast path.
    pub(super) fn is_fast_path(&self) -> bool {
        !matches!(self.policy(), "ictcp" | "shaper" | "hwatch" | "pac-letter" | "rto" | "m21")
    }

    /// # Errors
    /// When the fault cannot strike there.
    pub(super) fn allows(&self, case: &Case, places: &[Place]) -> Result<(), RowError> {
        let why = if case.fast_path && !self.is_fast_path() {
            "for guards on the fast path"
        } else if case.at_device && places != [Place::Receiver] {
            "for guards at the receiver alone"
        } else {
            return Ok(());
        };
        Err(RowError::Impossible(why.into()))
    }

    /// # Errors
    /// When a part of the guard, under load, does not do what it is there for: then no fault would tell anything.
    pub(super) fn require_work(&self, guard: &mut Guard) -> Result<(), RowError> {
        let Some(place) = guard.idle_part(|place| self.sign(place)) else { return Ok(()) };
        let problem = format!(
            "at `{}`, {} is idle under this load, so the fault would show nothing",
            place.name(),
            self.policy()
        );
        Err(RowError::Lab(GuardError::End(problem).into()))
    }

    /// What rises in its samples while it does what it is there for.
    fn sign(&self, place: Place) -> &'static str {
        match (self.policy(), place) {
            (_, Place::Switch) => "/ports/0/stamped",
            (_, Place::Hosts) => "/clamped",
            ("ictcp" | "hwatch", _) => "/edited",
            ("rto", _) => "/repeated",
            _ => "/released",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_struck_by_itself_and_all_at_once() {
        let parts = |policy, at| Scheme::new(policy, None).parts(at);
        assert_eq!(parts("credit", None), [&[Place::Receiver]]);
        let (receiver, senders) = (Place::Receiver, Place::Senders);
        assert_eq!(parts("hwatch", None), [&[receiver][..], &[senders], &[receiver, senders]]);
        assert_eq!(parts("hwatch", Some(senders)), [&[senders]]);
        assert!(parts("m21", Some(senders)).is_empty());
    }
}
