//! The file of settings: devices, each with the options of `ackgate run` as keys; metrics; samples.
//!
//! The keys of a device are not listed here: each is handed to the parser of the command line, so that a name and a value mean the
//! same in both places.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use ackgate_control::gate;
use ackgate_linux::Options;
use ackgate_sim::scenario::{Document, Place as Written, ScenarioError};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args, Command, FromArgMatches};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::METRICS;
use super::place::Place;
use super::printer::Samples;
use super::settings::{Runner, Settings};
use crate::units::parse_time;

/// What a file says.
#[derive(Debug)]
pub(crate) struct File {
    pub(super) devices: Vec<Device>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) samples: Samples,
}

/// A device that is to be guarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) settings: Settings,
    /// The scheme on the fast path.
    guard: gate::Guard,
}

impl Device {
    /// What is to be done, with what the host tells of the device now.
    ///
    /// # Errors
    /// When the settings make no sense together.
    pub(super) fn options(&self) -> anyhow::Result<(Place, Options)> {
        let place = Place::choose(Some(&self.name), &self.settings)?;
        let options = self.settings.options(&place, self.guard)?;
        Ok((place, options))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Tables {
    #[serde(default)]
    device: Vec<Map<String, Value>>,
    metrics: Option<Metrics>,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Metrics {
    address: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Status {
    samples: Option<String>,
}

impl File {
    /// Reads a file of settings.
    ///
    /// # Errors
    /// With file, line and key, when it cannot be read or something in it makes no sense.
    pub(crate) fn read(path: &Path) -> Result<Self, ScenarioError> {
        Self::understand(&Document::read(path)?)
    }

    fn understand(document: &Document) -> Result<Self, ScenarioError> {
        let tables: Tables = document.read_as()?;
        let wrong = |key: &str, problem: String| ScenarioError::new(document.place_of(key), key, problem);
        let mut devices: Vec<Device> = Vec::new();
        for (index, table) in tables.device.iter().enumerate() {
            let device = device(table, &format!("device.{index}"), &wrong)?;
            if devices.iter().any(|known| known.name == device.name) {
                return Err(wrong(&format!("device.{index}.name"), format!("`{}` is there twice", device.name)));
            }
            devices.push(device);
        }
        if devices.is_empty() {
            let whole = Written::File { file: document.file().into(), line: 0 };
            return Err(ScenarioError::new(
                whole,
                "",
                "names no device; write `[[device]]` and below it `name = \"eth0\"`",
            ));
        }
        let metrics = tables.metrics.map(|metrics| {
            let address = metrics.address.as_deref().unwrap_or(METRICS);
            let problem =
                |_| wrong("metrics.address", format!("`{address}` is not an address; write it like \"{METRICS}\""));
            address.parse().map_err(problem)
        });
        let samples = tables.status.samples.as_deref().map_or(Ok(Samples::None), |text| match parse_time(text) {
            Ok(time) if time >= Duration::from_secs(1) => Ok(Samples::Every(time)),
            Ok(_) => Err(wrong("status.samples", "there is one sample a second; write \"1s\" or more".into())),
            Err(error) => Err(wrong("status.samples", error.to_string())),
        });
        Ok(Self { devices, metrics: metrics.transpose()?, samples: samples? })
    }

    /// What it comes to, a line for each device and one for the rest.
    pub(crate) fn told(&self) -> String {
        let mut text = String::new();
        for Device { name, settings, .. } in &self.devices {
            let guard = settings.guard_name();
            match Place::choose(Some(name), settings) {
                Ok(place) => text += &format!("{guard} on {}\n", place.told(settings.buffer)),
                Err(error) => text += &format!("{guard} on {name}: {error}\n"),
            }
        }
        text + &self.metrics.map_or("no metrics\n".into(), |address| format!("metrics at http://{address}/metrics\n"))
    }
}

/// Understands a device's table. `wrong` makes an error of a dotted key and what is wrong with it.
fn device(
    table: &Map<String, Value>,
    at: &str,
    wrong: &impl Fn(&str, String) -> ScenarioError,
) -> Result<Device, ScenarioError> {
    let name = match table.get("name") {
        Some(Value::String(name)) => name.clone(),
        Some(_) => return Err(wrong(&format!("{at}.name"), "is the name of an interface, such as \"eth0\"".into())),
        None => return Err(wrong(at, "has no `name`; write for example name = \"eth0\"".into())),
    };
    let command = Settings::augment_args(Command::new("device")).no_binary_name(true);
    let mut words = Vec::new();
    for (key, value) in table.iter().filter(|(key, _)| *key != "name") {
        let key_at = format!("{at}.{key}");
        let own = as_options(&command, key, value).map_err(|problem| wrong(&key_at, problem))?;
        // Alone first: then it is this key that is wrong.
        command.clone().try_get_matches_from(&own).map_err(|error| wrong(&key_at, explained(&command, key, &error)))?;
        words.extend(own);
    }
    let matches = command.clone().try_get_matches_from(&words);
    let settings = matches.and_then(|matches| Settings::from_arg_matches(&matches));
    let settings = settings.map_err(|error| wrong(at, first_words(&error)))?;
    let Runner::Gate(guard) = settings.guard.runner() else {
        let name = settings.guard_name();
        let problem =
            format!("{name} runs in user space, for comparison: `ackgate run --dev {} --guard {name}`", table["name"]);
        return Err(wrong(&format!("{at}.guard"), problem));
    };
    let device = Device { name, settings, guard };
    device.options().map_err(|error| wrong(at, error.to_string()))?;
    Ok(device)
}

/// A key and its value as on the command line.
fn as_options(command: &Command, key: &str, value: &Value) -> Result<Vec<String>, String> {
    let known = command.get_arguments().find(|argument| argument.get_long() == Some(key));
    let switch = known.is_some_and(|argument| matches!(argument.get_action(), ArgAction::SetTrue));
    let several = known.is_some_and(|argument| matches!(argument.get_action(), ArgAction::Append));
    let one = |value: &Value| match value {
        Value::String(text) => Ok(format!("--{key}={text}")),
        Value::Number(number) => Ok(format!("--{key}={number}")),
        _ => Err("is a text or a number".to_owned()),
    };
    match value {
        _ if known.is_none() => Ok(vec![format!("--{key}")]),
        Value::Bool(on) if switch => Ok(on.then(|| format!("--{key}")).into_iter().collect()),
        _ if switch => Err("is on or off: write true or false".into()),
        Value::Array(values) if several => values.iter().map(one).collect(),
        _ if several => Err("is a list, such as [\"10.0.0.0/8\", \"port 22\"]".into()),
        value => Ok(vec![one(value)?]),
    }
}

/// What the command line's parser says of a key.
fn explained(command: &Command, key: &str, error: &clap::Error) -> String {
    if error.kind() == ErrorKind::UnknownArgument {
        let known: BTreeSet<&str> = command.get_arguments().filter_map(clap::Arg::get_long).chain(["name"]).collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(near)) => {
                format!("unknown key `{key}`; did you mean `{}`?", near.trim_start_matches('-'))
            }
            _ => format!("unknown key `{key}`; a device has {known}"),
        };
    }
    first_words(error)
}

/// What a parser's error says before it comes to how help can be had.
fn first_words(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\nFor more").next().unwrap_or_default().split("\n\nUsage").next().unwrap_or_default();
    text.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use ackgate_linux::Follow;

    use super::*;

    fn read(text: &str) -> Result<File, String> {
        let document = Document::parse("guard.toml", text).expect("it is TOML");
        File::understand(&document).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_means_what_the_option_means() {
        let file = read(
            "[metrics]\n[status]\nsamples = '10s'\n\
             [[device]]\nname = 'eth0'\nbuffer = '96KB'\nrate = '10gbit'\nmax-hold = '50ms'\nevery-ack = true\nobserve = false\n\
             initial-window = 20\nexclude = ['10.0.0.0/8', 'port 22']\n[[device]]\nname = 'eth1'\nguard = 'pac'\n",
        );
        let file = file.expect("it makes sense");
        assert_eq!(file.metrics, METRICS.parse().ok());
        assert_eq!(file.samples, Samples::Every(Duration::from_secs(10)));
        let [first, second] = &file.devices[..] else { panic!("{file:?}") };
        assert_eq!((first.name.as_str(), second.name.as_str()), ("eth0", "eth1"));
        let (_, options) = first.options().expect("it makes sense");
        assert_eq!((options.gate.buffer, options.gate.rate_mbps, options.gate.initial_window), (96_000, 10_000, 20));
        assert!(!options.gate.thin_acks && !options.observe && options.selection.exclude.len() == 2);
        assert_eq!(second.settings.guard_name(), "pac");
    }

    #[test]
    fn whoever_tells_of_the_port_has_each_burst_guarded() {
        for (keys, follow) in [
            ("", Follow::AfterLoss),
            ("buffer = 'auto'\nrate = 'unknown'\n", Follow::AfterLoss),
            ("buffer = '96KB'\n", Follow::Always),
            ("rate = '10gbit'\n", Follow::Always),
            ("rate = '10gbit'\nfollow = 'after-loss'\n", Follow::AfterLoss),
            ("follow = 'always'\n", Follow::Always),
        ] {
            let file = read(&format!("[[device]]\nname = 'eth0'\n{keys}")).expect("it makes sense");
            let (_, options) = file.devices[0].options().expect("it makes sense");
            assert_eq!(options.follow, follow, "{keys}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_key() {
        let device = "[[device]]\nname = 'eth0'\n";
        for (text, what) in [
            ("", "guard.toml: names no device"),
            ("[[device]]\nrate = '1gbit'\n", "guard.toml:1: key `device.0`: has no `name`"),
            (&format!("{device}{device}"), "guard.toml:4: key `device.1.name`: `eth0` is there twice"),
            (&format!("{device}rate = '1gbps'\n"), "guard.toml:3: key `device.0.rate`: invalid value '1gbps'"),
            (
                &format!("{device}max-holt = '1ms'\n"),
                "key `device.0.max-holt`: unknown key `max-holt`; did you mean `max-hold`?",
            ),
            (&format!("{device}xyzzy = 1\n"), "unknown key `xyzzy`; a device has attach, batch"),
            (&format!("{device}dev = 'eth1'\n"), "unknown key `dev`"),
            (&format!("{device}every-ack = 'yes'\n"), "key `device.0.every-ack`: is on or off"),
            (&format!("{device}exclude = 'port 22'\n"), "is a list"),
            (&format!("{device}exclude = ['port 0']\n"), "`0` is not a port number"),
            (&format!("{device}observe = true\nbatch = 1000\n"), "key `device.0`: the argument"),
            (&format!("{device}buffer = 96000\nbatch = 90000\n"), "half the buffer"),
            (&format!("{device}guard = 'ictcp'\n"), "guard.toml:3: key `device.0.guard`: ictcp runs in user space"),
            (&format!("{device}guard = 'best'\n"), "possible values: pac"),
            (
                &format!("{device}[metrics]\naddress = 'here'\n"),
                "guard.toml:4: key `metrics.address`: `here` is not an address",
            ),
            (&format!("{device}[status]\nsamples = '1ms'\n"), "key `status.samples`: there is one sample a second"),
            (&format!("{device}[statsu]\n"), "guard.toml:3"),
        ] {
            let said = read(text).expect_err(text);
            assert!(said.contains(what), "`{said}` does not say `{what}`");
        }
    }
}
