#![no_main]
//! [`ackgate_fuzz::load`].

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ackgate_fuzz::load::run(bytes));
