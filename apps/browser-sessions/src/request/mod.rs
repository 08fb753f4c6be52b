//! Requests of clients.
//!
//! Contract: a [`Job`] can be done: an invalid request was refused with a sentence that says what is expected.

pub mod steps;

use std::{fmt, net::IpAddr, str::FromStr};

use abide::server::AddressPolicy;
use serde::{Deserialize, Serialize, de};
use url::{Host, Url};

use self::steps::Step;
use crate::limits;

/// The size of a picture, such as `1920x1080`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Size {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (width, height) = text.split_once('x').ok_or(Invalid::Size)?;
        let side = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            let side = text.parse().ok().filter(|_| is_plain);
            side.filter(|side| (limits::MIN_SIDE..=limits::MAX_SIDE).contains(side))
                .ok_or(Invalid::Size)
        };
        let (width, height) = (side(width)?, side(height)?);
        if width * height > limits::MAX_PIXELS {
            return Err(Invalid::Size);
        }
        Ok(Self { width, height })
    }
}

impl Serialize for Size {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// What is made of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JPEG.
    #[default]
    Jpeg,
    /// PNG.
    Png,
    /// PDF: the page on paper.
    Pdf,
}

impl Format {
    /// Its name in the `DevTools` protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
            Self::Pdf => "pdf",
        }
    }

    /// How its files' names end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Png => "png",
            Self::Pdf => "pdf",
        }
    }

    /// The format of pictures that are taken on the way.
    #[must_use]
    pub fn of_pictures(self) -> Self {
        match self {
            Self::Jpeg | Self::Pdf => Self::Jpeg,
            Self::Png => Self::Png,
        }
    }

    /// The format of a file, from the end of its name.
    pub fn of_file(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        [Self::Jpeg, Self::Png, Self::Pdf]
            .into_iter()
            .find(|format| format.extension() == extension)
    }

    /// Its type in HTTP.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Pdf => "application/pdf",
        }
    }
}

/// The paper of a PDF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// 297 × 420 mm.
    A3,
    /// 210 × 297 mm.
    #[default]
    A4,
    /// 148 × 210 mm.
    A5,
    /// 8.5 × 11 inches.
    Letter,
    /// 8.5 × 14 inches.
    Legal,
}

impl Paper {
    /// Its width and height, upright.
    pub fn inches(self) -> (f64, f64) {
        let millimetres = |width: f64, height: f64| (width / 25.4, height / 25.4);
        match self {
            Self::A3 => millimetres(297.0, 420.0),
            Self::A4 => millimetres(210.0, 297.0),
            Self::A5 => millimetres(148.0, 210.0),
            Self::Letter => (8.5, 11.0),
            Self::Legal => (8.5, 14.0),
        }
    }
}

/// The body of a request for screenshots.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The page.
    pub url: String,
    /// The sizes of the pictures; if absent, [`limits::SIZES`], or the first of them for a PDF or with steps.
    pub sizes: Option<Vec<Size>>,
    /// How they are encoded.
    #[serde(default)]
    pub format: Format,
    /// Quality of a JPEG, 1 to 100.
    pub quality: Option<u8>,
    /// The wait between a load of the page and its picture, or its first step.
    #[serde(default)]
    pub delay_ms: u64,
    /// The paper of a PDF.
    pub paper: Option<Paper>,
    /// Whether a PDF's paper lies on its side.
    pub landscape: Option<bool>,
    /// What is done on the page before its picture.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The page.
    pub url: String,
    /// The sizes of its pictures, each once.
    pub sizes: Vec<Size>,
    /// How they are encoded.
    pub format: Format,
    /// Quality of a JPEG.
    pub quality: u8,
    /// The wait between a load of the page and its picture, or its first step.
    pub delay_millis: u64,
    /// The paper of a PDF.
    pub paper: Paper,
    /// Whether it lies on its side.
    pub is_landscape: bool,
    /// What is done on the page before its picture.
    pub steps: Vec<Step>,
}

impl Job {
    /// The names of its files, in the order in which they are made, with the size of the window.
    pub fn files(&self) -> Vec<(String, Size)> {
        let mut files = Vec::new();
        for size in &self.sizes {
            let extension = self.format.of_pictures().extension();
            for step in &self.steps {
                if let Step::Picture(name) = step {
                    files.push((format!("{name}_{size}.{extension}"), *size));
                }
            }
            let last = match self.format {
                Format::Pdf => "page.pdf".to_owned(),
                Format::Jpeg | Format::Png => format!("{}_{size}.{extension}", steps::FINAL),
            };
            files.push((last, *size));
        }
        files
    }
}

