use super::*;

fn cluster() -> Vec<NodeFacts> {
    let node = |n: u32| NodeFacts {
        name: format!("n{n}"),
        is_home: n == 1,
        takes_guests: n != 5,
        may_use: n != 7,
        load_milli: Some(1000_u32.saturating_sub(150 * n)),
        groups: n.is_multiple_of(2).then(|| "even".to_owned()).into_iter().collect(),
    };
    (1..=7).map(node).collect()
}

fn chosen(text: &str) -> Result<String, NodesError> {
    Ok(Nodes::parse(text)?.choose(&cluster())?.join(" "))
}

#[test]
fn every_kind_of_item_names_its_nodes_once_and_in_order() {
    for (text, names) in [
        ("n3", "n3"),
        ("n3,n[2-4],n3", "n3 n2 n4"),
        ("home", "n1"),
        ("n1", "n1"),
        ("home,n2", "n1 n2"),
        ("n7", "n7"),
        ("all", "n2 n3 n4 n6"),
        ("all,home", "n2 n3 n4 n6 n1"),
        ("idle", "n4 n6"),
        ("@even", "n2 n4 n6"),
        ("+2", "n6 n4"),
        ("+1,n6", "n6 n4"),
        ("@even,+1", "n2 n4 n6 n3"),
        ("n[2,6]", "n2 n6"),
    ] {
        assert_eq!(chosen(text).as_deref(), Ok(names), "{text}");
    }
}

#[test]
fn nodes_that_cannot_be_used_are_named() {
    assert_eq!(chosen("n9"), Err(NodesError::Unknown { name: "n9".into() }));
    assert_eq!(chosen("n[4-5]"), Err(NodesError::Unable { name: "n5".into() }));
    assert_eq!(chosen("all,+1"), Err(NodesError::TooFew { wanted: "+1".into(), found: 0 }));
    assert_eq!(chosen("+5"), Err(NodesError::TooFew { wanted: "+5".into(), found: 4 }));
    assert_eq!(chosen("@odd"), Err(NodesError::Nobody { text: "@odd".into() }));
    assert_eq!(chosen("@odd,n2").as_deref(), Ok("n2"));
}

#[test]
fn numbers_keep_their_width_and_multiply() {
    let names = |text: &str| ranges::expand(text, 100);
    assert_eq!(names("n[08-11]").unwrap().join(" "), "n08 n09 n10 n11");
    assert_eq!(names("r[1-2]n[3,5]x").unwrap().join(" "), "r1n3x r1n5x r2n3x r2n5x");
    assert_eq!(names("plain").unwrap().join(" "), "plain");
}

#[test]
fn what_names_no_nodes_is_refused() {
    for text in [
        "",
        ",",
        "n1,",
        ",n1",
        "n[",
        "n]",
        "n[2",
        "n[[2]]",
        "n[]",
        "n[4-2]",
        "n[a-b]",
        "n[1-]",
        "n[-1]",
        "+",
        "+0",
        "+x",
        "@",
        "@a b",
        "n 1",
        "n/1",
        "../n1",
        "+99999999999999999999",
        "n[1-999999999]",
        "n[1-4000],m[1-4000]",
        "r[1-4000]n[1-4000]",
        "n\0",
    ] {
        assert!(matches!(Nodes::parse(text), Err(NodesError::Grammar { .. })), "{text:?}");
    }
    assert!(Nodes::parse(&"n,".repeat(5000)).is_err());
    let long = "x".repeat(64);
    assert!(Nodes::parse(&long).is_err() && Nodes::parse(&long[..63]).is_ok());
}

#[test]
fn one_plain_name_is_known_without_a_cluster() {
    assert_eq!(Nodes::parse("n3").unwrap().single(), Some("n3"));
    assert_eq!(Nodes::parse("n[3]").unwrap().single(), Some("n3"));
    assert_eq!(Nodes::parse("home").unwrap().single(), Some("home"));
    for text in ["all", "n1,n2", "+1", "@g", "idle"] {
        assert_eq!(Nodes::parse(text).unwrap().single(), None, "{text}");
    }
}
