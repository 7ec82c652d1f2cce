//! Installation of an advice: the configuration of the cure, and the promise in a separate file.

#[cfg(live)]
mod tunnel;

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

use lasthop_study::advise::{Advice, Cured, HopRates, Needs};
use lasthop_study::install::{self, Unfit};
use lasthop_study::promise::Promise;

use crate::cli::AdviseArgs;
use crate::error::Error;
use crate::output::write_file;
use crate::terminal::{fold, width};

/// Files that `--out` requests.
pub struct Installation<'a> {
    args: &'a AdviseArgs,
    out: &'a Path,
    /// Kind of `out`: in a folder the files have default names.
    folder: Folder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Folder {
    Yes,
    No,
}

impl<'a> Installation<'a> {
    /// Returns the installation that `--out` requests, if any. Checks everything that can be checked before minutes of
    /// simulation.
    pub fn wanted(args: &'a AdviseArgs, needs: &[Needs]) -> Result<Option<Self>, Error> {
        let Some(out) = args.out.as_deref() else { return Ok(None) };
        let unfit = |Unfit { what: flag, message }| Error::Site { flag, message };
        args.interface.as_deref().map_or(Ok(()), install::check_interface).map_err(unfit)?;
        #[cfg(live)]
        {
            let ends = &args.tunnel;
            let said = [(ends.near.as_deref(), &ends.behind_near[..]), (ends.far.as_deref(), &ends.behind_far[..])];
            install::check_ends(said).map_err(unfit)?;
        }
        let is_folder = out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/');
        let wanted = Self { args, out, folder: if is_folder { Folder::Yes } else { Folder::No } };
        if args.force {
            return Ok(Some(wanted));
        }
        // The cure is not known yet: the file of none of them may exist.
        let there = needs.iter().map(|needs| wanted.file(*needs)).find(|file| file.exists());
        match there {
            Some(path) => Err(Error::Exists { path }),
            None => Ok(Some(wanted)),
        }
    }

    /// Returns the path of the configuration for a cure with these needs.
    fn file(&self, needs: Needs) -> PathBuf {
        match (self.folder, install::file_name(needs)) {
            (Folder::Yes, Some(name)) => self.out.join(name),
            (Folder::No, _) | (Folder::Yes, None) => self.out.to_path_buf(),
        }
    }

    /// Writes the configuration of the advised cure and its promise, and prints the next steps.
    pub fn write(&self, advice: &Advice, promise: &Promise, rates: Option<HopRates>) -> Result<(), Error> {
        let path = || self.out.to_path_buf();
        let cured = advice.best().ok_or_else(|| Error::NothingHelps { path: path() })?;
        let file = self.file(cured.cure.needs);
        let text = |text: String| move |out: &mut dyn Write| out.write_all(text.as_bytes());
        let shown = file.display();
        let next = match cured.cure.needs {
            Needs::Nothing => return Err(Error::NothingHelps { path: path() }),
            Needs::Sender => {
                let (settings, next) = install::sender(&shown.to_string());
                put(&file, text(settings))?;
                next
            }
            Needs::Box => {
                let (configuration, next) = self.gateway(cured, &file)?;
                put(&file, text(configuration))?;
                next
            }
            Needs::Boxes => self.tunnel(&file, rates)?,
        };
        let kept = file.with_extension("promise.json");
        let json = serde_json::to_string_pretty(promise).map_err(std::io::Error::from)? + "\n";
        put(&kept, text(json))?;
        if self.args.json.json {
            return Ok(());
        }
        let mut said = format!("wrote {shown} and {}; {next}", kept.display());
        if cured.cure.needs == Needs::Box {
            said += &format!("; later: lasthop gateway report --promise {}", kept.display());
        }
        Ok(writeln!(stdout().lock(), "\n{}", fold(&said, width()))?)
    }

    fn gateway(&self, cured: &Cured, file: &Path) -> Result<(String, String), Error> {
        let cure = cured.cure.name();
        let interface = self.args.interface.as_deref();
        let interface = interface.ok_or_else(|| Error::NoInterface { path: self.out.to_path_buf(), cure })?;
        let (text, next) = install::gateway(&cured.cure, interface, &file.display().to_string());
        // A file that `check` would reject is not written.
        #[cfg(live)]
        lasthop_gateway::configuration::Gateway::parse(&file.display().to_string(), &text)?;
        Ok((text, next))
    }

    #[cfg(live)]
    fn tunnel(&self, file: &Path, rates: Option<HopRates>) -> Result<String, Error> {
        tunnel::write(self.args, file, rates)
    }

    /// Rejects the cure: both ends require Linux.
    #[cfg(not(live))]
    fn tunnel(&self, file: &Path, _: Option<HopRates>) -> Result<String, Error> {
        Err(Error::TwoEnds { path: file.to_path_buf() })
    }
}

fn put(path: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(), Error> {
    write_file(path, |file| write(file).map_err(Error::file(path)))
}
