//! Compiles the files of C, if the feature that needs them is on.

fn main() {
    #[cfg(feature = "rivals-debian")]
    {
        println!("cargo::rerun-if-changed=src/rival/berkeley.c");
        println!("cargo::rerun-if-changed=src/rival/pmemobj.c");
        cc::Build::new().file("src/rival/berkeley.c").compile("bench_berkeley");
        cc::Build::new().file("src/rival/pmemobj.c").compile("bench_pmemobj");
        println!("cargo::rustc-link-lib=db-5.3");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
