//! Paths as an origin may read them.
//!
//! One page has many paths: `/shop`, `/%73hop`, `//shop`, `/x/../shop`, `/shop;v=1`. Which of them an origin takes for the same is its
//! business, so a room must not be avoided by any of them.

use percent_encoding::percent_decode_str;

/// A path without percent-encoding, empty segments, dot segments and the parameters of segments.
pub(super) fn plain(path: &str) -> String {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let mut segments = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
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
        ] {
            assert_eq!(plain(path), "/shop/cart", "{path}");
        }
        assert_eq!(plain("/"), "/");
        assert_eq!(plain("*"), "/*");
        assert_eq!(plain("/%ff%"), "/\u{fffd}%");
    }
}
