//! The key-value calls: one reserved table and prepared statements, in the same transaction as SQL.

use crate::database::ObjectDb;
use crate::error::{Error, Result};
use crate::limits::{MAX_KEY_BYTES, MAX_RESULT_BYTES};
use abide_macros::Setters;

/// Which keys [`ObjectDb::kv_list`] returns. Keys are ordered by their UTF-8 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Setters)]
#[non_exhaustive]
pub struct ListOptions {
    /// Only keys with this prefix.
    #[setters(into)]
    pub prefix: Option<String>,
    /// Only keys from this one on.
    #[setters(into)]
    pub start: Option<String>,
    /// Only keys after this one.
    #[setters(into)]
    pub start_after: Option<String>,
    /// Only keys before this one.
    #[setters(into)]
    pub end: Option<String>,
    /// From the last key to the first.
    pub reverse: bool,
    /// The maximum number of keys.
    #[setters(into)]
    pub limit: Option<usize>,
}

fn check_key(key: &str) -> Result<()> {
    if key.len() > MAX_KEY_BYTES {
        return Err(Error::limit(format!(
            "the key has {} bytes, but the limit is {MAX_KEY_BYTES}",
            key.len()
        )));
    }
    Ok(())
}

impl ObjectDb {
    /// The value of a key.
    pub fn kv_get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        check_key(key)?;
        self.internal_row(
            "SELECT value FROM _abide_kv WHERE key = ?1/*abide*/",
            [key],
            |row| row.get(0),
        )
    }

    /// Sets the value of a key.
    pub fn kv_put(&self, key: &str, value: &[u8]) -> Result<()> {
        check_key(key)?;
        let most = self.sql_limits().value_bytes;
        if value.len() > most {
            return Err(Error::limit(format!(
                "the value of {key:?} has {} bytes, but the limit is {most} (storage.max_value_bytes)",
                value.len()
            )));
        }
        self.begin()?;
        let sql = "INSERT INTO _abide_kv (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2/*abide*/";
        self.bounded(|| self.internal(sql, (key, value)).map(drop))
    }

    /// Removes a key. Returns whether it existed.
    pub fn kv_delete(&self, key: &str) -> Result<bool> {
        check_key(key)?;
        self.begin()?;
        Ok(self.internal("DELETE FROM _abide_kv WHERE key = ?1/*abide*/", [key])? > 0)
    }

    /// Keys and values, ordered by key.
    pub fn kv_list(&self, options: &ListOptions) -> Result<Vec<(String, Vec<u8>)>> {
        let (start, end) = bounds(options);
        let sql = match (end.is_some(), options.reverse) {
            (false, false) => {
                "SELECT key, value FROM _abide_kv WHERE key >= ?1 AND ?2 IS NULL ORDER BY key LIMIT ?3/*abide*/"
            }
            (false, true) => {
                "SELECT key, value FROM _abide_kv WHERE key >= ?1 AND ?2 IS NULL ORDER BY key DESC LIMIT ?3/*abide*/"
            }
            (true, false) => {
                "SELECT key, value FROM _abide_kv WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3/*abide*/"
            }
            (true, true) => {
                "SELECT key, value FROM _abide_kv WHERE key >= ?1 AND key < ?2 ORDER BY key DESC LIMIT ?3/*abide*/"
            }
        };
        let limit = options
            .limit
            .map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let mut found: Vec<(String, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        self.internal_rows(sql, (start, end, limit), |row| {
            let read = || Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?));
            let (key, value) = read().map_err(|e| self.sql_error(&e))?;
            bytes += key.len() + value.len();
            if bytes > MAX_RESULT_BYTES {
                let most = MAX_RESULT_BYTES >> 20;
                return Err(Error::limit(format!(
                    "the listed values exceed {most} MiB: set a limit and continue with start_after"
                )));
            }
            found.push((key, value));
            Ok(())
        })?;
        Ok(found)
    }
}

/// The first key, and the first key after the last one.
fn bounds(options: &ListOptions) -> (String, Option<String>) {
    // The next key in byte order is the key and a NUL.
    let after = options.start_after.as_ref().map(|key| format!("{key}\0"));
    let starts = [options.prefix.clone(), options.start.clone(), after];
    let start = starts.into_iter().flatten().max().unwrap_or_default();
    let prefix_end = options.prefix.as_deref().and_then(successor);
    let end = match (options.end.clone(), prefix_end) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    (start, end)
}

/// The smallest text after every text with this prefix; `None` if there is none.
fn successor(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = ((last as u32 + 1)..=(char::MAX as u32)).find_map(char::from_u32) {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::successor;

    #[test]
    fn the_successor_of_a_prefix_is_behind_all_that_begin_with_it() {
        assert_eq!(successor("ab").as_deref(), Some("ac"));
        assert_eq!(successor("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(successor("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(successor(""), None);
        assert_eq!(successor("\u{10ffff}"), None);
    }
}
