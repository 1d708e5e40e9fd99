//! A sandbox is not left by way of another node: neither by `tern run` from inside, nor by `tern
//! move` of a program in it.

use crate::support::{PYTHON, alone, at_home, nobody_is_away, script, shared, wait_for};

/// Words before a command that start it confined, as an ordinary user, and what the refusal says.
struct Sandbox {
    words: String,
    says: &'static str,
}

impl Sandbox {
    /// By the attacker's script.
    fn by_itself(kind: &str, says: &'static str) -> Sandbox {
        Sandbox { words: format!("as_user 1000 {PYTHON} {} {kind}", script("confined.py")), says }
    }

    /// By root, which then becomes the user: as container engines and service managers do.
    fn by_root(confine: &str, says: &'static str) -> Sandbox {
        let user = "setpriv --reuid 1000 --regid 1000 --clear-groups --";
        Sandbox { words: format!("{confine} {user}"), says }
    }

    /// Runs `tern run` inside of it, and `tern move` of a program inside of it from outside; both
    /// must be refused in words, with a hint, and nothing may run elsewhere. `before` and `after`
    /// are run around both.
    fn holds(&self, before: &str, after: &str) {
        let Sandbox { words, says } = self;
        let _alone = alone();
        let lab = shared();
        let text = at_home(
            &lab,
            &format!(
                r#"{before}
                {words} tern run --on n2 -- sh -c 'mkdir escaped; echo escaped' 2>&1; echo "run: $?"
                {words} sh -c 'echo $$ > pid; exec sleep 1000' & starter=$!
                i=0; until grep -qs '^sleep$' /proc/"$(cat pid 2> /dev/null)"/comm || [ $i = 500 ]; do i=$((i + 1)); sleep 0.02; done
                as_user 1000 tern move $(cat pid) n2 2>&1; echo "move: $?"
                grep -qs '^sleep$' /proc/$(cat pid)/comm && echo "it goes on"
                kill $(cat pid); wait $starter
                ls
                {after}"#
            ),
        )
        .text();
        if text.contains("absent") {
            return skip::test(format_args!("this kernel does not know: {words}"));
        }
        let (run, moved) = text.split_once("run: 125\n").unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(!text.contains("escaped"), "{words}: {text}");
        assert!(run.contains(says) && moved.contains(says), "{words}: {text}");
        assert!(moved.contains("move: 1\n") && moved.contains("it goes on"), "{words}: {text}");
        // Landlock is found when the steward looks, which gives reasons and no hint.
        let hinted = |part: &str| part.contains("out of a sandbox");
        assert!(says.contains("Landlock") || (hinted(run) && hinted(moved)), "{words}: {text}");
        wait_for("nobody to be away", || nobody_is_away(&lab));
    }
}

#[test]
fn filters_of_system_calls_hold() {
    Sandbox::by_itself("filter", "seccomp filter").holds("", "");
}

#[test]
fn landlock_holds() {
    Sandbox::by_itself("landlock", "Landlock").holds("", "");
}

#[test]
fn namespaces_hold() {
    Sandbox { words: "as_user 1000 unshare --user".into(), says: "another user namespace" }.holds("", "");
    for (option, says) in [
        ("--mount", "another mount namespace"),
        ("--net", "another network namespace"),
        ("--uts", "another host name namespace"),
        ("--ipc", "another IPC namespace"),
        ("--cgroup", "another cgroup namespace"),
    ] {
        Sandbox::by_root(&format!("unshare {option}"), says).holds("", "");
    }
}

/// Also one whose root is the home's own, by another mount: its files are the same.
#[test]
fn root_directories_hold() {
    let jail = Sandbox { words: "chroot --userspec=1000:1000 \"$PWD/jail\"".into(), says: "another root directory" };
    // In the jail the working directory is its root, where the user may write nothing: so the PID
    // comes through a file below /tmp.
    let before = "mkdir jail; mount --rbind / jail; chmod 777 .; here=$PWD";
    let inside = Sandbox { words: format!("{} env --chdir=\"$here\"", jail.words), ..jail };
    inside.holds(before, "umount -l jail; rmdir jail");
}

/// The promise to gain no rights is kept by the deputy, which executes at home what gives rights.
#[test]
fn a_promise_to_gain_no_rights_holds() {
    let _alone = alone();
    let lab = shared();
    let promising = format!("as_nobody {PYTHON} {} promise", script("confined.py"));
    let asks = "sh -c 'passwd -S nobody; grep NoNewPrivs /proc/self/status' 2>&1";
    let text = |words: &str| at_home(&lab, &format!("{words} {asks}")).text();
    let away = "tern run --quiet --on n2 --";
    // It reads /etc/shadow, if it may.
    let (free, promised) = (text(&format!("as_nobody {away}")), text(&format!("{promising} {away}")));
    assert_eq!((&free, &promised), (&text("as_nobody"), &text(&promising)));
    assert_ne!(free.lines().next(), promised.lines().next());
    assert!(promised.contains("NoNewPrivs:\t1"), "{promised}");
}
