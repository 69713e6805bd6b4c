//! What can be cut into tasks: runs in an order of their own, each of which leaves one row.

use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::super::{Point, SweepError};

/// Runs whose rows are the same on whatever machine and in whatever order they are made.
pub trait Work: Sync + Sized {
    /// What kind of work it is, in one word: no other kind has it.
    const KIND: &'static str;

    /// The words behind the program's name that call it for such work: `sim sweep`.
    const COMMAND: &'static str;

    /// What another process needs to make the same points.
    ///
    /// # Errors
    /// When that cannot be told.
    fn to_plan(&self) -> Result<Value, SweepError>;

    /// The same again from what [`to_plan`](Self::to_plan) told; `name` is what it is called in messages.
    ///
    /// # Errors
    /// When it is something else, or makes no sense any more.
    fn from_plan(name: &str, plan: Value) -> Result<Self, SweepError>;

    /// Names of what tells points apart, in the order of [`Point::values`].
    fn keys(&self) -> Vec<String>;

    /// Number of points.
    fn count(&self) -> usize;

    /// The points at these places of the order, each below [`count`](Self::count).
    ///
    /// # Errors
    /// When a scenario is refused.
    fn points(&self, places: &[usize]) -> Result<Vec<Point>, SweepError>;

    /// Runs a point. The last cell of its row is the point's fingerprint, 16 hexadecimal digits; no cell has line breaks.
    ///
    /// # Errors
    /// When the simulation fails or is stopped.
    fn run(&self, point: &Point, stop: &AtomicBool) -> Result<Vec<String>, SweepError>;
}
