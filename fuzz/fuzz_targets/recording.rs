#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| netmon::fuzz::recording(input));
