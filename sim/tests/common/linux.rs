//! Senders of today.

/// As Linux delays ACKs and finds losses.
pub(crate) const LINUX: &str =
    "delayed_ack = \"40ms\", quickack = true, rack = true, probe_ack_delay = \"200ms\", rto_granularity = \"1ms\"";
