#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| home::fuzz::home_warden(input));
