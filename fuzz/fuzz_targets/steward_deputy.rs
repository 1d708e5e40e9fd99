#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| deputy::fuzz::steward_deputy(input));
