//! What a client asks for.
//!
//! Contract: a [`Job`] can be done: what makes no sense was refused with a sentence that says what would.

use std::{fmt, net::IpAddr, str::FromStr};

use abide::server::AddressPolicy;
use serde::{Deserialize, Serialize, de};
use url::{Host, Url};

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

/// How a picture is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JPEG.
    #[default]
    Jpeg,
    /// PNG.
    Png,
}

impl Format {
    /// Its name in the `DevTools` protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
        }
    }

    /// How its files' names end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Png => "png",
        }
    }

    /// Its type in HTTP.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
        }
    }
}

/// The body of a request for screenshots.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The page.
    pub url: String,
    /// The sizes of the pictures; [`limits::SIZES`] if absent.
    pub sizes: Option<Vec<Size>>,
    /// How they are encoded.
    #[serde(default)]
    pub format: Format,
    /// Quality of a JPEG, 1 to 100.
    pub quality: Option<u8>,
    /// The wait between the page's load and its pictures.
    #[serde(default)]
    pub delay_ms: u64,
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
    /// The wait between the page's load and its pictures.
    pub delay_millis: u64,
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
        }
    }

    /// The job, if it makes sense. Names are not resolved here: that is the page's proxy's business.
    pub fn check(self, policy: &AddressPolicy) -> Result<Job, Invalid> {
        let url = address(&self.url, policy)?;
        let sizes = match self.sizes {
            Some(sizes) => sizes,
            None => limits::SIZES
                .map(|(width, height)| Size { width, height })
                .into(),
        };
        let unlike = sizes
            .iter()
            .enumerate()
            .all(|(i, size)| !sizes[..i].contains(size));
        if !(1..=limits::MAX_SIZES).contains(&sizes.len()) || !unlike {
            return Err(Invalid::Sizes);
        }
        let quality = self.quality.unwrap_or(limits::QUALITY);
        if !(1..=100).contains(&quality) || (self.quality.is_some() && self.format == Format::Png) {
            return Err(Invalid::Quality);
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
}
