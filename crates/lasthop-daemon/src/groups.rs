//! Group whose users may use a daemon's control socket.

use std::os::unix::fs::chown;
use std::path::Path;

use crate::finding::{Finding, Outcome};
use lasthop_settings::reading::Group;

/// File with the numbers of groups.
const GROUPS: &str = "/etc/group";

/// Reason why a group cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The group does not exist.
    #[error("control_group: no group \"{name}\" in {GROUPS}; create it, or give its number")]
    Unknown {
        /// Name of the group.
        name: String,
    },
    /// The group of the socket cannot be changed.
    #[error("control_group: cannot set the socket's group to {group}: {error}{}", hint(.error))]
    Give {
        /// The group.
        group: Group,
        /// Error returned by the operating system.
        error: std::io::Error,
    },
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => "; this requires CAP_CHOWN or membership in the group",
        _ => "",
    }
}

/// Sets the group of `path`.
pub fn give(path: &Path, group: &Group) -> Result<(), GroupError> {
    chown(path, None, Some(number(group)?)).map_err(|error| GroupError::Give { group: group.clone(), error })
}

/// Checks whether the group exists.
pub fn check(group: &Group) -> Finding {
    let subject = format!("control_group {group}");
    match number(group) {
        Ok(number) => Finding::new(subject, Outcome::Ok, format!("its members have access (GID {number})")),
        Err(error) => Finding::new(subject, Outcome::Missing, error.to_string()),
    }
}

fn number(group: &Group) -> Result<u32, GroupError> {
    match group {
        Group::Numbered(number) => Ok(*number),
        Group::Named(name) => {
            let known = std::fs::read_to_string(GROUPS).unwrap_or_default();
            find(&known, name).ok_or_else(|| GroupError::Unknown { name: name.clone() })
        }
    }
}

/// Returns the number of a named group from the text of a `group(5)` file.
fn find(text: &str, name: &str) -> Option<u32> {
    let mut groups = text.lines().map(|line| line.split(':'));
    groups.find_map(|mut fields| (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_name() {
        let text = "root:x:0:\n\ngarbage\nnetdev-x:x:7:me\nnetdev:x:108:me,you\nbroken:x:many:\n";
        assert_eq!(find(text, "netdev"), Some(108));
        assert_eq!(find(text, "root"), Some(0));
        for name in ["net", "garbage", "broken", "x", ""] {
            assert_eq!(find(text, name), None, "{name}");
        }
    }

    #[test]
    fn what_is_unknown_is_said() {
        let group = Group::Named("lasthop-nobody-has-this".to_owned());
        let expected =
            "control_group: no group \"lasthop-nobody-has-this\" in /etc/group; create it, or give its number";
        assert_eq!(give(Path::new("/"), &group).unwrap_err().to_string(), expected);
        assert_eq!(check(&group).outcome, Outcome::Missing);
        assert_eq!(check(&Group::Numbered(65_000)).outcome, Outcome::Ok);
    }
}
