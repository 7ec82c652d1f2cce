//! Names of network interfaces.

/// Whether the kernel takes `name` as that of one network interface, and firewall rules as no pattern.
///
/// # Errors
///
/// What is wrong with it.
pub fn check_interface_name(name: &str) -> Result<(), &'static str> {
    if !(1..=15).contains(&name.len()) {
        return Err("it is not 1 to 15 characters long");
    }
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '+' | '!' | '"' | '\'' | '\\');
    let named = name.chars().all(plain) && name != "." && name != ".." && !name.starts_with('-');
    if named { Ok(()) } else { Err("no interface is called that") }
}
