#![no_main]
//! [`ackgate_fuzz::queue`].

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ackgate_fuzz::queue::run(bytes));
