//! Names of network interfaces.

/// Checks that `name` is a valid name of a network interface for the kernel, and not a pattern in firewall rules.
///
/// # Errors
///
/// Returns the reason why it is invalid.
pub fn check_interface_name(name: &str) -> Result<(), &'static str> {
    if !(1..=15).contains(&name.len()) {
        return Err("it is not 1 to 15 characters long");
    }
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '+' | '!' | '"' | '\'' | '\\');
    let named = name.chars().all(plain) && name != "." && name != ".." && !name.starts_with('-');
    if named { Ok(()) } else { Err("it is not an interface name") }
}
