#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| home::fuzz::steward_deputy(input));
