#![no_main]
//! [`ackgate_fuzz::units`].

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ackgate_fuzz::units::run(bytes));
