//! A room that is lost just when a program there has ended.

use crate::told::{Faults, lab};

/// The words to the program's user, and the end of the program.
const SCRIPT: &str = "cd $(mktemp -d); tern run --on n2 -- true 2> told; echo $?; cat told";

/// Failed before: the deputy had closed its standard error with that of the body, and the words
/// went nowhere.
#[test]
fn the_user_of_a_program_that_ended_before_its_room_is_told() {
    let lab = lab(2);
    Faults::of(&lab, "n2").set("ended there:kill");
    let said = lab.exec("n1", ["timeout", "60", "sh", "-c", SCRIPT]).unwrap().text();
    let (status, told) = said.split_once('\n').unwrap_or((&said, ""));
    assert_eq!(status, "137", "{said}");
    assert_eq!(told.matches("ran on n2, which is lost").count(), 1, "{said}");
    lab.down().unwrap();
}
