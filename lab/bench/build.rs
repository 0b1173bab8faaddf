//! Compiles the one file of C, if the feature that needs it is on.

fn main() {
    #[cfg(feature = "rivals-debian")]
    {
        println!("cargo::rerun-if-changed=src/rival/berkeley.c");
        cc::Build::new().file("src/rival/berkeley.c").compile("bench_berkeley");
        println!("cargo::rustc-link-lib=db-5.3");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
