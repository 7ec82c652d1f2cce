//! The macro that declares keys.
//!
//! Crates with keys include this file as a module. The compiler does not report unused constants that an imported macro
//! declares, and a key that nothing reads must be reported.

/// Declares tables of keys: for each key a constant, by which the reader accesses it, and the row of the
/// documentation. An undeclared key does not compile, and a key that is declared but never read causes a warning.
///
/// ```text
/// keys! {
///     /// Keys of a shelf.
///     pub(crate) ShelfKeys {
///         /// required | name of the shelf
///         name;
///         /// {} | width; height
///         width: Whole<1, 9> = Whole(3), height: Whole<1, 9> = Whole(2);
///         /// {} | netem's name
///         rare as "1-h": Fraction = Fraction::ONE;
///         hidden;
///     }
/// }
/// ```
///
/// A comment is the rest of a row of the table in `docs/`; `{}` stands for the defaults of the row's keys. Keys without
/// a comment have no row. `ShelfKeys::width` is the key, [`Reader::value`](lasthop_settings::reader::Reader::value)
/// reads it with its default, `ShelfKeys::NAMES` has all names for `Reader::allow`, and `ShelfKeys::ROWS` the rows.
macro_rules! keys {
    ($($(#[doc = $about:literal])* $vis:vis $table:ident { $(
        $(#[doc = $text:literal])*
        $($name:ident $(as $spelt:literal)? $(: $type:ty = $default:expr)?),+;
    )* })+) => {$(
        $(#[doc = $about])*
        #[derive(Debug)]
        $vis struct $table;

        // Not every table needs both constants; values may have types of the module.
        #[allow(non_upper_case_globals, private_interfaces)]
        impl $table {
            $($(
                #[doc = concat!("Key `", keys!(@spelt $name $($spelt)?), "`.")]
                pub(crate) const $name: keys!(@key $($type)?) =
                    lasthop_settings::key::Key::new(keys!(@spelt $name $($spelt)?), || keys!(@default $($default)?));
            )+)*

            /// Names of all keys.
            #[allow(dead_code)]
            $vis const NAMES: &[&str] = &[$($(keys!(@spelt $name $($spelt)?)),+),*];

            /// Rows of the documentation.
            #[allow(dead_code)]
            $vis const ROWS: &[lasthop_settings::key::Row] = &[$(lasthop_settings::key::Row {
                names: &[$(keys!(@spelt $name $($spelt)?)),+],
                text: concat!($($text),*),
                defaults: || vec![$($(keys!(@shown $type; $default),)?)+],
            }),*];
        }
    )+};
    (@spelt $name:ident) => { stringify!($name) };
    (@spelt $name:ident $spelt:literal) => { $spelt };
    (@key) => { lasthop_settings::key::Key };
    (@key $type:ty) => { lasthop_settings::key::Key<$type> };
    (@default) => { () };
    (@default $default:expr) => { $default };
    (@shown $type:ty; $default:expr) => { <$type as lasthop_settings::reader::Value>::show(&$default) };
}

/// Returns the names of some keys of a table, as a constant.
#[allow(unused_macros)]
macro_rules! key_names {
    ($table:ident: $($name:ident),+) => {{
        const NAMES: &[&str] = &[$($table::$name.name()),+];
        NAMES
    }};
}
