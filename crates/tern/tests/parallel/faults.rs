//! Streams between moved processes go on when a link is cut and healed, and when the daemons die.

use std::process::Child;
use std::time::Duration;

use lab::Lab;

use crate::common;
use crate::streams::PAIR;

/// How long a link is cut: longer than TCP waits before it sends again, and shorter than it takes
/// to hold a node to be lost.
const CUT: Duration = Duration::from_secs(2);
/// How long nothing fails between two faults, so that moves are made as well.
const UNDISTURBED: Duration = Duration::from_secs(5);
const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Pairs of every kind, in all places: both ends in one room, in two rooms, and one at home. The
/// steps of a script are separated by files that the test makes (`step.N`), and the script
/// (`done.N`).
struct Pairs {
    lab: Lab,
    script: Child,
    step: u32,
}

/// The step in which all pairs exchange more records.
const GO_ON: &str = "more";

impl Pairs {
    /// Starts the pairs. `steps` are shell commands.
    fn start(steps: &[&str]) -> Pairs {
        let lab = common::lab_of(&common::options(NODES.len() as u32));
        let tools = crate::TOOLS;
        let steps: String =
            (1..).zip(steps).map(|(n, step)| format!("{step}\ntouch done.{n}; until_ '[ -e step.{n} ]'\n")).collect();
        let script = format!(
            r#"mkdir -p /tmp/pairs; cd /tmp/pairs
            {tools}
            cat > pair.py <<'END'{PAIR}END
            index=0
            for kind in tcp unix seqpacket pipe tcp unix; do
                timeout 160 python3 pair.py $kind $index >> said 2>> errors < /dev/null & all="$all $!"
                index=$((index + 2))
            done
            has_begun 12
            # All pairs have exchanged some records since this was called.
            more() {{ rm -f rounds.*; until_ '[ $(ls rounds.* 2> /dev/null | wc -l) = 6 ]'; }}
            to() {{ tern move $(cat task.$1) $2 || exit 1; }}
            to 0 n2; to 2 n2; to 4 n3; to 6 n2
            to 1 n3; to 3 n3; to 5 n2; to 7 n2
            to 8 n4; to 10 n2; to 11 n2
            {steps}
            touch end
            for job in $all; do wait $job || echo failed; done
            sort said | cut -d ' ' -f 1,2 | uniq -c; cat errors"#
        );
        let script = lab.spawn("n1", ["timeout", "-s", "KILL", "170", "bash", "-c", &script]).unwrap();
        Pairs { lab, script, step: 0 }
    }

    /// Has the script done its present step, or ended?
    fn is_done(&mut self) -> bool {
        let done = self.lab.root("n1").unwrap().join(format!("tmp/pairs/done.{}", self.step));
        done.exists() || self.script.try_wait().unwrap().is_some()
    }

    /// Waits until the script has done its next step. It goes on at [`Pairs::go_on`].
    fn wait(&mut self) {
        self.step += 1;
        common::eventually("the script's step is done", || self.is_done());
    }

    fn go_on(&self) {
        std::fs::write(self.lab.root("n1").unwrap().join(format!("tmp/pairs/step.{}", self.step)), "").unwrap();
    }

    /// Cuts a node off from all others for [`CUT`].
    fn cut(&self, node: &str) {
        let others = || NODES.iter().filter(|other| **other != node);
        others().for_each(|other| self.lab.cut(node, other).unwrap());
        std::thread::sleep(CUT);
        others().for_each(|other| self.lab.heal(node, other).unwrap());
    }

    /// Checks that all ended well.
    fn are_sound(self) {
        let output = self.script.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let counted: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let sound = ["pipe", "seqpacket", "tcp", "unix"].map(|kind| {
            let count = if ["tcp", "unix"].contains(&kind) { "4" } else { "2" };
            vec![count, "sound", kind]
        });
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && counted == sound, "{text}\n{errors}");
        println!("{errors}");
    }
}

#[test]
fn streams_go_on_when_a_link_is_cut_and_healed() {
    let mut pairs = Pairs::start(&[GO_ON, GO_ON, GO_ON]);
    for node in ["n2", "n3"] {
        pairs.wait();
        pairs.cut(node);
        pairs.go_on();
    }
    pairs.wait();
    pairs.go_on();
    pairs.are_sound();
}

#[test]
fn streams_go_on_without_daemons() {
    let mut pairs = Pairs::start(&[GO_ON, GO_ON, "to 0 n4; to 6 home; more"]);
    pairs.wait();
    NODES.iter().for_each(|node| pairs.lab.kill_daemon(node).unwrap());
    pairs.go_on();
    pairs.wait();
    NODES.iter().for_each(|node| pairs.lab.restart_daemon(node).unwrap());
    pairs.go_on();
    pairs.wait();
    pairs.go_on();
    pairs.are_sound();
}

/// Cuts and deaths as in the two tests above, and 500 moves at the same time.
#[test]
#[ignore = "two minutes: --full"]
fn streams_are_sound_through_moves_cuts_and_deaths_of_daemons() {
    let mut pairs = Pairs::start(&[
        GO_ON,
        "wander 100 500 n2 n3 n4 home; echo $moves moves >&2; [ $moves -ge 10 ] || exit 1; more",
    ]);
    pairs.wait();
    pairs.go_on();
    pairs.step += 1;
    for node in NODES[1..].iter().cycle() {
        pairs.cut(node);
        pairs.lab.restart_daemon(node).unwrap();
        pairs.lab.restart_daemon("n1").unwrap();
        std::thread::sleep(UNDISTURBED);
        if pairs.is_done() {
            break;
        }
    }
    pairs.go_on();
    pairs.are_sound();
}
