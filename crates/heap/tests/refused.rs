//! Programs that the compiler refuses, one file for each class of bug, with what it says to the programmer.
#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Whether the messages beside the programs are those of the compiler that runs the tests.
fn is_pinned_compiler() -> bool {
    let pinned = include_str!("../../../rust-toolchain.toml");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let says = Command::new(rustc).arg("--version").output().unwrap().stdout;
    let says = String::from_utf8(says).unwrap();
    says.split(' ').nth(1).is_some_and(|version| pinned.contains(&format!("\"{version}\"")))
}

#[test]
fn programs_that_break_a_heap_are_refused_with_advice() {
    if !is_pinned_compiler() {
        // Another compiler words its messages differently. That the programs are refused, the crate's doc tests say.
        return;
    }
    trybuild::TestCases::new().compile_fail("tests/refused/*.rs");
}
