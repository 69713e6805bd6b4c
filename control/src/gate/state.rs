//! Where the gate's state lives: one [`Gate`] for the receiver, one [`Flow`] per connection. Both have a fixed layout, because on
//! Linux the BPF programs keep the very same structs and the scheduler reads them through shared memory.

pub use crate::decision::{Flow, Gate, flag};

use super::config::{Config, FULL_FRAME};
use crate::budget::Budget;
use crate::policy::FlowId;

/// As in `core/path.h`.
const MANY_OTHERS: u32 = 128;

impl Gate {
    /// An idle receiver.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let gate = Self::default();
        gate.use_budget(Budget::initial(config));
        gate.port.set(Budget::given(config));
        gate
    }

    /// Uses a budget from now on, although marks may have kept the threshold below another.
    pub(crate) fn use_budget(&self, budget: u64) {
        self.cap.set(budget);
        self.most.set(self.left_of_buffer(budget).max(budget.min(2 * FULL_FRAME)));
        self.threshold.set(self.most.get());
    }

    /// Uses at most a budget from now on.
    pub(crate) fn change_budget(&self, budget: u64) {
        let before = self.threshold.get();
        self.use_budget(budget);
        self.threshold.set(before.min(self.most.get()));
    }

    /// Of the link's rate, what other traffic leaves, as in `core/path.h`.
    pub(crate) fn left_of_link(&self, rate: u64) -> u64 {
        rate - ((rate * u64::from(self.other_part.get())) >> 10)
    }

    /// Whether other traffic takes whatever it is left.
    pub(crate) fn others_take(&self) -> bool {
        self.other_doubt.get() > 0 && self.other_part.get() == 0 && self.other_seen.get() >= MANY_OTHERS
    }

    /// Of the port's buffer, the same.
    pub(crate) fn left_of_buffer(&self, bytes: u64) -> u64 {
        let part = u64::from(self.other_part.get());
        bytes - ((bytes * (part + part / 8)) >> 10)
    }
}

/// Where the states live: a vector in the simulator, shared memory on Linux.
pub trait State {
    /// The receiver-wide state.
    fn gate(&self) -> &Gate;
    /// The state of a connection; `None` for an index that was never handed out.
    fn flow(&self, id: FlowId) -> Option<&Flow>;
    /// Indices in use are below this.
    fn flow_count(&self) -> u32;
}
