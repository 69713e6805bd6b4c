#![no_main]
//! [`ackgate_fuzz::packet`].

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ackgate_fuzz::packet::run(bytes));
