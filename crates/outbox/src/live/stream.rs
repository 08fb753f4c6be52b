//! Turbo Streams: actions of a page, as Turbo's own script understands them
//! (<https://turbo.hotwired.dev/reference/streams>).

use maud::{PreEscaped, html};

/// What a page does with the content of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Prepends it to the target, and removes an element with the same id there.
    Prepend,
    /// Morphs the target into it: unchanged parts stay, and keep the focus.
    Morph,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::Prepend => "prepend",
            Self::Morph => "replace",
        }
    }

    fn method(self) -> Option<&'static str> {
        (self == Self::Morph).then_some("morph")
    }
}

/// HTML for the element with this id. A page without such an element does nothing.
pub fn stream(action: Action, target: &str, content: &str) -> String {
    html! {
        turbo-stream action=(action.as_str()) method=[action.method()] target=(target) {
            template { (PreEscaped(content)) }
        }
    }
    .into_string()
}

/// Removes every element that a CSS selector finds.
pub fn remove(selector: &str) -> String {
    html! { turbo-stream action="remove" targets=(selector) {} }.into_string()
}

/// Has the page fetch itself again and morph into the result.
pub fn refresh() -> String {
    html! { turbo-stream action="refresh" {} }.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_a_target_is_escaped_and_html_is_not() {
        assert_eq!(
            stream(Action::Morph, "a\"b", "<i>&amp;</i>"),
            "<turbo-stream action=\"replace\" method=\"morph\" target=\"a&quot;b\"><template><i>&amp;</i></template></turbo-stream>"
        );
        assert_eq!(
            remove("#rows > :nth-child(n+3)"),
            "<turbo-stream action=\"remove\" targets=\"#rows &gt; :nth-child(n+3)\"></turbo-stream>"
        );
    }
}
