//! `access.db` in the data directory: tokens and the audit log.
//!
//! Contract: a method's changes are on disk when it returns. Several processes may have the file open: the node that
//! serves the directory, and commands. A node sees a new or revoked token within [`limits::TOKENS_REFRESH`].

use std::{
    collections::HashMap,
    fs::File,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use thiserror::Error;
use tokio::sync::watch;

use super::{
    AuditRow, CreatedToken, NewToken, Operation, Token,
    token::{self, SecretHash},
};
use crate::limits;

/// The file in the data directory.
const FILE: &str = "access.db";

/// Version of the tables, in `user_version`.
const VERSION: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE tokens (
        id TEXT PRIMARY KEY,
        hash BLOB NOT NULL,
        role TEXT NOT NULL,
        object_prefix TEXT,
        label TEXT,
        created INTEGER NOT NULL,
        expires INTEGER,
        revoked INTEGER
    ) STRICT;
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        who TEXT NOT NULL,
        client TEXT NOT NULL,
        action TEXT NOT NULL,
        object TEXT,
        detail TEXT,
        outcome TEXT
    ) STRICT;
    PRAGMA user_version = 1;";

/// Why tokens or the audit log could not be read or written.
#[derive(Error)]
#[error("access.db: {0}")]
pub struct AccessError(String);

#[expect(clippy::needless_pass_by_value, reason = "`map_err` hands it over")]
fn failed(error: rusqlite::Error) -> AccessError {
    AccessError(error.to_string())
}

/// The tokens of a data directory and its audit log.
#[derive(Debug)]
pub struct AccessStore {
    db: Mutex<Connection>,
    /// Reads tokens, so that checking a token never waits for a row of the audit log. `None` in memory: there `db`
    /// reads them.
    reader: Option<Mutex<Connection>>,
    known: Mutex<Known>,
    /// Counts changes of the tokens.
    changes: watch::Sender<u64>,
}

/// The tokens as last read.
/// Where to look for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// In the database, too, if it is unknown: it may be new.
    Anew,
    /// Only in memory, which is refreshed in the background.
    InMemory,
}

#[derive(Debug, Default)]
struct Known {
    tokens: Arc<HashMap<String, Stored>>,
    /// SQLite's `data_version` at that time.
    version: i64,
    /// When the file was last checked; `None` forces a check.
    looked: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) token: Token,
    pub(super) hash: SecretHash,
}

impl std::fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

impl AccessStore {
    /// Opens `access.db` of a data directory, creating it if necessary.
    pub fn open(dir: &Path) -> Result<Self, AccessError> {
        let path = dir.join(FILE);
        let not_opened = |error| AccessError(format!("cannot open {}: {error}", path.display()));
        create_private(&path, dir).map_err(|error| not_opened(error.to_string()))?;
        let db = Connection::open(&path).map_err(|error| not_opened(error.to_string()))?;
        let configure = || {
            db.busy_timeout(limits::ACCESS_DB_PATIENCE)?;
            db.pragma_update(None, "journal_mode", "wal")?;
            db.pragma_update(None, "synchronous", "full")
        };
        configure().map_err(failed)?;
        let mut store = Self::prepare(db)?;
        let open_reader = || {
            let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            reader.busy_timeout(limits::ACCESS_DB_PATIENCE)?;
            Ok(reader)
        };
        let reader = open_reader().map_err(failed)?;
        store.reader = Some(Mutex::new(reader));
        Ok(store)
    }

    /// Tokens and an audit log in memory, for objects in memory.
    pub fn open_in_memory() -> Result<Self, AccessError> {
        Self::prepare(Connection::open_in_memory().map_err(failed)?)
    }

