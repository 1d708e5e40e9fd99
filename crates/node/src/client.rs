//! The daemon's checks of a program that is to be placed, before a steward reads the program.

use std::os::fd::AsFd;

use rustix::fs::SealFlags;

/// Largest program (path, arguments, environment), bytes: beyond what execve(2) takes with the
/// default stack limit.
const PROGRAM_BYTES: u64 = 8 << 20;
/// A program comes in memory that its sender can neither change nor cut any more: else reading it
/// could fault or block.
pub(crate) fn check_program(memory: impl AsFd) -> Result<(), String> {
    let sealed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    match rustix::fs::fcntl_get_seals(&memory) {
        Ok(seals) if seals.contains(sealed) => {}
        _ => return Err("the program did not come in a sealed memfd".into()),
    }
    let size = rustix::fs::fstat(&memory).map_err(|e| format!("the program cannot be read: {e}"))?.st_size;
    match u64::try_from(size) {
        Ok(bytes) if bytes <= PROGRAM_BYTES => Ok(()),
        _ => Err(format!("arguments and environment are {size} bytes, at most {PROGRAM_BYTES} are allowed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::MemfdFlags;

    #[test]
    fn programs_must_be_sealed() {
        let open = rustix::fs::memfd_create("p", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        assert!(check_program(&open).unwrap_err().contains("sealed"));
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert!(check_program(&pipe).is_err() && check_program(std::fs::File::open("/etc/passwd").unwrap()).is_err());
        rustix::fs::ftruncate(&open, PROGRAM_BYTES + 1).unwrap();
        rustix::fs::fcntl_add_seals(&open, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE).unwrap();
        assert!(check_program(&open).unwrap_err().contains("at most"));
    }
}
