//! Data volume of paths with a cap in the current month. It is stored in a file, so that it survives restarts.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lasthop_proto::link::hybrid::Tier;
use lasthop_settings::tunnel::{Cap, Tunnel};
use serde::{Deserialize, Serialize};

use crate::daemon::snapshot::Snapshot;

/// Minimum interval between two changes of the file.
const STORE: Duration = Duration::from_secs(10);

/// Share of a cap, in percent, from which on a path is a backup.
const NEARLY: u64 = 90;

/// Calendar month, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
pub struct Month {
    /// Year.
    pub year: u16,
    /// Month, from 1 on.
    pub month: u8,
}

impl Month {
    /// Returns the month that began last if months begin on `day`, 1 to 28. `wall` is the time since 1970.
    pub fn of(wall: Duration, day: u8) -> Self {
        let days = (wall.as_secs() / 86_400).saturating_sub(u64::from(day.saturating_sub(1)));
        // Years that begin in March have the leap day at their end; 400 of them have 146,097 days.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // March to July and August to December have 153 days.
        let month = (5 * day + 2) / 153;
        let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
        Self { year: (era * 400 + year) as u16, month: month as u8 }
    }
}

/// Data volume of a path in a month.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Stored {
    peer: String,
    path: String,
    #[serde(flatten)]
    month: Month,
    bytes: u64,
}

/// Content of the file.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
struct Content {
    paths: Vec<Stored>,
}

/// Data volume of a path with a cap, as reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathUsage {
    /// The cap.
    pub cap: Cap,
    /// Bytes in the current month, in both directions.
    pub bytes: u64,
}

impl PathUsage {
    /// Returns the earliest tier that the volume permits.
    pub fn tier(&self) -> Tier {
        let permille = u128::from(self.bytes) * 1000 / u128::from(self.cap.bytes.max(1));
        match permille {
            1000.. => Tier::Off,
            permille if permille >= u128::from(NEARLY) * 10 => Tier::Backup,
            _ => Tier::Primary,
        }
    }
}

/// Data volumes by the names of peer and path.
pub type Usages = BTreeMap<(String, String), PathUsage>;

/// Adds the data volumes of paths to statistics.
pub fn add_to(mut snapshot: Snapshot, usages: &Usages) -> Snapshot {
    for peer in &mut snapshot.peers {
        for path in &mut peer.paths {
            if let Some(usage) = usages.get(&(peer.name.clone(), path.name.clone())) {
                (path.cap_bytes, path.month_bytes) = (Some(usage.cap.bytes), Some(usage.bytes));
            }
        }
    }
    snapshot
}

/// Meter of the paths with a cap.
pub struct Meter {
    file: PathBuf,
    content: Content,
    /// Worker's counters at the last report, by the names of peer and path.
    seen: BTreeMap<(String, String), u64>,
    stored: Option<Instant>,
    is_changed: bool,
    /// Indicates whether the last attempt to store failed.
    has_failed: bool,
}

impl Meter {
    /// Returns a meter that continues with the volumes in the configured file.
    pub fn new(tunnel: &Tunnel) -> Self {
        let has_caps = caps(tunnel).next().is_some();
        let content = if has_caps { read(&tunnel.usage) } else { Content::default() };
        Self {
            file: tunnel.usage.clone(),
            content,
            seen: BTreeMap::new(),
            stored: None,
            is_changed: has_caps,
            has_failed: false,
        }
    }

