pub fn run() -> crate::tool::Result<()> {
    Err("soon".into())
}
