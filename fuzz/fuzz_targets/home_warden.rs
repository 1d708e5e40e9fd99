#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| deputy::fuzz::home_warden(input));
