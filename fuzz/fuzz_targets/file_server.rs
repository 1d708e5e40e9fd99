#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| homefs::fuzz::file_server(input));
