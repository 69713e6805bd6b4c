#![no_main]
//! [`ackgate_fuzz::frame`].

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ackgate_fuzz::frame::run(bytes));
