//! The link to the controller, as a picture for the phone's camera.

use qrcode::{QrCode, render::svg};
use url::Url;

use crate::Code;

/// The controller's address for a code, on a site such as `https://games.example.com`. None if that is no site.
pub(crate) fn link(origin: &str, code: Code) -> Option<String> {
    let site = Url::parse(origin).ok()?;
    let is_site =
        matches!(site.scheme(), "http" | "https") && site.origin().ascii_serialization() == origin;
    is_site.then(|| format!("{origin}/play/{code}"))
}

/// A link as a picture: black on white, as cameras like it.
pub(crate) fn picture(link: &str) -> Option<String> {
    let code = QrCode::new(link).ok()?;
    Some(
        code.render::<svg::Color<'_>>()
            .min_dimensions(240, 240)
            .build(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_site_has_a_link() {
        let code = "A2ZY".parse().expect("a code");
        assert_eq!(
            link("https://games.example.com:8443", code).as_deref(),
            Some("https://games.example.com:8443/play/A2ZY")
        );
        for bad in [
            "",
            "games",
            "javascript:1",
            "https://a.example/path",
            "https://u@a.example",
        ] {
            assert_eq!(link(bad, code), None, "{bad}");
        }
        assert!(
            picture("https://games.example.com/play/A2ZY").is_some_and(|svg| svg.contains("<svg"))
        );
    }
}