/// Why there is no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The address.
    #[error(
        "`url` is the full address of a page, such as `https://example.com/`, of at most {} bytes and without a user's name or password.",
        limits::MAX_URL_BYTES
    )]
    Url,
    /// One size.
    #[error(
        "a size is width and height in pixels, such as `1920x1080`, each {} to {}, and {} pixels in all at most",
        limits::MIN_SIDE,
        limits::MAX_SIDE,
        limits::MAX_PIXELS
    )]
    Size,
    /// The sizes.
    #[error(
        "`sizes` has 1 to {} sizes, each once; leave it out for the usual five.",
        limits::MAX_SIZES
    )]
    Sizes,
    /// More than one size.
    #[error(
        "A PDF, and pictures after `steps`, are made in one window: `sizes` has one size, or is left out."
    )]
    OneSize,
    /// The paper.
    #[error("`paper` and `landscape` are for `\"format\":\"pdf\"` only.")]
    Paper,
    /// The steps.
    #[error("{0}")]
    Steps(String),
    /// The quality.
    #[error("`quality` is a number from 1 to 100, for `\"format\":\"jpeg\"` only.")]
    Quality,
    /// The delay.
    #[error("`delay_ms` is at most {}.", limits::MAX_DELAY_MILLIS)]
    Delay,
    /// An address that pages may not have.
    #[error("The page cannot be opened: {0}.")]
    Forbidden(String),
}

impl Definition {
    /// The five usual pictures of a page.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            sizes: None,
            format: Format::default(),
            quality: None,
            delay_ms: 0,
            paper: None,
            landscape: None,
            steps: Vec::new(),
        }
    }

    /// The job, if it is valid. Names are not resolved here: the page's proxy does that.
    pub fn check(self, policy: &AddressPolicy) -> Result<Job, Invalid> {
        let url = address(&self.url, policy)?;
        let steps = steps::check(self.steps, policy)?;
        let has_one_size = self.format == Format::Pdf || !steps.is_empty();
        let mut usual = limits::SIZES
            .map(|(width, height)| Size { width, height })
            .to_vec();
        if has_one_size {
            usual.truncate(1);
        }
        let sizes = self.sizes.unwrap_or(usual);
        if has_one_size && sizes.len() > 1 {
            return Err(Invalid::OneSize);
        }
        let unlike = sizes
            .iter()
            .enumerate()
            .all(|(i, size)| !sizes[..i].contains(size));
        if !(1..=limits::MAX_SIZES).contains(&sizes.len()) || !unlike {
            return Err(Invalid::Sizes);
        }
        let quality = self.quality.unwrap_or(limits::QUALITY);
        if !(1..=100).contains(&quality) || (self.quality.is_some() && self.format != Format::Jpeg)
        {
            return Err(Invalid::Quality);
        }
        let has_paper = self.paper.is_some() || self.landscape.is_some();
        if has_paper && self.format != Format::Pdf {
            return Err(Invalid::Paper);
        }
        if self.delay_ms > limits::MAX_DELAY_MILLIS {
            return Err(Invalid::Delay);
        }
        Ok(Job {
            url,
            sizes,
            format: self.format,
            quality,
            delay_millis: self.delay_ms,
            paper: self.paper.unwrap_or_default(),
            is_landscape: self.landscape.unwrap_or(false),
            steps,
        })
    }
}

/// An address as browsers write it.
fn address(text: &str, policy: &AddressPolicy) -> Result<String, Invalid> {
    if text.len() > limits::MAX_URL_BYTES {
        return Err(Invalid::Url);
    }
    let url = Url::parse(text.trim()).map_err(|_| Invalid::Url)?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if !matches!(url.scheme(), "http" | "https")
        || has_user
        || url.as_str().len() > limits::MAX_URL_BYTES
    {
        return Err(Invalid::Url);
    }
    let literal: Option<IpAddr> = match url.host() {
        None => return Err(Invalid::Url),
        Some(Host::Domain(_)) => None,
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(address.into()),
    };
    if let Some(literal) = literal {
        // Before a browser is started for it.
        policy
            .check(literal)
            .map_err(|error| Invalid::Forbidden(error.to_string()))?;
    }
    Ok(url.into())
}

