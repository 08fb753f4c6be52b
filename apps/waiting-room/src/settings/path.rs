//! Paths as an origin may read them.
//!
//! One page has many paths: `/shop`, `/%73hop`, `//shop`, `/x/../shop`, `/shop;v=1`, `/SHOP`, `/shop.`. Which of them an origin takes for
//! the same is its business, so a room must not be avoided by any of them.

use percent_encoding::percent_decode_str;

/// Whether an origin takes paths that differ only in case for different pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathCase {
    /// They may be the same page.
    #[default]
    Ignored,
    /// They are different pages.
    Distinguished,
}

impl PathCase {
    fn fold(self, path: &str) -> String {
        match self {
            // Some letters, such as the long s, are ASCII letters only in upper case.
            Self::Ignored => path.to_uppercase().to_lowercase(),
            Self::Distinguished => path.to_owned(),
        }
    }
}

/// True for `/shop` and `/shop/cart`, if `above` is `/shop`; not for `/shopping`.
pub(super) fn is_below(above: &str, path: &str) -> bool {
    let above = above.trim_end_matches('/');
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path is below another as it was sent, or in any way in which an origin may read it.
pub(super) fn may_be_below(above: &str, path: &str, case: PathCase) -> bool {
    let above_read = case.fold(&plain(above));
    is_below(&case.fold(above), &case.fold(path))
        || readings(path).any(|read| is_below(&above_read, &case.fold(&read)))
}

/// Whether a path is below another as it was sent, and in every way in which an origin may read it.
pub(super) fn must_be_below(above: &str, path: &str) -> bool {
    let above_read = plain(above);
    is_below(above, path) && readings(path).all(|read| is_below(&above_read, &read))
}

/// A path as origins read it that decode it once, and twice.
fn readings(path: &str) -> impl Iterator<Item = String> {
    let twice = percent_decode_str(path).decode_utf8_lossy().into_owned();
    [plain(path), plain(&twice)].into_iter()
}

/// A path without percent-encoding, empty segments, dot segments, the parameters of segments, and what some systems ignore at the end of
/// a name: dots and blanks.
fn plain(path: &str) -> String {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let mut segments = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        let name = segment.split([';', '?', '#']).next().unwrap_or_default();
        let name: String = name.chars().filter(|c| !c.is_control()).collect();
        match name.trim() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => {
                let name = name.trim_end_matches(|c: char| c == '.' || c.is_whitespace());
                segments.extend(Some(name.to_owned()).filter(|name| !name.is_empty()));
            }
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_plain_however_it_is_written() {
        for path in [
            "/shop/cart",
            "/%73hop/cart",
            "//shop///cart/",
            "/./x/../shop/cart",
            "/x/%2e%2E/shop/cart",
            "/x%2F..%2fshop%2Fcart",
            "/../../shop/cart",
            "/shop;v=1/cart;jsessionid=2",
            "\\shop\\cart",
            "/shop./cart%20",
            "/shop%00/cart%3Fx",
            "/x/..%09/shop/cart",
        ] {
            assert_eq!(plain(path), "/shop/cart", "{path}");
        }
        assert_eq!(plain("/"), "/");
        assert_eq!(plain("*"), "/*");
        assert_eq!(plain("/%ff%"), "/\u{fffd}%");
    }

    #[test]
    fn a_room_covers_each_spelling_that_an_origin_may_accept() {
        for path in [
            "/SHOP",
            "/Shop/cart",
            "/%53hop",
            "/\u{17f}hop",
            "/%c5%bfhop",
            "/shop.",
            "/shop%20",
            "/shop%00",
            "/%252e/shop",
            "/%2573hop",
            "/shop%3f",
        ] {
            assert!(may_be_below("/shop", path, PathCase::Ignored), "{path}");
        }
        assert!(may_be_below("/Shop", "/shop", PathCase::Ignored));
        assert!(!may_be_below("/shop", "/shopping", PathCase::Ignored));
        assert!(!may_be_below("/shop", "/SHOP", PathCase::Distinguished));
    }

    #[test]
    fn a_bypass_holds_for_no_path_that_may_be_another() {
        assert!(must_be_below("/shop/health", "/shop/health/live"));
        for path in [
            "/shop/health/../cart",
            "/shop/health/%2e%2e/cart",
            "/shop/health/%252e%252e/cart",
            "/shop/health/..;/cart",
            "/shop/health/.%00./cart",
            "/shop/health/.%09./cart",
            "/shop/health/..%20/cart",
            "/shop/health/x%3f/../../cart",
            "/shop/health%2f..%2fcart",
        ] {
            assert!(!must_be_below("/shop/health", path), "{path}");
        }
    }
}
