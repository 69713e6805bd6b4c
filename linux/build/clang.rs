//! Compiles a BPF program and generates its skeleton; shared by the build scripts of the crates that have any. Needs clang
//! 16 or newer and the kernel's user-space headers.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

const OLDEST_CLANG: u32 = 16;
const NEWEST_CLANG: u32 = 23;

/// Builds `source` into `skeleton` in the build's output directory.
pub(crate) fn build(source: &str, skeleton: &str) -> Result<(), String> {
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = find_clang()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: run this through cargo")?);
    let mut arguments: Vec<OsString> = ["-mcpu=v3", "-Wall", "-Wextra", "-Werror"].map(OsString::from).to_vec();
    // Debian and Ubuntu keep <asm/types.h> in the multi-arch directory, where clang's BPF target does not look.
    let machine = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let headers = PathBuf::from(format!("/usr/include/{machine}-linux-gnu"));
    if headers.is_dir() {
        arguments.extend(["-idirafter".into(), headers.into_os_string()]);
    }
    if !Path::new("/usr/include/linux/bpf.h").exists() {
        return Err("the kernel's user-space headers are missing (apt install linux-libc-dev)".into());
    }
    SkeletonBuilder::new()
        .source(source)
        .clang(&clang)
        .clang_args(arguments)
        .build_and_generate(out.join(skeleton))
        .map_err(|error| format!("{error:#} (compiler: {})", clang.display()))
}

/// `$CLANG`, or the first of `clang`, `clang-16` … `clang-23` that is new enough.
fn find_clang() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("CLANG") {
        return match version(Path::new(&named)) {
            Some(version) if version >= OLDEST_CLANG => Ok(named.into()),
            Some(version) => Err(format!("CLANG names clang {version}, but {OLDEST_CLANG} is the oldest that will do")),
            None => Err(format!("CLANG names `{}`, which does not run", Path::new(&named).display())),
        };
    }
    let numbered = (OLDEST_CLANG..=NEWEST_CLANG).map(|version| format!("clang-{version}"));
    std::iter::once("clang".to_owned())
        .chain(numbered)
        .map(PathBuf::from)
        .find(|name| version(name).is_some_and(|version| version >= OLDEST_CLANG))
        .ok_or_else(|| {
            format!(
                "no clang {OLDEST_CLANG} or newer was found. Install one (Debian 12: apt install clang-16; Ubuntu: apt \
                 install clang), or name it in the environment variable CLANG"
            )
        })
}

/// Major version of a clang; `None` when it does not run.
fn version(clang: &Path) -> Option<u32> {
    let output = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8_lossy(&output.stdout).split('.').next()?.trim().parse().ok()
}