    fn prepare(mut db: Connection) -> Result<Self, AccessError> {
        // Two processes may create the tables at the same time.
        let change = db
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(failed)?;
        let version: i64 = change
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(failed)?;
        match version {
            0 => change.execute_batch(SCHEMA).map_err(failed)?,
            VERSION => {}
            other => {
                return Err(AccessError(format!(
                    "the file has version {other}, and this program reads version {VERSION}: use the program that wrote it, or a \
                     newer one; nothing was changed"
                )));
            }
        }
        change.commit().map_err(failed)?;
        Ok(Self {
            db: Mutex::new(db),
            reader: None,
            known: Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    fn db(&self) -> MutexGuard<'_, Connection> {
        self.db.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a token.
    pub fn create_token(&self, new: NewToken) -> Result<CreatedToken, AccessError> {
        let (id, text, hash) = token::generate();
        let now = SystemTime::now();
        let token = Token {
            id,
            role: new.role,
            object_prefix: new.object_prefix,
            label: new.label,
            created: from_millis(millis(now)),
            expires: new.lifetime.map(|time| from_millis(millis(now + time))),
            revoked: None,
        };
        let row = params![
            token.id,
            hash.0,
            token.role.as_str(),
            token.object_prefix,
            token.label,
            millis(token.created),
            token.expires.map(millis),
        ];
        let insert = "INSERT INTO tokens (id, hash, role, object_prefix, label, created, expires)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        self.db().execute(insert, row).map_err(failed)?;
        self.known().looked = None;
        Ok(CreatedToken { token, text })
    }

    /// All tokens, including expired and revoked ones, oldest first.
    pub fn tokens(&self) -> Result<Vec<Token>, AccessError> {
        let mut tokens: Vec<Token> = read_tokens(&self.db())
            .map_err(failed)?
            .into_values()
            .map(|stored| stored.token)
            .collect();
        tokens.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
        Ok(tokens)
    }

    /// Revokes a token. Returns false if there is no such token, or it was already revoked.
    pub fn revoke_token(&self, id: &str) -> Result<bool, AccessError> {
        let revoke = "UPDATE tokens SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL";
        let now = millis(SystemTime::now());
        let revoked = self.db().execute(revoke, params![id, now]);
        let revoked = revoked.map_err(failed)?;
        self.known().looked = None;
        Ok(revoked == 1)
    }

    /// The token with this id. The result may be outdated by [`limits::TOKENS_REFRESH`], or twice that without
    /// [refreshes](Self::refresh) in the meantime.
    pub(super) fn find(&self, id: &str, look: Look) -> Result<Option<Stored>, AccessError> {
        {
            let known = self.known();
            let is_fresh = |at: Instant| at.elapsed() < 2 * limits::TOKENS_REFRESH;
            let found = known.tokens.get(id);
            // An unknown token may be new.
            let is_known = found.is_some() || look == Look::InMemory;
            if is_known && known.looked.is_some_and(is_fresh) {
                return Ok(found.cloned());
            }
        }
        self.refresh()?;
        Ok(self.known().tokens.get(id).cloned())
    }

    /// Checks whether the tokens have changed.
    pub(crate) fn refresh(&self) -> Result<(), AccessError> {
        let db = self.reader.as_ref().unwrap_or(&self.db);
        // Held until the end, to publish reads in their order.
        let db = db.lock().unwrap_or_else(PoisonError::into_inner);
        let version = db
            .pragma_query_value(None, "data_version", |row| row.get(0))
            .map_err(failed)?;
        let (is_first, is_same) = {
            let known = self.known();
            (known.looked.is_none(), known.version == version)
        };
        // In memory, this connection's own writes do not change `data_version`.
        if is_same && !is_first {
            self.known().looked = Some(Instant::now());
            return Ok(());
        }
        let tokens = read_tokens(&db).map_err(failed)?;
        let mut known = self.known();
        let is_other = tokens.len() != known.tokens.len()
            || tokens
                .iter()
                .any(|(id, of)| known.tokens.get(id).map(|old| &old.token) != Some(&of.token));
        *known = Known {
            tokens: Arc::new(tokens),
            version,
            looked: Some(Instant::now()),
        };
        drop(known);
        if is_other {
            self.changes.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Notifies of every change of the tokens that a refresh finds.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Records an operation that begins. Its row has no outcome until [`AccessStore::end`].
    pub fn begin(&self, operation: &Operation) -> Result<i64, AccessError> {
        let db = self.db();
        let row = params![
            millis(SystemTime::now()),
            operation.who,
            operation.client,
            operation.action,
            operation.object,
            operation.detail,
        ];
        let insert = "INSERT INTO audit (at, who, client, action, object, detail)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        db.execute(insert, row).map_err(failed)?;
        let id = db.last_insert_rowid();
        let delete = "DELETE FROM audit WHERE id <= ?1";
        db.execute(delete, params![id - limits::MAX_AUDIT_ROWS])
            .map_err(failed)?;
        Ok(id)
    }

    /// Records the outcome of an operation.
    pub fn end(&self, id: i64, outcome: &str) -> Result<(), AccessError> {
        let update = "UPDATE audit SET outcome = ?2 WHERE id = ?1";
        let updated = self.db().execute(update, params![id, outcome]);
        updated.map(drop).map_err(failed)
    }

    /// Rows of the audit log, newest first: at most `limit`, with ids below `before`.
    pub fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditRow>, AccessError> {
        read_audit(&self.db(), before, limit).map_err(failed)
    }

    /// Whether any token is currently valid.
    pub fn has_valid_token(&self) -> Result<bool, AccessError> {
        let found = self
            .db()
            .query_row(
                "SELECT 1 FROM tokens WHERE revoked IS NULL AND (expires IS NULL OR expires > ?1)",
                params![millis(SystemTime::now())],
                |_| Ok(()),
            )
            .optional()
            .map_err(failed)?;
        Ok(found.is_some())
    }
}

/// Creates the file with private permissions, before SQLite would create it with the default ones. SQLite copies the
/// mode to `-wal` and `-shm`.
fn create_private(path: &Path, dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let made = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(file) => {
            file.sync_all()?;
            File::open(dir)?.sync_all()
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn read_audit(
    db: &Connection,
    before: Option<i64>,
    limit: usize,
) -> rusqlite::Result<Vec<AuditRow>> {
    let mut rows = db.prepare_cached(
        "SELECT id, at, who, client, action, object, detail, outcome FROM audit
         WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    )?;
    let before = before.unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = rows.query_map(params![before, limit], |row| {
        Ok(AuditRow {
            id: row.get(0)?,
            at: from_millis(row.get(1)?),
            operation: Operation {
                who: row.get(2)?,
                client: row.get(3)?,
                action: row.get(4)?,
                object: row.get(5)?,
                detail: row.get(6)?,
            },
            outcome: row.get(7)?,
        })
    })?;
    rows.collect()
}

fn read_tokens(db: &Connection) -> rusqlite::Result<HashMap<String, Stored>> {
    let mut rows = db.prepare_cached(
        "SELECT id, hash, role, object_prefix, label, created, expires, revoked FROM tokens",
    )?;
    let rows = rows.query_map([], |row| {
        let stored = read_token(row)?;
        Ok((stored.token.id.clone(), stored))
    })?;
    rows.collect()
}

fn read_token(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let role: String = row.get(2)?;
    let time =
        |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(from_millis));
    Ok(Stored {
        token: Token {
            id: row.get(0)?,
            role: role.parse().map_err(|error: String| {
                rusqlite::Error::FromSqlConversionFailure(
                    2,
                    rusqlite::types::Type::Text,
                    error.into(),
                )
            })?,
            object_prefix: row.get(3)?,
            label: row.get(4)?,
            created: from_millis(row.get(5)?),
            expires: time(6)?,
            revoked: time(7)?,
        },
        hash: SecretHash(row.get(1)?),
    })
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn from_millis(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    #[test]
    fn another_process_sees_a_token_and_its_revocation() {
        let dir = tempfile::tempdir().unwrap();
        let (node, command) = (
            AccessStore::open(dir.path()).unwrap(),
            AccessStore::open(dir.path()).unwrap(),
        );
        assert!(!node.has_valid_token().unwrap());
        let made = command.create_token(NewToken::new(Role::Read)).unwrap();
        let found = || {
            let looked = node.known().looked;
            node.known().looked = looked.and_then(|at| at.checked_sub(2 * limits::TOKENS_REFRESH));
            node.find(&made.token.id, Look::Anew)
                .unwrap()
                .unwrap()
                .token
        };
        assert_eq!(found(), made.token);
        assert!(node.has_valid_token().unwrap());
        assert!(command.revoke_token(&made.token.id).unwrap());
        assert!(!command.revoke_token(&made.token.id).unwrap());
        assert!(found().revoked.is_some());
        assert!(!node.has_valid_token().unwrap());
    }

    #[test]
    fn the_file_is_for_its_user_alone_and_holds_no_secret() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let store = AccessStore::open(dir.path()).unwrap();
        let made = store.create_token(NewToken::new(Role::Admin)).unwrap();
        let secret = made.text.splitn(3, '_').nth(2).unwrap().to_owned();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            let allowed = entry.metadata().unwrap().permissions().mode();
            assert_eq!(allowed & 0o077, 0, "{:?}", entry.path());
            let bytes = std::fs::read(entry.path()).unwrap();
            let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
            assert!(!has(secret.as_bytes()));
        }
        assert!(!format!("{made:?}").contains(&secret));
    }

    #[test]
    fn the_audit_log_keeps_its_newest_rows() {
        let store = AccessStore::open_in_memory().unwrap();
        let operation = Operation {
            who: "token 1".to_owned(),
            client: "127.0.0.1".to_owned(),
            action: "restore".to_owned(),
            object: Some("Counter/a".to_owned()),
            detail: None,
        };
        let first = store.begin(&operation).unwrap();
        store.end(first, "200").unwrap();
        let second = store.begin(&operation).unwrap();
        let rows = store.audit(None, 10).unwrap();
        assert_eq!(
            rows.iter()
                .map(|row| (row.id, row.outcome.as_deref()))
                .collect::<Vec<_>>(),
            [(second, None), (first, Some("200"))]
        );
        assert_eq!(store.audit(Some(second), 10).unwrap().len(), 1);
        let full = limits::MAX_AUDIT_ROWS + first;
        store
            .db()
            .execute(
                "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'audit'",
                [full - 1],
            )
            .unwrap();
        assert_eq!(store.begin(&operation).unwrap(), full);
        let ids: Vec<_> = store
            .audit(None, 10)
            .unwrap()
            .iter()
            .map(|row| row.id)
            .collect();
        assert_eq!(ids, [full, second]);
    }

    #[test]
    fn a_file_of_another_version_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        AccessStore::open(dir.path()).unwrap();
        let plain = Connection::open(dir.path().join(FILE)).unwrap();
        for version in [-1, 2] {
            plain.pragma_update(None, "user_version", version).unwrap();
            let refused = AccessStore::open(dir.path()).unwrap_err().to_string();
            let told = format!(
                "has version {version}, and this program reads version 1: use the program that wrote it"
            );
            assert!(refused.contains(&told), "{refused}");
            let left: i64 = plain
                .pragma_query_value(None, "user_version", |row| row.get(0))
                .unwrap();
            assert_eq!(left, version);
        }
    }
}
