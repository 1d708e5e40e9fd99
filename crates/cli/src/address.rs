//! The address at which other nodes reach a new node: found, asked for, or refused.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;

use control_protocol::address::{Own, Reach};

use crate::Error;

/// Finds the address, and tells whether the owner had to choose it.
///
/// # Errors
/// There is no single address, and nobody can be asked.
pub(crate) fn find(reach: &Reach) -> Result<(SocketAddr, bool), Error> {
    match reach {
        Reach::Plain(ip) => Ok(((*ip, control_protocol::paths::PORT).into(), false)),
        Reach::Several(all) if io::stdin().is_terminal() && io::stderr().is_terminal() => {
            ask(all, io::stdin().lock()).map(|address| (address, true))
        }
        Reach::Several(all) => Err(refused(&format!("this machine has several addresses: {}", listed(all)))),
        Reach::Nowhere => Err(refused("this machine has no address that others can reach")),
    }
}

fn refused(reason: &str) -> Error {
    Error::Refused {
        reason: reason.into(),
        hint: Some(
            "--addr ADDR says at which address others reach this node; with --addr 127.0.0.1 only this machine does"
                .into(),
        ),
    }
}

fn listed(all: &[Own]) -> String {
    let names: Vec<String> = all.iter().map(|own| format!("{} ({})", own.ip, own.interface)).collect();
    names.join(", ")
}

/// Asks for a number or an address.
fn ask(all: &[Own], mut input: impl io::BufRead) -> Result<SocketAddr, Error> {
    eprintln!("This machine has several addresses. At which one do the other machines reach it?");
    all.iter().enumerate().for_each(|(at, own)| eprintln!("  {}  {} ({})", at + 1, own.ip, own.interface));
    eprint!("number or address [1]: ");
    let mut answer = String::new();
    input.read_line(&mut answer).map_err(|source| Error::Local { what: "read the answer", source })?;
    chosen(all, answer.trim()).ok_or_else(|| refused(&format!("{:?} is none of them", answer.trim())))
}

fn chosen(all: &[Own], answer: &str) -> Option<SocketAddr> {
    let of_number =
        |number: usize| all.get(number.checked_sub(1)?).map(|own| (own.ip, control_protocol::paths::PORT).into());
    match answer {
        "" => of_number(1),
        text => text.parse().ok().map_or_else(|| crate::args::address(text).ok(), of_number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_address_is_taken_and_several_are_asked_for() {
        let own = |ip: [u8; 4], interface: &str| Own { ip: ip.into(), interface: interface.into(), is_virtual: false };
        let all = [own([10, 0, 0, 5], "eth0"), own([192, 168, 1, 7], "wlan0")];
        let plain = find(&Reach::Plain([10, 0, 0, 5].into())).unwrap();
        assert_eq!(plain, (([10, 0, 0, 5], control_protocol::paths::PORT).into(), false));
        let nowhere = find(&Reach::Nowhere).unwrap_err();
        assert!(nowhere.to_string().contains("no address that others can reach"));
        assert!(refused("x").hint().unwrap().contains("--addr ADDR"));
        assert_eq!(listed(&all), "10.0.0.5 (eth0), 192.168.1.7 (wlan0)");
        let port = control_protocol::paths::PORT;
        assert_eq!(ask(&all, &b"\n"[..]).unwrap(), ([10, 0, 0, 5], port).into());
        assert_eq!(ask(&all, &b"2\n"[..]).unwrap(), ([192, 168, 1, 7], port).into());
        assert_eq!(ask(&all, &b"10.1.1.1:99\n"[..]).unwrap(), ([10, 1, 1, 1], 99).into());
        for wrong in [&b"3\n"[..], b"0\n", b"eth0\n"] {
            assert!(ask(&all, wrong).is_err());
        }
    }
}
