//! Slurm: tasks as a job array, by `sbatch` and `squeue`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use ackgate_sim::sweep::folder::{Folder, format_ranges};
use anyhow::{Context, bail};

use crate::exit::Refused;

fn script_path(folder: &Folder) -> PathBuf {
    folder.path().join("job.sh")
}

/// File with the numbers of all submitted jobs, one a line.
fn jobs_path(folder: &Folder) -> PathBuf {
    folder.path().join("jobs")
}

/// Writes the array's script into the folder, where it can be changed, and returns it.
pub(super) fn write_script(
    folder: &Folder,
    tasks: usize,
    threads: usize,
    options: &[String],
) -> anyhow::Result<String> {
    let path = script_path(folder);
    let absolute = |path: &Path| std::path::absolute(path).map(|path| path.display().to_string());
    let dir = absolute(folder.path())?;
    let program = std::env::current_exe().context("cannot find the path of this program")?.display().to_string();
    if dir.contains(char::is_whitespace) {
        return Err(Refused(anyhow::anyhow!(
            "--dir {dir}: sbatch does not accept a folder name with a space; choose another"
        ))
        .into());
    }
    let own: String = options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    let script = format!(
        "#!/bin/sh\n\
         #SBATCH --job-name=ackgate-{}\n\
         #SBATCH --array=1-{tasks}\n\
         #SBATCH --output={dir}/logs/%A.%a\n\
         #SBATCH --cpus-per-task={threads}\n\
         #SBATCH --requeue\n\
         {own}exec {} {} task {} --threads {threads}\n",
        folder.name(),
        quoted(&program),
        folder.tasks().command(),
        quoted(&dir),
    );
    fs::create_dir_all(folder.path().join("logs"))
        .and_then(|()| fs::write(&path, &script))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(script)
}

/// For a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The arguments of sbatch that submit these tasks, or all.
fn arguments(folder: &Folder, tasks: Option<&[usize]>) -> Vec<String> {
    let array = tasks.map(|tasks| format!("--array={}", format_ranges(tasks)));
    std::iter::once("--parsable".to_owned()).chain(array).chain([script_path(folder).display().to_string()]).collect()
}

/// The command that submits these tasks, or all.
pub(super) fn command(folder: &Folder, tasks: Option<&[usize]>) -> String {
    format!("sbatch {}\n", arguments(folder, tasks).join(" "))
}

/// Submits these tasks, or all, and returns the job's number.
pub(super) fn submit(folder: &Folder, tasks: Option<&[usize]>) -> anyhow::Result<String> {
    let told = call("sbatch", &arguments(folder, tasks))?;
    // With several clusters it is `number;cluster`.
    let job = told.trim().split(';').next().unwrap_or_default().to_owned();
    if job.is_empty() || !job.bytes().all(|byte| byte.is_ascii_digit()) {
        bail!("sbatch printed `{}` instead of a job number", told.trim());
    }
    let path = jobs_path(folder);
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut file| writeln!(file, "{job}"))
        .with_context(|| {
            format!(
                "{} cannot be written, so ackgate does not know about job {job}: cancel it (`scancel {job}`)",
                path.display()
            )
        })?;
    Ok(job)
}

/// Tasks that wait or run; `None` where Slurm has nothing to do with them.
pub(super) fn active(folder: &Folder) -> anyhow::Result<Option<Vec<usize>>> {
    if !script_path(folder).exists() {
        return Ok(None);
    }
    let jobs = fs::read_to_string(jobs_path(folder)).unwrap_or_default();
    let mut tasks = Vec::new();
    for job in jobs.lines() {
        let asked = ["--noheader", "--array", "--format=%K", "--jobs"].map(str::to_owned);
        let told = call("squeue", &[&asked[..], &[job.to_owned()]].concat());
        match told {
            Ok(told) => tasks.extend(told.split_whitespace().filter_map(|task| task.parse::<usize>().ok())),
            // Slurm forgets jobs some minutes after their end.
            Err(error) if error.to_string().contains("Invalid job id") => {}
            Err(error) => return Err(error),
        }
    }
    tasks.sort_unstable();
    tasks.dedup();
    Ok(Some(tasks))
}

/// What one of Slurm's programs prints.
fn call(program: &str, arguments: &[String]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| {
        Refused(anyhow::anyhow!(
            "cannot run {program}: {error}; is Slurm installed here? --print prints the job script instead"
        ))
    })?;
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
