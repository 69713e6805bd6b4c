//! Where the gate's state lives: one [`Gate`] for the receiver, one [`Flow`] per connection. Both have a fixed layout, because on
//! Linux the BPF programs keep the very same structs and the scheduler reads them through shared memory.

pub use crate::decision::{Flow, Gate, flag};

use super::config::Config;
use crate::budget::Budget;
use crate::policy::FlowId;

impl Gate {
    /// An idle receiver.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let gate = Self::default();
        gate.cap.set(Budget::initial(config));
        gate.threshold.set(gate.cap.get());
        gate
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
