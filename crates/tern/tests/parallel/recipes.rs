//! The recipes of docs/parallel-jobs.md, run as they stand there.

use crate::alone;
use crate::cluster::{JOB, NODES, on_first, ssh_is_missing, whole};
use crate::programs::{Library, ring};

const PAGE: &str = include_str!("../../../../docs/parallel-jobs.md");

/// Gives the first shell block below the heading.
fn recipe(heading: &str) -> String {
    let (_, below) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, block) = below.split_once("```sh\n").unwrap();
    block.split_once("```").unwrap().0.to_owned()
}

/// Runs a recipe on n1. The program of the recipe, `./job`, is a ring that ends by itself.
fn follow(heading: &str, library: Library) {
    if library.is_missing() || ssh_is_missing() {
        return;
    }
    let (_alone, lab) = (alone(), whole());
    let ring = ring(&lab, library, &NODES);
    let arguments = if library == Library::Pvm { "4 direct 4096 40" } else { "4096 40" };
    let (scope, recipe) = (recipe("What may be moved"), recipe(heading));
    let text = on_first(
        &lab,
        &format!(
            r#"
        everywhere "printf '%s\n' '#!/bin/sh' 'exec {ring} {arguments}' > {JOB}/job; chmod 755 {JOB}/job"
        {scope}
        set -e
        {{
            {recipe}
        }} > all 2>&1 < /dev/null || {{ cat all; exit 1; }}
        grep 'all right' all"#
        ),
    )
    .text();
    assert!(text.contains("all right: 40 rounds"), "{text}");
}

#[test]
fn pvm_at_home() {
    follow("PVM at home", Library::Pvm);
}

#[test]
fn pvm_over_nodes() {
    follow("PVM over nodes", Library::Pvm);
}

#[test]
fn mpich() {
    follow("MPICH", Library::Mpich);
}

#[test]
fn mpich_over_nodes() {
    follow("MPICH over nodes", Library::Mpich);
}

#[test]
fn open_mpi() {
    follow("Open MPI", Library::OpenMpi);
}

#[test]
fn open_mpi_over_nodes() {
    follow("Open MPI over nodes", Library::OpenMpi);
}