    /// Adds what a worker has counted. `wall` is the time since 1970.
    pub fn add(&mut self, wall: Duration, tunnel: &Tunnel, snapshot: &Snapshot) {
        for (peer, path, cap) in caps(tunnel) {
            let found = snapshot.peers.iter().find(|known| known.name == peer);
            let found = found.and_then(|known| known.paths.iter().find(|known| known.name == path));
            let key = (peer.to_owned(), path.to_owned());
            let count = found.map_or(0, |path| path.volume.bytes);
            let before = self.seen.insert(key, count).unwrap_or(0);
            // A new worker, or a changed peer, counts from zero.
            let more = if count < before { count } else { count - before };
            let month = Month::of(wall, cap.day);
            let stored = self.entry(peer, path, month);
            // A machine without a battery-backed clock starts in 1970: an earlier month does not reset the count.
            if stored.month < month {
                (stored.month, stored.bytes) = (month, 0);
            }
            stored.bytes = stored.bytes.saturating_add(more);
            self.is_changed |= more > 0;
        }
    }

    fn entry(&mut self, peer: &str, path: &str, month: Month) -> &mut Stored {
        let paths = &mut self.content.paths;
        let place = paths.iter().position(|stored| stored.peer == peer && stored.path == path).unwrap_or_else(|| {
            paths.push(Stored { peer: peer.to_owned(), path: path.to_owned(), month, bytes: 0 });
            paths.len() - 1
        });
        &mut paths[place]
    }

    /// Returns the data volumes of the paths with a cap.
    pub fn usages(&self, tunnel: &Tunnel) -> Usages {
        let usage = |peer: &str, path: &str, cap| {
            let stored = self.content.paths.iter().find(|stored| stored.peer == peer && stored.path == path);
            PathUsage { cap, bytes: stored.map_or(0, |stored| stored.bytes) }
        };
        caps(tunnel).map(|(peer, path, cap)| ((peer.to_owned(), path.to_owned()), usage(peer, path, cap))).collect()
    }

    /// Stores the volumes, if they have changed and `now` is not shortly after the last time.
    pub fn store(&mut self, now: Instant) {
        let is_due = self.stored.is_none_or(|stored| now.saturating_duration_since(stored) >= STORE);
        if is_due && self.is_changed {
            self.stored = Some(now);
            self.store_now();
        }
    }

    /// Stores the volumes, if they have changed.
    pub fn store_now(&mut self) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        match write(&self.file, &self.content) {
            Ok(()) => self.has_failed = false,
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    let file = self.file.display();
                    tracing::error!(%file, %error, "cannot store the data volumes of paths; a restart would lose them");
                }
                self.is_changed = true;
            }
        }
    }
}

/// Returns the paths with a cap: names of peer and path, and the cap.
fn caps(tunnel: &Tunnel) -> impl Iterator<Item = (&str, &str, Cap)> {
    tunnel.peers.iter().flat_map(|peer| {
        peer.paths.iter().filter_map(|path| Some((peer.name.as_str(), path.name.as_deref()?, path.cap?)))
    })
}

/// Reads the file. A missing or damaged file yields no volumes.
fn read(file: &Path) -> Content {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Content::default(),
        Err(error) => {
            tracing::error!(file = %file.display(), %error, "cannot read the data volumes of paths; counting from zero");
            return Content::default();
        }
    };
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        tracing::error!(file = %file.display(), %error, "the data volumes of paths are damaged; counting from zero");
        Content::default()
    })
}

