#![no_main]
//! [`ackgate_fuzz::sweep`].

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ackgate_fuzz::sweep::run(bytes));
