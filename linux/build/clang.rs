//! Compiles a BPF program and generates its skeleton; shared by the build scripts of the crates that have any. Needs clang
//! and the kernel's user-space headers. Which clang matters: what a compiler makes of a bound decides whether the kernel's
//! verifier can follow it (docs/platforms.md).

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

/// Versions whose programs are tried on real kernels (`make test-compilers`). The first is what set-up installs.
const TESTED_CLANGS: [u32; 3] = [19, 16, 22];
/// Older ones do not know all that the programs are written with.
const OLDEST_CLANG: u32 = 16;
/// The newest that is looked for by name.
const NEWEST_CLANG: u32 = 29;

/// Builds `source` into `skeleton` in the build's output directory; returns the object that lies beside it.
pub(crate) fn build(source: &str, skeleton: &str) -> Result<PathBuf, String> {
    println!("cargo:rerun-if-env-changed=CLANG");
    let (clang, version) = find_clang()?;
    if !TESTED_CLANGS.contains(&version) {
        println!(
            "cargo:warning=the BPF programs are compiled by clang {version}, which was never tried; tried are {}. If the \
             kernel refuses them, build with CLANG=clang-{}",
            tested(),
            TESTED_CLANGS[0]
        );
    }
    println!("cargo:rustc-env=ACKGATE_CLANG=clang {}", full_version(&clang).unwrap_or_else(|| version.to_string()));
    println!("cargo:rustc-env=ACKGATE_TESTED_CLANGS={}", tested());
    println!("cargo:rustc-env=ACKGATE_DEFAULT_CLANG=clang-{}", TESTED_CLANGS[0]);
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
    let object = out.join(skeleton).with_extension("o");
    SkeletonBuilder::new()
        .source(source)
        .obj(&object)
        .clang(&clang)
        .clang_args(arguments)
        .build_and_generate(out.join(skeleton))
        .map_err(|error| format!("{error:#} (compiler: {})", clang.display()))?;
    Ok(object)
}

/// `$CLANG`; else a tested one, the first there is; else any that is new enough. With its version.
fn find_clang() -> Result<(PathBuf, u32), String> {
    if let Some(named) = env::var_os("CLANG") {
        return match version(Path::new(&named)) {
            Some(version) if version >= OLDEST_CLANG => Ok((named.into(), version)),
            Some(version) => Err(format!("CLANG names clang {version}, but {OLDEST_CLANG} is the oldest that will do")),
            None => Err(format!("CLANG names `{}`, which does not run", Path::new(&named).display())),
        };
    }
    let tested = TESTED_CLANGS.map(|version| format!("clang-{version}"));
    let untested = (OLDEST_CLANG..=NEWEST_CLANG).map(|version| format!("clang-{version}"));
    tested
        .into_iter()
        .chain(std::iter::once("clang".to_owned()))
        .chain(untested)
        .map(PathBuf::from)
        .find_map(|name| version(&name).filter(|&version| version >= OLDEST_CLANG).map(|version| (name, version)))
        .ok_or_else(|| {
            format!(
                "no clang {OLDEST_CLANG} or newer was found. `packaging/setup.sh` installs clang-{}; or name one in the \
                 environment variable CLANG (tried: {})",
                TESTED_CLANGS[0],
                self::tested()
            )
        })
}

/// The tested versions in a row.
fn tested() -> String {
    let mut versions = TESTED_CLANGS;
    versions.sort_unstable();
    versions.map(|version| version.to_string()).join(", ")
}

/// Major version of a clang; `None` when it does not run.
fn version(clang: &Path) -> Option<u32> {
    full_version(clang)?.split('.').next()?.parse().ok()
}

/// What a clang calls itself, for example 19.1.7.
fn full_version(clang: &Path) -> Option<String> {
    let output = Command::new(clang).arg("-dumpversion").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
