#![no_main]
//! [`ackgate_fuzz::capture`].

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ackgate_fuzz::capture::run(bytes));