/// Replaces the file, so that a crash leaves the old or the new one.
fn write(file: &Path, content: &Content) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = file.with_extension("new");
    let mut to = File::create(&new)?;
    to.write_all(&serde_json::to_vec_pretty(content)?)?;
    to.sync_all()?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use lasthop_settings::tunnel::Tunnel;

    use super::*;
    use crate::daemon::snapshot::{Count, PathSnapshot, PeerSnapshot};

    const DAY: u64 = 86_400;

    fn month(days: u64, day: u8) -> (u16, u8) {
        let Month { year, month } = Month::of(Duration::from_secs(days * DAY + 86_399), day);
        (year, month)
    }

    /// Days since 1970, computed by `date -d DATE +%s`.
    #[test]
    fn months_by_the_calendar() {
        assert_eq!(month(0, 1), (1970, 1));
        assert_eq!([month(19_782, 1), month(19_783, 1)], [(2024, 2), (2024, 3)], "29 February, 1 March 2024");
        assert_eq!([month(20_453, 1), month(20_454, 1)], [(2025, 12), (2026, 1)]);
        assert_eq!([month(20_467, 15), month(20_468, 15)], [(2025, 12), (2026, 1)], "14 and 15 January 2026");
        assert_eq!([month(47_540, 1), month(47_541, 1)], [(2100, 2), (2100, 3)], "2100 is not a leap year");
    }

    fn tunnel(folder: &Path) -> Tunnel {
        let usage = folder.join("new/usage.json");
        let text = format!(
            "listen = '0.0.0.0:1'\nprivate_key_file = '/k'\nusage = '{}'\n[[peer]]\nname = 'hub'\n\
             public_key = '3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08='\nallowed = '10.0.0.0/8'\n\
             [[peer.path]]\nname = 'dish'\nrate = 'auto'\n\
             [[peer.path]]\nname = 'lte'\nrate = 'auto'\ncap = '10 MB/month'\ncap_day = 15\n",
            usage.display()
        );
        Tunnel::parse("t.toml", &text).unwrap()
    }

    fn snapshot(bytes: u64) -> Snapshot {
        let path = |name: &str| PathSnapshot {
            name: name.to_owned(),
            volume: Count { packets: 1, bytes },
            ..PathSnapshot::default()
        };
        let peer =
            PeerSnapshot { name: "hub".to_owned(), paths: vec![path("dish"), path("lte")], ..Default::default() };
        Snapshot { peers: vec![peer], ..Snapshot::default() }
    }

    fn used(meter: &Meter, tunnel: &Tunnel) -> (u64, Tier) {
        let usages = meter.usages(tunnel);
        assert_eq!(usages.len(), 1);
        let lte = usages[&("hub".to_owned(), "lte".to_owned())];
        (lte.bytes, lte.tier())
    }

    /// 5 MB, a new worker with 4 MB, a new supervisor with 0.9999999 MB more, a last byte, and the next month.
    #[test]
    fn a_cap_survives_restarts_and_ends_with_the_month() {
        let folder = tempfile::tempdir().unwrap();
        let tunnel = tunnel(folder.path());
        let january = Duration::from_secs(20_468 * DAY);
        let mut meter = Meter::new(&tunnel);
        meter.add(january, &tunnel, &snapshot(5_000_000));
        meter.add(january, &tunnel, &snapshot(3_999_999));
        assert_eq!(used(&meter, &tunnel), (8_999_999, Tier::Primary));
        meter.add(january, &tunnel, &snapshot(4_000_000));
        assert_eq!(used(&meter, &tunnel), (9_000_000, Tier::Backup));
        meter.store_now();

        let mut meter = Meter::new(&tunnel);
        meter.add(january, &tunnel, &snapshot(999_999));
        assert_eq!(used(&meter, &tunnel), (9_999_999, Tier::Backup));
        meter.add(january, &tunnel, &snapshot(1_000_000));
        assert_eq!(used(&meter, &tunnel), (10_000_000, Tier::Off));
        meter.add(Duration::ZERO, &tunnel, &snapshot(1_000_001));
        assert_eq!(used(&meter, &tunnel), (10_000_001, Tier::Off), "the clock is not set");
        meter.add(january + Duration::from_secs(31 * DAY), &tunnel, &snapshot(1_000_002));
        assert_eq!(used(&meter, &tunnel), (1, Tier::Primary));
    }

    #[test]
    fn a_damaged_file_counts_from_zero_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let tunnel = tunnel(folder.path());
        fs::create_dir_all(tunnel.usage.parent().unwrap()).unwrap();
        fs::write(&tunnel.usage, "{\"paths\": [").unwrap();
        let mut meter = Meter::new(&tunnel);
        meter.add(Duration::from_secs(20_468 * DAY), &tunnel, &snapshot(7));
        meter.store(Instant::now());
        assert_eq!(used(&Meter::new(&tunnel), &tunnel).0, 7);
    }
}
