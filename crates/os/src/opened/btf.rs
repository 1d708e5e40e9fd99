//! The kernel's description of its own types (Documentation/bpf/btf.rst), as far as it is needed to
//! find members of structures.

/// Where in the kernel's structures things lie, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of the function that stands for the iterator over tasks and files.
    pub iterator: u32,
    /// In `struct file`.
    pub f_inode: i32,
    /// In `struct inode`.
    pub i_ino: i32,
    /// In `struct task_struct`.
    pub group_leader: i32,
    /// In `struct task_struct`.
    pub thread_pid: i32,
    /// In `struct pid`.
    pub level: i32,
    /// In `struct pid`.
    pub numbers: i32,
    /// In `struct upid`.
    pub nr: i32,
    /// Size of `struct upid`.
    pub upid_bytes: i32,
}

/// All types of the kernel, by their numbers.
pub struct Btf<'a> {
    types: Vec<Type<'a>>,
    names: &'a [u8],
}

struct Type<'a> {
    name: u32,
    kind: u32,
    bytes: u32,
    /// Of structures: 12 bytes each.
    members: &'a [u8],
    /// Offsets hold the size of a bit field as well.
    has_bit_fields: bool,
}

const MAGIC: u32 = 0xeb9f;
const HEADER_BYTES: usize = 24;
const STRUCT: u32 = 4;
const FUNC: u32 = 12;

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

/// Tells how many bytes follow a type of this kind with so many members.
fn rest_bytes(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,
        2 | 7..=12 | 16 | 18 => 0,
        3 => 12,
        4 | 5 | 15 | 19 => 12 * members,
        6 | 13 => 8 * members,
        _ => return None,
    })
}

impl<'a> Btf<'a> {
    /// Reads the types; `None` if there is anything that is not known.
    pub fn parse(bytes: &'a [u8]) -> Option<Btf<'a>> {
        if word(bytes, 0)? & 0xffff != MAGIC {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let part = |at: usize| {
            let (from, size) = (word(bytes, at)? as usize, word(bytes, at + 4)? as usize);
            bytes.get(header.checked_add(from)?..)?.get(..size)
        };
        let (mut rest, names) = (part(HEADER_BYTES - 16)?, part(HEADER_BYTES - 8)?);
        let mut types = Vec::new();
        while !rest.is_empty() {
            let (name, info, bytes) = (word(rest, 0)?, word(rest, 4)?, word(rest, 8)?);
            let kind = info >> 24 & 0x1f;
            let members = rest.get(12..)?.get(..rest_bytes(kind, (info & 0xffff) as usize)?)?;
            types.push(Type { name, kind, bytes, members, has_bit_fields: info >> 31 == 1 });
            rest = &rest[12 + members.len()..];
        }
        Some(Btf { types, names })
    }

    fn is_named(&self, at: u32, name: &str) -> bool {
        let found = self.names.get(at as usize..).and_then(|rest| rest.get(..=name.len()));
        found.is_some_and(|found| &found[..name.len()] == name.as_bytes() && found[name.len()] == 0)
    }

    fn find(&self, kind: u32, name: &str) -> Option<(u32, &Type<'a>)> {
        let at = self.types.iter().position(|t| t.kind == kind && self.is_named(t.name, name))?;
        // Number 0 is no type.
        Some((u32::try_from(at).ok()? + 1, &self.types[at]))
    }

    fn offset(&self, structure: &str, member: &str) -> Option<i32> {
        let (_, found) = self.find(STRUCT, structure)?;
        let member = found.members.chunks_exact(12).find(|m| word(m, 0).is_some_and(|at| self.is_named(at, member)))?;
        let bits = word(member, 8)? & if found.has_bit_fields { 0xff_ffff } else { u32::MAX };
        // What is loaded from there is named by 15 bits in an instruction.
        i32::try_from(bits / 8).ok().filter(|at| bits % 8 == 0 && *at <= i32::from(i16::MAX))
    }

    /// What a program that lists open files must know.
    pub fn layout(&self) -> Option<Layout> {
        Some(Layout {
            iterator: self.find(FUNC, "bpf_iter_task_file")?.0,
            f_inode: self.offset("file", "f_inode")?,
            i_ino: self.offset("inode", "i_ino")?,
            group_leader: self.offset("task_struct", "group_leader")?,
            thread_pid: self.offset("task_struct", "thread_pid")?,
            level: self.offset("pid", "level")?,
            numbers: self.offset("pid", "numbers")?,
            nr: self.offset("upid", "nr")?,
            upid_bytes: i32::try_from(self.find(STRUCT, "upid")?.1.bytes).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_is_refused() {
        let Ok(bytes) = std::fs::read("/sys/kernel/btf/vmlinux") else {
            println!("skipped: this kernel does not describe its types");
            return;
        };
        let layout = Btf::parse(&bytes).and_then(|btf| btf.layout()).unwrap();
        assert!(layout.upid_bytes >= 8 && layout.iterator > 0, "{layout:?}");
        for cut in [0, 3, 10, HEADER_BYTES, 1000, bytes.len() / 2, bytes.len() - 1] {
            assert!(Btf::parse(&bytes[..cut]).is_none(), "{cut} bytes");
        }
        let mut other = bytes.clone();
        other[0] ^= 1;
        assert!(Btf::parse(&other).is_none());
    }
}
