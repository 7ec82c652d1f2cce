//! CUBIC in two arithmetics that share only the curve: [`Linux`], integer for integer as in kernels, and [`Rfc9438`],
//! as written in the RFC.

mod linux;
mod rfc9438;

use alloc::boxed::Box;

use self::linux::Linux;
use self::rfc9438::Rfc9438;
use super::algorithm::Algorithm;
use super::hystart::HystartRule;

/// CUBIC in Linux's integers.
pub static CUBIC: Algorithm = Algorithm {
    name: "cubic",
    title: "CUBIC",
    about: "Linux's integer arithmetic",
    family: "cubic",
    kernel_name: Some("cubic"),
    paces: false,
    scalable: false,
    hystart: Some(HystartRule::Linux),
    build: |start, hystart| Box::new(Linux::new(start, hystart)),
};

/// CUBIC as written in RFC 9438.
pub static CUBIC_RFC9438: Algorithm = Algorithm {
    name: "cubic-rfc9438",
    title: "CUBIC of RFC 9438",
    about: "",
    family: "cubic",
    kernel_name: Some("cubic"),
    paces: false,
    scalable: false,
    hystart: Some(HystartRule::Rfc9406),
    build: |start, hystart| Box::new(Rfc9438::new(start, hystart)),
};

/// Returns the largest integer whose cube is at most `x`, digit by digit from the top.
pub(crate) fn cube_root(x: u128) -> u64 {
    let mut root = 0_u64;
    for bit in (0..42).rev() {
        let candidate = u128::from(root | 1 << bit);
        if candidate * candidate * candidate <= x {
            root |= 1 << bit;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::cube_root;

    #[test]
    fn cube_roots_are_exact() {
        for n in (0..5000_u64).chain([1 << 20, (1 << 21) - 1, 1 << 30, 1 << 40, (1 << 42) - 1]) {
            let cube = u128::from(n).pow(3);
            assert_eq!(cube_root(cube), n);
            assert_eq!(
                cube_root(cube + 3 * u128::from(n) * u128::from(n) + 3 * u128::from(n)),
                n,
                "just below the next"
            );
        }
    }
}
