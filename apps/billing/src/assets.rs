//! The static files of the pages.

use std::sync::LazyLock;

use abide::server::Asset;

/// How the pages look.
pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::style("style", include_str!("assets/style.css")));

#[cfg(test)]
mod tests {
    type Color = [f64; 3];

    /// Least contrast of text: WCAG 2.2, success criterion 1.4.3.
    const LEAST: f64 = 4.5;

    /// The colors of a scheme.
    fn color(scheme: &str, name: &str) -> Color {
        let (_, rest) = scheme.split_once(&format!("--{name}: #")).unwrap();
        let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
        let digits = match digits.len() {
            3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
            _ => digits,
        };
        let part = |at| f64::from(u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
        [part(0), part(2), part(4)]
    }

    fn mixed(front: Color, back: Color, share: f64) -> Color {
        std::array::from_fn(|part| front[part] * share + back[part] * (1.0 - share))
    }

    fn luminance(color: Color) -> f64 {
        let [red, green, blue] = color.map(|part| {
            let part = part / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(a: Color, b: Color) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn the_colors_of_states_are_readable_in_both_schemes() {
        let style = include_str!("assets/style.css");
        let (light, dark) = style.split_once("prefers-color-scheme: dark").unwrap();
        for scheme in [light, dark] {
            // A row of a list under the pointer: less contrast than anywhere else.
            let row = mixed(color(scheme, "brand"), color(scheme, "card"), 0.04);
            for state in ["good", "trial", "wait", "bad", "idle"] {
                let text = color(scheme, state);
                let pill = contrast(text, mixed(text, row, 0.11));
                assert!(pill >= LEAST, "{state}: {pill}");
            }
            let soft = contrast(color(scheme, "soft"), color(scheme, "ground"));
            assert!(soft >= LEAST, "soft: {soft}");
        }
    }
}
