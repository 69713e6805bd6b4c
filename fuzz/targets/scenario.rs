#![no_main]
//! [`ackgate_fuzz::scenario`].

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ackgate_fuzz::scenario::run(bytes));
