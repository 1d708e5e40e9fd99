#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| room::fuzz::page_frames(input));
