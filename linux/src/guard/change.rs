//! Other settings for a guard that runs.

use ackgate_control::budget::Budget;
use ackgate_control::gate::State;

use super::{Guard, Options, ids};
use crate::attach;
use crate::datapath::{self, Datapath, Legacy};
use crate::error::Error;

/// Other settings for a guard that runs.
#[derive(Debug)]
pub struct Preparation {
    legacy: Legacy,
    options: Options,
}

impl Preparation {
    /// Loads the programs with the new settings. The kernel takes its time to verify them: to be done on another thread, while
    /// the guard goes on.
    ///
    /// # Errors
    /// When the kernel does not take them.
    pub fn load(self) -> Result<Change, Error> {
        let Self { legacy, options } = self;
        Ok(Change { datapath: Datapath::successor(legacy, &options.gate, &options.selection)?, options })
    }
}

/// Programs with other settings, ready to be put on the device.
#[derive(Debug)]
pub struct Change {
    datapath: Datapath,
    options: Options,
}

impl Guard {
    /// Begins a change of settings; [`Preparation::load`] and [`adopt`](Self::adopt) are the rest of it.
    ///
    /// # Errors
    /// [`Error::Settings`] when a setting cannot be changed ([`Options::fixed`]) or makes no sense.
    pub fn prepare(&self, mut options: Options) -> Result<Preparation, Error> {
        options.gate.leave_data = self.options.gate.leave_data;
        options.gate.validate().map_err(|error| Error::Settings(error.to_string()))?;
        if let Some(name) = self.options.fixed(&options) {
            return Err(Error::Settings(format!("{name} cannot be changed while the guard runs")));
        }
        let legacy = self.datapath.legacy();
        if legacy.by_netfilter() {
            // Its rule keeps the program that it was made with.
            return Err(Error::Settings("with hold nfqueue, settings cannot change while the guard runs".into()));
        }
        Ok(Preparation { legacy, options })
    }

    /// Goes on with other settings. Nothing is taken off meanwhile and nothing that is held is let go: programs with the new
    /// settings take the places of those that run, and go on with what those have remembered. Connections that have been seen
    /// stay guarded, or left alone, as it was decided.
    ///
    /// # Errors
    /// When the kernel does not put the programs there; one side of the device may go by the new settings then.
    pub fn adopt(&mut self, change: Change) -> Result<(), Error> {
        let Change { datapath, options } = change;
        let programs = attach::Programs { ingress: Some(datapath.ingress()), egress: datapath.egress() };
        if let Some(attachment) = &mut self.attachment {
            attachment.replace(&self.device, programs)?;
            self.neighbours.replaced(attachment.links().then(|| ids(&datapath)).transpose()?);
        }
        self.datapath = datapath;
        self.rules = options.gate.clone().into();
        if Budget::differs(&self.options.gate, &options.gate) {
            datapath::set_budget(self.datapath.shared().gate(), &options.gate);
            self.scheduler.search_anew(self.datapath.shared());
        }
        if let Some(standby) = &mut self.standby {
            standby.change(self.rules.clone(), self.datapath.shared());
        }
        self.watchdog.change(options.step_aside.filter(|_| !options.observe), options.gate.max_hold);
        self.options = options;
        Ok(())
    }
}
