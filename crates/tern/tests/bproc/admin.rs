//! A node that has nothing but a kernel and tern, which its administrator's home sets up.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lab::Lab;

use crate::local::FIRST_ROOM_ID;
use crate::{at_home, lab, local};

/// Mounts of the node, as its kernel lists them.
fn mounts(lab: &Lab, node: &str) -> String {
    local(lab, node, &["cat", "/proc/mounts"]).text()
}

/// A lab whose second node has no programs (nodes have home's where a test asks for them), and
/// whose owner lets root of n1 rule it.
fn lab_with_bare_node() -> Lab {
    let lab = lab(2);
    assert!(lab.exec("n2", ["tern", "policy", "set", "admin-by=n1"]).unwrap().status.success());
    let root = lab.root("n2").unwrap();
    assert!(!root.join("usr/bin/mount").exists() && !root.join("bin/sh").exists());
    lab
}

#[test]
fn a_bare_node_is_set_up_from_home() {
    let lab = lab_with_bare_node();
    for words in [
        &["mkdir", "-p", "/mnt/scratch"][..],
        &["mount", "-t", "tmpfs", "-o", "size=8m", "scratch", "/mnt/scratch"],
        &["ip", "address", "add", "10.99.0.2/24", "dev", "lo"],
        &["hostname", "renamed"],
        &["dd", "if=/dev/zero", "of=/mnt/scratch/file", "bs=1k", "count=3", "status=none"],
        &["chown", "1000:1000", "/mnt/scratch/file"],
        &["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"],
    ] {
        let output = local(&lab, "n2", words);
        assert!(output.status.success(), "{words:?}: {}", output.errors());
    }
    assert!(mounts(&lab, "n2").contains("scratch /mnt/scratch tmpfs"), "{}", mounts(&lab, "n2"));
    assert_eq!(local(&lab, "n2", &["hostname"]).text(), "renamed");
    assert_eq!(local(&lab, "n2", &["stat", "-c", "%u %g %s", "/mnt/scratch/file"]).text(), "1000 1000 3072");
    assert_eq!(local(&lab, "n2", &["cat", "/proc/sys/net/ipv4/ip_forward"]).text(), "1");
    assert!(local(&lab, "n2", &["ip", "-o", "address", "show", "dev", "lo"]).text().contains("10.99.0.2/24"));
    assert!(!at_home(&lab, &["ip", "-o", "address", "show", "dev", "lo"]).text().contains("10.99.0.2"));
    // Its own processes see it too.
    let ternd = lab.root("n2").unwrap().join("mnt/scratch/file");
    assert_eq!(std::fs::metadata(ternd).unwrap().len(), 3072);
}

/// Root of home alone is the node's root. Its other users are strangers there, as without it.
#[test]
fn other_users_of_home_are_no_administrators() {
    let lab = lab_with_bare_node();
    let mine = lab.root("n2").unwrap().join("etc/mine");
    let write = ["sh", "-c", "echo x > /etc/mine"];
    let as_user = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "tern", "run", "--local", "--on", "n2"];
    let refused = at_home(&lab, &[&as_user[..], &["--"], &write].concat());
    assert!(!refused.status.success() && !mine.exists());
    assert!(at_home(&lab, &[&as_user[..], &["--", "sh", "-c", "echo x > /tmp/mine"]].concat()).status.success());
    let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
    assert!(owner(&lab.root("n2").unwrap().join("tmp/mine")) >= FIRST_ROOM_ID);
    assert!(local(&lab, "n2", &write).status.success());
    assert_eq!(owner(&mine), 0);
}

/// A process of the administrator's that gives its rights up has none left.
#[test]
fn rights_that_were_given_up_are_gone() {
    let lab = lab_with_bare_node();
    let script = r#"$) = "1 1"; $( = 1; $< = $> = 1; print "$< $>\n"; open(F, ">", "/etc/mine") or die "$!\n""#;
    let output = local(&lab, "n2", &["perl", "-e", script]);
    assert_eq!((output.text().as_str(), output.status.success()), ("1 1", false), "{}", output.errors());
    assert!(output.errors().contains("Permission denied"), "{}", output.errors());
    assert_eq!(local(&lab, "n2", &["chroot", "/tmp", "/tern"]).status.code(), Some(127), "it may change its root");
}
