//! Two processors in the decision core at once, step by step, in every order with up to two changes of turn (`interleavings.c`): the
//! books must add up whatever comes of it, and no window's edge moves back. `concurrency.rs` runs five threads for long; this finds what
//! they meet too seldom.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![expect(unsafe_code, reason = "the exploration is C, as the core is")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

use std::ffi::{CStr, c_char, c_long, c_ulong};

use ackgate_control::decision::{Gate, Settings};
use ackgate_control::gate::{Config, Guard};

unsafe extern "C" {
    fn ackgate_interleavings(settings: &Settings, gate: &Gate, report: *mut c_char, most: c_ulong) -> c_long;
}

/// One test, for the world that is explored is one.
#[test]
fn the_books_add_up_in_whatever_order_two_processors_work() {
    for guard in [Guard::Credit, Guard::Pac] {
        let config = Config { rate_mbps: 1_000, ..Config::of(guard, 96_000) };
        let mut report = [0; 256];
        // SAFETY: settings and gate are what the core works on everywhere, and the report has the length that is said.
        let tried = unsafe {
            ackgate_interleavings(&config.settings(), &Gate::new(&config), report.as_mut_ptr(), report.len() as c_ulong)
        };
        // SAFETY: the report was zeroed, and `snprintf` terminates what it writes.
        let report = unsafe { CStr::from_ptr(report.as_ptr()) }.to_str().unwrap();
        assert!(tried > 0, "{guard:?}: {report}");
        assert!(tried > 500_000, "{guard:?}: only {tried} orders were tried");
    }
}
