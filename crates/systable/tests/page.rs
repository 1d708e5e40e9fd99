//! `docs/SYSCALLS.md` says what the table says. `TERN_REWRITE=1` writes it anew.

#[test]
fn the_page_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SYSCALLS.md");
    let mut page = String::new();
    systable::page::write(&mut page).unwrap();
    if std::env::var_os("TERN_REWRITE").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, &page).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == page, "docs/SYSCALLS.md differs: run TERN_REWRITE=1 cargo test -p systable --test page");
}
