//! The error numbers that rows answer with (`asm-generic/errno-base.h`, `errno.h`): this crate has
//! no libc.

/// An error number, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u16);

/// Operation not permitted.
pub const EPERM: Errno = Errno(1);
/// The argument is invalid.
pub const EINVAL: Errno = Errno(22);
/// Function not implemented.
pub const ENOSYS: Errno = Errno(38);
/// Socket operation on non-socket.
pub const ENOTSOCK: Errno = Errno(88);
/// Operation not supported.
pub const EOPNOTSUPP: Errno = Errno(95);
/// Address family not supported by protocol.
pub const EAFNOSUPPORT: Errno = Errno(97);

impl Errno {
    /// Gives the symbolic name, as in errno(3).
    pub const fn name(self) -> &'static str {
        match self {
            EPERM => "EPERM",
            EINVAL => "EINVAL",
            ENOSYS => "ENOSYS",
            ENOTSOCK => "ENOTSOCK",
            EOPNOTSUPP => "EOPNOTSUPP",
            EAFNOSUPPORT => "EAFNOSUPPORT",
            _ => "an error",
        }
    }
}
