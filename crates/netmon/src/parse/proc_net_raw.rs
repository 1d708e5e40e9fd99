//! /proc/net/raw and /proc/net/raw6, for kernels that do not tell of raw sockets by netlink.

/// A raw socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawSocket {
    /// Number of the protocol: the "port" of its local address.
    pub protocol: u16,
    /// Memory of what is to be sent, bytes.
    pub tx: u64,
    /// Memory of the receive queue, bytes.
    pub rx: u64,
    /// Inode of the socket.
    pub inode: u32,
    /// Packets that it dropped.
    pub drops: u64,
}

/// Reads the file. Lines that are not understood are left out.
pub fn read(text: &str) -> Vec<RawSocket> {
    text.lines().skip(1).filter_map(line).collect()
}

fn line(line: &str) -> Option<RawSocket> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (tx, rx) = words.get(4)?.split_once(':')?;
    let (_, protocol) = words.get(1)?.split_once(':')?;
    Some(RawSocket {
        protocol: u16::from_str_radix(protocol, 16).ok()?,
        tx: u64::from_str_radix(tx, 16).ok()?,
        rx: u64::from_str_radix(rx, 16).ok()?,
        inode: words.get(9)?.parse().ok()?,
        drops: words.get(12)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_understood() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            1: 00000000:0001 00000000:0000 07 00000010:00000300 00:00000000 00000000     0        0 14155 2 0000000000000000 5\nbad\n";
        assert_eq!(read(text), [RawSocket { protocol: 1, tx: 16, rx: 768, inode: 14155, drops: 5 }]);
    }
}
