//! Which task of a job array this process is: schedulers tell it in the environment.

use super::super::SweepError;

/// Variables that carry a task's number, and how far their counting is from ours, which begins with 1: Slurm, PBS Pro,
/// Torque, LSF, Grid Engine and HyperQueue count as the submission says, Kubernetes' indexed jobs always from 0.
const VARIABLES: [(&str, usize); 7] = [
    ("SLURM_ARRAY_TASK_ID", 0),
    ("PBS_ARRAY_INDEX", 0),
    ("PBS_ARRAYID", 0),
    ("LSB_JOBINDEX", 0),
    ("SGE_TASK_ID", 0),
    ("HQ_TASK_ID", 0),
    ("JOB_COMPLETION_INDEX", 1),
];

/// This process's task, from 1, in what `variable` gives for a name.
///
/// # Errors
/// When no scheduler says it, two say different things, or it is not a number.
pub fn task_number(variable: impl Fn(&str) -> Option<String>) -> Result<usize, SweepError> {
    let mut found: Option<(&str, usize)> = None;
    for (name, add) in VARIABLES {
        // Grid Engine says "undefined" and LSF 0 where there is no array.
        let absent = |text: &str| text.is_empty() || text == "undefined" || (name == "LSB_JOBINDEX" && text == "0");
        let Some(text) = variable(name).filter(|text| !absent(text)) else { continue };
        let number: usize = text
            .trim()
            .parse()
            .map_err(|_| SweepError::Usage(format!("{name}={text} is not a task number; give it with --task")))?;
        let number = number.saturating_add(add);
        match found {
            Some((other, known)) if known != number => {
                let problem = format!("{other} is {known}, but {name} is {number}; give the task with --task");
                return Err(SweepError::Usage(problem));
            }
            _ => found = Some((name, number)),
        }
    }
    found.map(|(_, number)| number).ok_or_else(|| {
        let names: Vec<&str> = VARIABLES.iter().map(|(name, _)| *name).collect();
        SweepError::Usage(format!(
            "the task number is unknown: no scheduler set {}; give it with --task",
            names.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(variables: &[(&str, &str)]) -> Result<usize, String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        task_number(find).map_err(|error| error.to_string())
    }

    #[test]
    fn every_scheduler_s_own_variable() {
        for (name, _) in &VARIABLES[..6] {
            assert_eq!(number(&[(name, "7")]), Ok(7), "{name}");
        }
        assert_eq!(number(&[("JOB_COMPLETION_INDEX", "0")]), Ok(1));
        assert_eq!(number(&[("LSB_JOBINDEX", "0"), ("SLURM_ARRAY_TASK_ID", "3")]), Ok(3));
        assert_eq!(number(&[("SGE_TASK_ID", "undefined"), ("PBS_ARRAY_INDEX", "3")]), Ok(3));
    }

    #[test]
    fn what_cannot_be_told_is_said() {
        assert!(number(&[]).unwrap_err().contains("the task number is unknown"));
        assert!(number(&[("SLURM_ARRAY_TASK_ID", "x")]).unwrap_err().contains("is not a task number"));
        let both = number(&[("SLURM_ARRAY_TASK_ID", "3"), ("LSB_JOBINDEX", "4")]).unwrap_err();
        assert!(both.contains(" is 3") && both.contains(" is 4"), "{both}");
    }
}
