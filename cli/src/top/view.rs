//! What is known of the guards: their last answers, and what has happened a second since the answers before.

use std::collections::BTreeMap;

use serde_json::Value;

/// Points of a guard's history.
const HISTORY: usize = 60;

/// The guards, and which of them is looked at more closely.
#[derive(Debug, Default)]
pub(super) struct View {
    guards: Vec<Guard>,
    selected: usize,
}

/// A guard.
#[derive(Debug)]
pub(super) struct Guard {
    state: Value,
    /// By how much each counter rose a second, as soon as two answers are known.
    rates: Option<BTreeMap<String, u64>>,
    /// Releases in each of the last seconds, the latest at the end.
    history: Vec<u64>,
}

impl View {
    /// Takes the answers of all guards, in order of their devices.
    pub(super) fn update(&mut self, answers: Vec<Value>) {
        let mut before = std::mem::take(&mut self.guards);
        for answer in answers {
            let known = before.iter().position(|guard| guard.is_of(&answer)).map(|at| before.swap_remove(at));
            self.guards.push(match known {
                Some(guard) => guard.next(answer),
                None => Guard { state: answer, rates: None, history: Vec::new() },
            });
        }
        self.selected = self.selected.min(self.guards.len().saturating_sub(1));
    }

    pub(super) fn guards(&self) -> &[Guard] {
        &self.guards
    }

    pub(super) fn selected(&self) -> Option<&Guard> {
        self.guards.get(self.selected)
    }

    /// Its place in the list.
    pub(super) fn selected_index(&self) -> usize {
        self.selected
    }

    /// Whether all that is shown can be.
    pub(super) fn has_rates(&self) -> bool {
        self.guards.iter().all(|guard| guard.rates.is_some())
    }

    pub(super) fn select_next(&mut self) {
        self.selected = (self.selected + 1).min(self.guards.len().saturating_sub(1));
    }

    pub(super) fn select_previous(&mut self) {
        self.selected = self.selected.saturating_sub(1);
    }
}

impl Guard {
    /// Whether it is the guard that has given an answer: the same device, and not started anew.
    fn is_of(&self, answer: &Value) -> bool {
        self.state["device"] == answer["device"] && self.seconds() <= seconds(answer)
    }

    fn next(self, answer: Value) -> Self {
        let elapsed = seconds(&answer) - self.seconds();
        if elapsed == 0 {
            return Self { state: answer, ..self };
        }
        let numbers =
            answer.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_u64()?)));
        let rates: BTreeMap<String, u64> =
            numbers.map(|(name, now)| (name.clone(), now.saturating_sub(self.number(name)) / elapsed)).collect();
        let mut history = self.history;
        history.push(rates.get("released").copied().unwrap_or(0));
        history.drain(..history.len().saturating_sub(HISTORY));
        Self { state: answer, rates: Some(rates), history }
    }

    fn seconds(&self) -> u64 {
        seconds(&self.state)
    }

    /// A text of its answer.
    pub(super) fn text(&self, key: &str) -> &str {
        self.state[key].as_str().unwrap_or("?")
    }

    /// A number of its answer.
    pub(super) fn number(&self, key: &str) -> u64 {
        self.state[key].as_u64().unwrap_or(0)
    }

    /// By how much a counter rose a second.
    pub(super) fn rate(&self, key: &str) -> u64 {
        self.rates.as_ref().and_then(|rates| rates.get(key)).copied().unwrap_or(0)
    }

    pub(super) fn observes(&self) -> bool {
        self.state["observe"] == true
    }

    pub(super) fn history(&self) -> &[u64] {
        &self.history
    }

    /// What it had to say, the latest at the end.
    pub(super) fn notices(&self) -> impl Iterator<Item = (u64, &str)> {
        let notices = self.state["notices"].as_array().into_iter().flatten();
        notices.filter_map(|notice| Some((notice["at_s"].as_u64()?, notice["text"].as_str()?)))
    }
}

/// How long a guard has guarded.
fn seconds(answer: &Value) -> u64 {
    answer["guarding_s"].as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(device: &str, seconds: u64, released: u64) -> Value {
        json!({ "device": device, "guarding_s": seconds, "released": released })
    }

    #[test]
    fn a_rate_is_per_second_of_the_guards_own_time() {
        let mut view = View::default();
        view.update(vec![answer("a", 10, 100), answer("b", 10, 0)]);
        assert!(!view.has_rates());
        view.update(vec![answer("a", 10, 100), answer("b", 10, 0)]);
        assert!(!view.has_rates(), "nothing is known of a second that has not passed");
        view.update(vec![answer("a", 12, 700), answer("b", 11, 0)]);
        assert!(view.has_rates());
        let rates: Vec<u64> = view.guards().iter().map(|guard| guard.rate("released")).collect();
        assert_eq!(rates, [300, 0]);
        view.update(vec![answer("a", 12, 700), answer("b", 11, 0)]);
        assert_eq!(view.guards()[0].rate("released"), 300, "the last one is known until the next");
        view.update(vec![answer("a", 1, 5)]);
        assert!(!view.has_rates(), "it has started anew");
    }

    #[test]
    fn a_guard_that_goes_leaves_another_selected() {
        let mut view = View::default();
        assert!(view.selected().is_none());
        view.update(vec![answer("a", 1, 0), answer("b", 1, 0)]);
        view.select_next();
        view.select_next();
        assert_eq!(view.selected().map(|guard| guard.text("device")), Some("b"));
        view.update(vec![answer("a", 2, 0)]);
        assert_eq!(view.selected().map(|guard| guard.text("device")), Some("a"));
        view.select_previous();
        assert_eq!(view.selected_index(), 0);
    }
}
