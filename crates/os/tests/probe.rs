//! The probe on the real kernel.

use os::probe::{Feature, Need, Outcome, probe};

#[test]
fn everything_is_tried_and_said() {
    let before = children();
    let features = probe();
    for finding in features.findings() {
        eprintln!("{:<42} {:<24?} {:?}: {}", finding.name, finding.outcome, finding.need, finding.text);
        assert!(!finding.text.is_empty());
        assert_eq!(features.outcome(finding.feature), finding.outcome);
    }
    assert_eq!(features.findings().count(), 25);
    assert!(!features.kernel.is_empty());
    assert!(features.cpu.features.iter().any(|f| f == "sse2") && features.cpu.xsave_bytes >= 576);
    assert_eq!(children(), before, "children left behind");
    if let Some(lack) = features.cannot_host() {
        assert!(lack.need != Need::Cost && matches!(lack.outcome, Outcome::Missing(_)));
    }
}

#[test]
fn a_later_feature_of_fuse_says_so_by_the_protocol() {
    let features = probe();
    if let Outcome::Found(minor) = features.outcome(Feature::FuseInNamespace) {
        assert!(minor >= 36, "Linux 6.1 speaks 7.36: {minor}");
        assert_eq!(features.has(Feature::FuseEpoch), minor >= 44);
    } else {
        assert!(!features.has(Feature::FuseEpoch) && !features.has(Feature::FuseResend));
    }
}

fn children() -> String {
    std::fs::read_to_string("/proc/self/task/self/children").unwrap_or_default()
}
