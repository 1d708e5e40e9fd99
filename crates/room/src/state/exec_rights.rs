//! Rights that a thread gains by executing a program.

use room_protocol::message::Credentials;

/// Whether a thread with these rights would have more of them in a program that it executes: user 0
/// that has given some up. A deputy cannot take them back, so that such a program begins at home.
pub fn gains_by_exec(now: &Credentials) -> bool {
    let [real, effective, ..] = now.uid;
    let had = now.capabilities;
    (real == 0 || effective == 0) && (had.bounding | had.inheritable) & !had.permitted != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use room_protocol::message::Capabilities;

    #[test]
    fn root_that_gave_capabilities_up_gains_them_by_exec() {
        let gains = |uid, permitted| {
            let capabilities =
                Capabilities { permitted, inheritable: 0b110, bounding: 0b11, ..Capabilities::default() };
            gains_by_exec(&Credentials { uid: [uid; 4], capabilities, ..Credentials::default() })
        };
        assert!(gains(0, 0b1) && !gains(0, 0b111) && !gains(1, 0b1));
    }
}
