//! Sets the configuration option `live`: the commands that touch real packets, which require Linux and the feature `live`.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(live)");
    if env::var_os("CARGO_FEATURE_LIVE").is_some() && env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cfg=live");
    }
}
