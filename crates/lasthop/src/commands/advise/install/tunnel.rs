//! Configurations of both ends of the tunnel, and their keys.

use std::io::Write;
use std::path::{Path, PathBuf};

use lasthop_scenario::tunnel::Tunnel;
use lasthop_study::advise::HopRates;
use lasthop_study::install::tunnel::{End, NOBODY, configurations};
use lasthop_tunnel::{PrivateKey, PublicKey};

use crate::cli::{AdviseArgs, TunnelEndsArgs};
use crate::commands::tunnel::secrets;
use crate::error::Error;
use crate::output::write_file;

/// Writes `near`, the configuration of the end in front of the hop, and in the same folder the other end's
/// configuration and missing keys. Returns the next steps.
pub fn write(args: &AdviseArgs, near: &Path, rates: Option<HopRates>) -> Result<String, Error> {
    let ends = &args.tunnel;
    let near = &absolute(near)?;
    let far = &beside(near, "-far.toml");
    let near_key_file = ends.near_key.as_deref().map(absolute).transpose()?.unwrap_or_else(|| beside(near, ".key"));
    let far_key_file = beside(near, "-far.key");
    for path in [far, &far_key_file] {
        let is_written = path == far || ends.far_public_key.is_none();
        if is_written && path.exists() && !args.force {
            return Err(Error::Exists { path: path.clone() });
        }
    }
    let near_key = key(&near_key_file)?;
    let far_key = match ends.far_public_key {
        Some(public) => Key { public, made: None },
        None => key(&far_key_file)?,
    };
    let end = |host: &Option<String>, key_file: &Path, key: &Key, behind: &[String]| End {
        host: host.clone(),
        key_file: key_file.display().to_string(),
        public_key: key.public.to_string(),
        behind: behind.to_vec(),
    };
    let near_end = end(&ends.near, &near_key_file, &near_key, &ends.behind_near);
    // The other end uses the same paths: both files go to the same folder there.
    let far_end = end(&ends.far, &far_key_file, &far_key, &ends.behind_far);
    let texts = configurations(&near_end, &far_end, rates);
    let texts = [near, far].into_iter().zip(texts).collect::<Vec<_>>();
    for (file, text) in &texts {
        // A file that `check` would reject is not written.
        Tunnel::parse(&file.display().to_string(), text)?;
    }
    keep(&near_key, &near_key_file)?;
    keep(&far_key, &far_key_file)?;
    for (path, text) in texts {
        write_file(path, |file| file.write_all(text.as_bytes()).map_err(Error::file(path)))?;
    }
    Ok(next(ends, [near, far], &far_key_file))
}

/// Describes the next steps.
fn next(ends: &TunnelEndsArgs, [near, far]: [&Path; 2], far_key_file: &Path) -> String {
    let (near, folder) = (near.display(), far.parent().unwrap_or(Path::new("/")).display());
    let mut said = format!("and {}, for the other end", far.display());
    said += &match ends.far_public_key {
        Some(_) => format!("; its private key belongs in {} there", far_key_file.display()),
        None => format!(", with its key {0}: move both to {folder} there, and remove {0} here", far_key_file.display()),
    };
    if ends.near.is_none() && ends.far.is_none() {
        said += &format!("; in {near}, replace {NOBODY} with the address of the other end");
    }
    said + &format!("; then, at each end with its file: lasthop tunnel check {near} && lasthop tunnel run {near}")
}

/// Public key of a file, with the private key if it is new and has yet to be written.
struct Key {
    public: PublicKey,
    made: Option<PrivateKey>,
}

/// Reads the key in a file, or generates one for it.
fn key(file: &Path) -> Result<Key, Error> {
    let broken = |what: String| Error::TunnelKey { path: file.to_path_buf(), what };
    if file.try_exists().map_err(Error::file(file))? {
        let text = lasthop_tunneld::secrets::read(file).map_err(|what| Error::TunnelKeyFile { what })?;
        let key = PrivateKey::from_base64(&text).map_err(|error| broken(error.to_string()))?;
        return Ok(Key { public: key.public(), made: None });
    }
    let made = PrivateKey::generate(&mut secrets::entropy()?);
    Ok(Key { public: made.public(), made: Some(made) })
}

fn keep(key: &Key, file: &Path) -> Result<(), Error> {
    let Some(made) = &key.made else { return Ok(()) };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    secrets::write(file, &made.to_base64())
}

/// Returns a path in the folder of `near`: `tunnel-far.toml` or `tunnel.key` for `tunnel.toml`.
fn beside(near: &Path, end: &str) -> PathBuf {
    let stem = near.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    near.with_file_name(stem + end)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(Error::file(path))
}
