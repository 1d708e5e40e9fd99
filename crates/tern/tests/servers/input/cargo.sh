# A small crate, built without a network.
cargo=$(rustup which cargo 2> /dev/null || command -v cargo); PATH=$(dirname $cargo):$PATH
mkdir src; printf '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
echo 'fn main() { println!("{}", (1..=10).product::<u64>()); } #[test] fn one() { assert!(true) }' > src/main.rs
export CARGO_HOME=$PWD/home
$RUN $cargo build --offline -q; echo $?; target/debug/small; $RUN $cargo run --offline -q
