//! Where copies are.

use std::{fmt, str::FromStr};

use url::Url;

use crate::Error;

/// The URL of a place for copies: `s3://BUCKET/PREFIX` (S3 and compatible services), `gs://BUCKET/PREFIX` (Google),
/// `az://CONTAINER/PREFIX` (Azure), or `file:///DIRECTORY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub(crate) kind: Kind,
    /// Of a bucket or a container.
    pub(crate) bucket: String,
    /// What keys begin with, or the path of the directory.
    pub(crate) prefix: String,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Amazon,
    Google,
    Azure,
    Directory,
}

impl FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::Configuration(format!(
                "\"{text}\" {why}; a history is at s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or \
                 file:///DIRECTORY"
            ))
        };
        let url = Url::parse(text).map_err(|error| wrong(&format!("is not a URL ({error})")))?;
        let kind = match url.scheme() {
            "s3" => Kind::Amazon,
            "gs" => Kind::Google,
            "az" => Kind::Azure,
            "file" => Kind::Directory,
            _ => return Err(wrong("names no service that is known")),
        };
        if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
            return Err(wrong("has more than a bucket before its path"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("has a query"));
        }
        let bucket = url.host_str().unwrap_or_default().to_owned();
        let prefix = if kind == Kind::Directory {
            if !bucket.is_empty() {
                return Err(wrong("names a machine; a directory has three slashes"));
            }
            let path = url.to_file_path().map_err(|()| wrong("is not a path"))?;
            let path = path.into_os_string().into_string();
            path.map_err(|_| wrong("is not UTF-8"))?
        } else {
            if bucket.is_empty() {
                return Err(wrong("names no bucket"));
            }
            let path = object_store::path::Path::from_url_path(url.path());
            path.map_err(|error| wrong(&format!("has a wrong prefix ({error})")))?
                .to_string()
        };
        Ok(Self {
            kind,
            bucket,
            prefix,
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_has_a_service_a_bucket_and_a_prefix() {
        let at = |text: &str| text.parse::<Location>().unwrap();
        let location = at("s3://backups/nodes/1/");
        assert_eq!(location.kind, Kind::Amazon);
        assert_eq!(
            (&*location.bucket, &*location.prefix),
            ("backups", "nodes/1")
        );
        assert_eq!(at("gs://b").kind, Kind::Google);
        assert_eq!(at("az://c/p").kind, Kind::Azure);
        assert_eq!(at("file:///var/back%20up").prefix, "/var/back up");
    }

    #[test]
    fn a_wrong_location_is_refused_with_the_right_forms() {
        for wrong in [
            "backups",
            "s3:///prefix",
            "http://bucket/prefix",
            "s3://bucket:80/prefix",
            "s3://key:secret@bucket/prefix",
            "s3://bucket/prefix?region=x",
            "file://machine/dir",
        ] {
            let error = wrong.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains("file:///DIRECTORY"), "{wrong}: {error}");
        }
    }
}
