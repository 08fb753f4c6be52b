//! How a store is reached: its options and secrets.

use std::{collections::BTreeMap, fs, str::FromStr, sync::Arc};

use object_store::{
    ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    client::HttpConnector,
    gcp::{GoogleCloudStorageBuilder, GoogleConfigKey},
    local::LocalFileSystem,
    path::Path,
    prefix::PrefixStore,
};

use crate::{Error, Location, location::Kind};

/// The options of a store, by the names that `object_store` gives them: `region`, `endpoint`, `allow_http`, `access_key_id`,
/// `secret_access_key`, `account_name`, `service_account` and others. What is not given comes from the environment
/// (`AWS_ACCESS_KEY_ID` and others that are common) or from the machine that the program runs on.
///
/// An option with `_file` at the end of its name is the path of a file with the value: `secret_access_key_file`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    options: BTreeMap<String, String>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Values may be secret.
        f.debug_set().entries(self.options.keys()).finish()
    }
}

impl Access {
    /// What the environment gives.
    pub fn from_env() -> Self {
        Self::default()
    }

    /// Sets an option.
    #[must_use]
    pub fn option(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name: String = name.into();
        self.options.insert(name.to_ascii_lowercase(), value.into());
        self
    }

    pub(crate) fn open(
        &self,
        location: &Location,
        connector: impl HttpConnector,
    ) -> Result<Arc<dyn ObjectStore>, Error> {
        // The caller repeats a request, and counts each.
        let retry = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let wrong = |error: object_store::Error| {
            Error::Configuration(format!("the options of {location} do not suffice: {error}"))
        };
        let bucket = &location.bucket;
        let store: Arc<dyn ObjectStore> = match location.kind {
            Kind::Amazon => {
                let mut builder = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    // Not every compatible service has it.
                    .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
                    .with_retry(retry)
                    .with_http_connector(connector);
                for (key, value) in self.read::<AmazonS3ConfigKey>()? {
                    builder = builder.with_config(key, value);
                }
                Arc::new(builder.build().map_err(wrong)?)
            }
            Kind::Google => {
                let mut builder = GoogleCloudStorageBuilder::from_env()
                    .with_bucket_name(bucket)
                    .with_retry(retry)
                    .with_http_connector(connector);
                for (key, value) in self.read::<GoogleConfigKey>()? {
                    builder = builder.with_config(key, value);
                }
                Arc::new(builder.build().map_err(wrong)?)
            }
            Kind::Azure => {
                let mut builder = MicrosoftAzureBuilder::from_env()
                    .with_container_name(bucket)
                    .with_retry(retry)
                    .with_http_connector(connector);
                for (key, value) in self.read::<AzureConfigKey>()? {
                    builder = builder.with_config(key, value);
                }
                Arc::new(builder.build().map_err(wrong)?)
            }
            Kind::Directory => {
                if let Some(name) = self.options.keys().next() {
                    let text = format!("a directory has no options, and \"{name}\" is given");
                    return Err(Error::Configuration(text));
                }
                let directory = std::path::Path::new(&location.prefix);
                // Not created: it may be a disk that is not mounted.
                if !directory.is_dir() {
                    return Err(Error::Configuration(format!(
                        "there is no directory {}: create it, or mount its disk",
                        location.prefix
                    )));
                }
                let store = LocalFileSystem::new_with_prefix(directory).map_err(wrong)?;
                return Ok(Arc::new(store.with_fsync(true)));
            }
        };
        if location.prefix.is_empty() {
            return Ok(store);
        }
        let prefix = Path::parse(&location.prefix);
        let prefix = prefix.map_err(|error| Error::Configuration(error.to_string()))?;
        Ok(Arc::new(PrefixStore::new(store, prefix)))
    }

    /// The options as a service knows them.
    fn read<K: FromStr>(&self) -> Result<Vec<(K, String)>, Error> {
        let known = self.options.iter().map(|(name, value)| {
            if let Ok(key) = name.parse() {
                return Ok((key, value.clone()));
            }
            let of_file = name.strip_suffix("_file").map(K::from_str);
            let Some(Ok(key)) = of_file else {
                let text = format!("the store has no option \"{name}\"");
                return Err(Error::Configuration(text));
            };
            let text = fs::read_to_string(value).map_err(|error| {
                Error::Configuration(format!("{name}: {value} cannot be read: {error}"))
            })?;
            Ok((key, text.trim_end_matches(['\r', '\n']).to_owned()))
        });
        known.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_comes_from_a_file_without_its_newline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        fs::write(&path, "s3cret\n").unwrap();
        let path = path.to_str().unwrap();
        let access = Access::default()
            .option("Region", "eu")
            .option("secret_access_key_file", path)
            .option("web_identity_token_file", "/token");
        let options = access.read::<AmazonS3ConfigKey>().unwrap();
        assert!(options.contains(&(AmazonS3ConfigKey::Region, "eu".to_owned())));
        let secret = (AmazonS3ConfigKey::SecretAccessKey, "s3cret".to_owned());
        assert!(options.contains(&secret));
        let token = (AmazonS3ConfigKey::WebIdentityTokenFile, "/token".to_owned());
        assert!(
            options.contains(&token),
            "an option of that name is no file"
        );
        assert!(!format!("{access:?}").contains("eu"));
    }

    #[test]
    fn an_unknown_option_and_a_missing_file_are_named() {
        let read = |name: &str, value: &str| {
            let access = Access::default().option(name, value);
            let error = access.read::<AmazonS3ConfigKey>().err().unwrap();
            error.to_string()
        };
        assert!(read("regoin", "eu").contains("\"regoin\""));
        assert!(read("token_file", "/no/file").contains("/no/file"));
    }
}
