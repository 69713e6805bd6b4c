//! The network for real: BPF programs, ACK holding and the daemon loop.
