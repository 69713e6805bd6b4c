#![no_main]
//! [`ackgate_fuzz::host`].

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ackgate_fuzz::host::run(bytes));