/// True for a name that a session can have.
pub fn is_session(name: &str) -> bool {
    (1..=limits::MAX_SESSION).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

#[cfg(test)]
mod tests {
    use abide::server::AllowPrivate;
    use serde_json::{Value, json};

    use super::*;

    fn check(value: Value) -> Result<Job, String> {
        let definition: Definition =
            serde_json::from_value(value).map_err(|error| error.to_string())?;
        let policy = AddressPolicy::new(AllowPrivate::None);
        definition.check(&policy).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_alone_is_five_pictures() {
        let job = check(json!({ "url": "HTTPS://Example.com" })).expect("a job");
        assert_eq!(job.url, "https://example.com/");
        let sizes: Vec<String> = job.sizes.iter().map(Size::to_string).collect();
        assert_eq!(
            sizes,
            ["1920x1080", "1366x768", "1536x864", "360x640", "414x896"]
        );
        assert_eq!((job.format, job.quality), (Format::Jpeg, limits::QUALITY));
    }

    #[test]
    fn addresses_that_are_no_public_pages_are_refused() {
        for url in [
            "",
            "example.com",
            "file:///etc/passwd",
            "chrome://version",
            "ftp://example.com/",
            "data:text/html,x",
            "javascript:alert(1)",
            "view-source:https://example.com/",
            "https://ada@example.com/",
            "https://:secret@example.com/",
            "https://",
        ] {
            assert_eq!(
                check(json!({ "url": url })),
                Err(Invalid::Url.to_string()),
                "{url}"
            );
        }
        for url in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[64:ff9b::a00:1]/",
        ] {
            let error = check(json!({ "url": url })).expect_err(url);
            assert!(error.contains("outbound.allow_private"), "{url}: {error}");
        }
    }

    #[test]
    fn sizes_and_numbers_out_of_bounds_are_refused() {
        let url = "https://example.com/";
        for size in [
            "",
            "x",
            "99x100",
            "100x3841",
            "3840x2161",
            "+200x200",
            "200X200",
            "200x200x200",
        ] {
            assert!(
                check(json!({ "url": url, "sizes": [size] })).is_err(),
                "{size}"
            );
        }
        assert!(check(json!({ "url": url, "sizes": [] })).is_err());
        assert!(check(json!({ "url": url, "sizes": ["200x200", "200x200"] })).is_err());
        let many: Vec<String> = (100..111).map(|side| format!("{side}x200")).collect();
        assert!(check(json!({ "url": url, "sizes": many })).is_err());
        assert!(check(json!({ "url": url, "quality": 0 })).is_err());
        assert!(check(json!({ "url": url, "quality": 101 })).is_err());
        assert!(check(json!({ "url": url, "quality": 50, "format": "png" })).is_err());
        assert!(check(json!({ "url": url, "delay_ms": 10_001 })).is_err());
        assert!(check(json!({ "url": url, "dealy_ms": 1 })).is_err());
    }

    #[test]
    fn steps_out_of_bounds_are_refused_with_their_number() {
        let with = |steps: Value| check(json!({ "url": "https://example.com/", "steps": steps }));
        let job =
            with(json!([{ "goto": "HTTPS://Example.org" }, { "picture": "a" }])).expect("a job");
        assert_eq!(job.steps[0], Step::Goto("https://example.org/".to_owned()));
        let files: Vec<String> = job.files().into_iter().map(|(file, _)| file).collect();
        assert_eq!(files, ["a_1920x1080.jpg", "screenshot_1920x1080.jpg"]);
        let long = "x".repeat(limits::MAX_TYPED + 1);
        for step in [
            json!({ "goto": "file:///etc/passwd" }),
            json!({ "click": "" }),
            json!({ "wait_for": "x".repeat(limits::MAX_SELECTOR + 1) }),
            json!({ "type": { "into": " ", "text": "x" } }),
            json!({ "type": { "into": "#a", "text": "" } }),
            json!({ "type": { "into": "#a", "text": long } }),
            json!({ "picture": "screenshot" }),
            json!({ "picture": "../x" }),
            json!({ "picture": "first" }),
        ] {
            let error = with(json!([{ "picture": "first" }, step])).expect_err("a refusal");
            assert!(error.starts_with("Step 2: "), "{step}: {error}");
        }
        let many =
            |count: usize, step: &dyn Fn(usize) -> Value| with((0..count).map(step).collect());
        let click = |_| json!({ "click": "#a" });
        assert!(many(limits::MAX_STEPS, &click).is_ok());
        assert!(many(limits::MAX_STEPS + 1, &click).is_err());
        let picture = |number| json!({ "picture": format!("p{number}") });
        assert!(many(limits::MAX_STEP_PICTURES, &picture).is_ok());
        assert!(many(limits::MAX_STEP_PICTURES + 1, &picture).is_err());
    }
}
