//! The network in software: a fast packet-level simulator.
