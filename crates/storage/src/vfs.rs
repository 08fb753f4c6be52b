//! The SQLite VFS: the only `unsafe` code of the crate. It translates SQLite's C calls into those of [`PageIo`] and
//! [`TemporaryFile`] and decides nothing.
//!
//! Each store registers its own [`Vfs`]. It opens main databases, and files without a name, which are the temporary
//! files of statements. With `journal_mode=MEMORY` SQLite never opens any other file; if it did, the call would fail.
//! The [`PageIo`] for an open call is passed in a thread-local slot, because the call happens within
//! [`open_connection`] on the same thread.
//!
//! The commit point is `SQLITE_FCNTL_SYNC` on the main database, which SQLite sends before the sync of every commit,
//! also with `synchronous=OFF` (`sqlite3PagerSync` in pager.c), after the last page was written.

#![allow(unsafe_code)]
#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "SQLite's lengths are never negative and its pages are small"
)]

use crate::error::{Error, ErrorKind, Result};
use crate::temporary::{Temporary, TemporaryFile};
use rusqlite::{Connection, OpenFlags, ffi};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A main database, page by page, for one connection. It keeps the reason of a failure: SQLite gets only a number.
pub(crate) trait PageIo {
    /// Reads bytes; bytes after the end read as zeros. Returns the number of bytes that exist.
    fn read(&self, out: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes whole pages.
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Sets the size in bytes.
    fn truncate(&self, bytes: u64);
    /// The size in pages.
    fn size(&self) -> u32;
    /// The commit point: all pages of a transaction are written.
    fn commit(&self) -> Result<()>;
}

thread_local! {
    static OPENING: RefCell<Option<Rc<dyn PageIo>>> = const { RefCell::new(None) };
    /// Why the last operation on a temporary file of this thread failed.
    static REFUSED: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Why a statement of this thread failed, if a temporary file was the reason. SQLite itself reports only a number.
pub(crate) fn take_temporary_error() -> Option<Error> {
    REFUSED.take()
}

/// Opens a connection whose main database is `file`.
pub(crate) fn open_connection(vfs: &Vfs, file: Rc<dyn PageIo>) -> rusqlite::Result<Connection> {
    OPENING.set(Some(file));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags_and_vfs("object", flags, vfs.name.as_c_str());
    OPENING.set(None);
    opened
}

/// A statement without parameters or rows that every commit runs: prepared once, outside the connection's cache.
/// It must be dropped before its connection.
pub(crate) struct Control(*mut ffi::sqlite3_stmt);

impl Control {
    pub(crate) fn prepare(connection: &Connection, sql: &CStr) -> rusqlite::Result<Self> {
        let mut statement = ptr::null_mut();
        // SAFETY: the connection is open, the text ends with NUL, the statement is finalised in `drop`.
        let code = unsafe {
            let flags = ffi::SQLITE_PREPARE_PERSISTENT as std::ffi::c_uint;
            ffi::sqlite3_prepare_v3(
                connection.handle(),
                sql.as_ptr(),
                -1,
                flags,
                &raw mut statement,
                ptr::null_mut(),
            )
        };
        if code == ffi::SQLITE_OK {
            Ok(Self(statement))
        } else {
            Err(failure(code))
        }
    }

    /// Runs the statement to its end.
    pub(crate) fn run(&self) -> rusqlite::Result<()> {
        // SAFETY: the statement belongs to an open connection of this thread.
        let code = unsafe {
            ffi::sqlite3_step(self.0);
            // Resetting returns the error of the step, if there was one.
            ffi::sqlite3_reset(self.0)
        };
        if code == ffi::SQLITE_OK {
            return Ok(());
        }
        // SAFETY: the connection is open; its message is text that ends with NUL, valid until its next call.
        let message = unsafe {
            let message = ffi::sqlite3_errmsg(ffi::sqlite3_db_handle(self.0));
            CStr::from_ptr(message).to_string_lossy().into_owned()
        };
        Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(code),
            Some(message),
        ))
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // SAFETY: prepared by `prepare`, finalised once, before the connection closes.
        unsafe { ffi::sqlite3_finalize(self.0) };
    }
}

/// Bytes of a connection's page caches.
pub(crate) fn cache_bytes(connection: &Connection) -> u64 {
    status(connection, ffi::SQLITE_DBSTATUS_CACHE_USED)
}

/// Bytes of a connection's schema. Visits each of its tables.
pub(crate) fn schema_bytes(connection: &Connection) -> u64 {
    status(connection, ffi::SQLITE_DBSTATUS_SCHEMA_USED)
}

fn status(connection: &Connection, what: c_int) -> u64 {
    let (mut now, mut highest) = (0, 0);
    // SAFETY: the connection is open and belongs to this thread; both pointers are valid.
    let code = unsafe {
        ffi::sqlite3_db_status(connection.handle(), what, &raw mut now, &raw mut highest, 0)
    };
    if code == ffi::SQLITE_OK {
        u64::try_from(now).unwrap_or(0)
    } else {
        0
    }
}

fn failure(code: c_int) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
}

/// Configures SQLite for many small connections, once for the process. Must run before the first use of SQLite; if
/// another part of the program used it earlier, SQLite keeps its own settings, which only costs memory.
pub(crate) fn configure() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        // SAFETY: documented options with arguments of the documented types
        // (https://www.sqlite.org/c3ref/c_config_covering_index_scan.html). After initialization they return
        // SQLITE_MISUSE and change nothing.
        unsafe {
            // No accounting under a global lock.
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0);
            // No bulk allocation of 20 pages for each connection.
            ffi::sqlite3_config(
                ffi::SQLITE_CONFIG_PAGECACHE,
                ptr::null_mut::<c_void>(),
                0,
                0,
            );
            // A small lookaside: 32 slots of 128 bytes are enough to keep the general allocator out of statements.
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOOKASIDE, 128, 32);
        }
    });
}

/// A store's VFS, registered with SQLite while this exists. It must outlive the connections opened with it.
pub(crate) struct Vfs {
    /// Created by `Box::into_raw`, freed in `drop`.
    registered: *mut ffi::sqlite3_vfs,
    name: CString,
    temporary: Arc<Temporary>,
}

// SAFETY: SQLite guards its list of VFSs by its own lock; nothing changes the structure while it is registered, and
// what it points to is `Sync`.
unsafe impl Send for Vfs {}
// SAFETY: as above.
unsafe impl Sync for Vfs {}

impl Vfs {
    pub(crate) fn register(temporary: Arc<Temporary>) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        configure();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("abide-{number}"))
            .map_err(|_| Error::input("the name of a VFS holds a NUL"))?;
        let registered = Box::into_raw(Box::new(ffi::sqlite3_vfs {
            iVersion: 2,
            szOsFile: size_of::<File>() as c_int,
            mxPathname: 64,
            pNext: ptr::null_mut(),
            zName: name.as_ptr(),
            pAppData: Arc::as_ptr(&temporary).cast_mut().cast(),
            xOpen: Some(x_open),
            xDelete: Some(x_delete),
            xAccess: Some(x_access),
            xFullPathname: Some(x_full_pathname),
            xDlOpen: None,
            xDlError: None,
            xDlSym: None,
            xDlClose: None,
            xRandomness: Some(x_randomness),
            xSleep: Some(x_sleep),
            xCurrentTime: Some(x_current_time),
            xGetLastError: None,
            xCurrentTimeInt64: Some(x_current_time_int64),
            xSetSystemCall: None,
            xGetSystemCall: None,
            xNextSystemCall: None,
        }));
        let vfs = Self {
            registered,
            name,
            temporary,
        };
        // SAFETY: the structure is valid, and lives until `drop` has taken it off SQLite's list.
        let code = unsafe { ffi::sqlite3_vfs_register(registered, 0) };
        if code == ffi::SQLITE_OK {
            Ok(vfs)
        } else {
            Err(Error::input(format!(
                "SQLite refused the VFS with code {code}"
            )))
        }
    }

    pub(crate) fn temporary(&self) -> &Arc<Temporary> {
        &self.temporary
    }
}

impl Drop for Vfs {
    fn drop(&mut self) {
        // SAFETY: no connection is left that uses it; unregistering one that is not on the list changes nothing.
        unsafe {
            ffi::sqlite3_vfs_unregister(self.registered);
            drop(Box::from_raw(self.registered));
        }
    }
}

/// A file handle as SQLite allocates it: `szOsFile` bytes, the methods first.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    /// With [`METHODS`] a [`Pages`], created by `Box::into_raw` in [`x_open`] and released in [`x_close`]; with
    /// [`TEMPORARY_METHODS`] a [`TemporaryFile`], created by `Box::into_raw` and released in [`temporary_close`].
    state: *const c_void,
}

/// What a thin pointer can point to.
type Pages = Rc<dyn PageIo>;

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(x_close),
    xRead: Some(x_read),
    xWrite: Some(x_write),
    xTruncate: Some(x_truncate),
    xSync: Some(x_sync),
    xFileSize: Some(x_file_size),
    xLock: Some(x_lock),
    xUnlock: Some(x_lock),
    xCheckReservedLock: Some(x_check_reserved_lock),
    xFileControl: Some(x_file_control),
    xSectorSize: Some(x_sector_size),
    xDeviceCharacteristics: Some(x_device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

static TEMPORARY_METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    xClose: Some(temporary_close),
    xRead: Some(temporary_read),
    xWrite: Some(temporary_write),
    xTruncate: Some(temporary_truncate),
    xFileSize: Some(temporary_file_size),
    xFileControl: Some(temporary_file_control),
    ..METHODS
};

/// Runs `call` on the file's pages; a panic must not unwind into C, so it becomes an I/O error.
fn with_pages(file: *mut ffi::sqlite3_file, call: impl FnOnce(&dyn PageIo) -> c_int) -> c_int {
    // SAFETY: SQLite passes the handle that `x_open` filled, on the thread that owns the connection, until `x_close`.
    let pages = unsafe { &*(*file.cast::<File>()).state.cast::<Pages>() };
    catch_unwind(AssertUnwindSafe(|| call(&**pages))).unwrap_or(ffi::SQLITE_IOERR)
}

unsafe extern "C" fn x_open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let file = file.cast::<File>();
    let opened = if name.is_null() {
        // SAFETY: `register` put the pointer there; its `Arc` lives as long as the VFS.
        let temporary = unsafe {
            let temporary = (*vfs).pAppData.cast::<Temporary>().cast_const();
            Arc::increment_strong_count(temporary);
            Arc::from_raw(temporary)
        };
        let created = catch_unwind(AssertUnwindSafe(|| note(temporary.create())));
        created.ok().flatten().map(|created| {
            let state: *const TemporaryFile = Box::into_raw(Box::new(created));
            (state.cast(), &raw const TEMPORARY_METHODS)
        })
    } else if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
        OPENING.take().map(|pages| {
            let state: *const Pages = Box::into_raw(Box::new(pages));
            (state.cast(), &raw const METHODS)
        })
    } else {
        None
    };
    // SAFETY: SQLite passes `szOsFile` writable bytes. A null method table tells it that nothing is to be closed.
    unsafe {
        (*file).base.pMethods = ptr::null();
        let Some((state, methods)) = opened else {
            return ffi::SQLITE_CANTOPEN;
        };
        (*file).state = state;
        (*file).base.pMethods = methods;
        if !out_flags.is_null() {
            *out_flags = flags;
        }
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: called once for a handle that `x_open` filled; the pointer came from `Box::into_raw`.
    let pages = unsafe {
        let state = (*file.cast::<File>()).state.cast_mut();
        Box::from_raw(state.cast::<Pages>())
    };
    catch_unwind(AssertUnwindSafe(|| drop(pages))).map_or(ffi::SQLITE_IOERR, |()| ffi::SQLITE_OK)
}

unsafe extern "C" fn x_read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite passes `amount` writable bytes.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), amount as usize) };
    with_pages(file, |pages| {
        match pages.read(out, offset.cast_unsigned()) {
            Ok(read) if read == out.len() => ffi::SQLITE_OK,
            Ok(_) => ffi::SQLITE_IOERR_SHORT_READ,
            Err(_) => ffi::SQLITE_IOERR_READ,
        }
    })
}

unsafe extern "C" fn x_write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite passes `amount` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), amount as usize) };
    with_pages(file, |pages| {
        pages
            .write(bytes, offset.cast_unsigned())
            .map_or(ffi::SQLITE_FULL, |()| ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn x_truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    with_pages(file, |pages| {
        pages.truncate(size.cast_unsigned());
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn x_sync(_file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_file_size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    with_pages(file, |pages| {
        let bytes = i64::from(pages.size()) * crate::limits::PAGE_BYTES as i64;
        // SAFETY: SQLite passes a valid pointer.
        unsafe { *out = bytes };
        ffi::SQLITE_OK
    })
}

/// One connection has the object to itself: there is nothing to lock.
unsafe extern "C" fn x_lock(_file: *mut ffi::sqlite3_file, _level: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_check_reserved_lock(
    _file: *mut ffi::sqlite3_file,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a valid pointer.
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_file_control(
    file: *mut ffi::sqlite3_file,
    op: c_int,
    _arg: *mut c_void,
) -> c_int {
    if op != ffi::SQLITE_FCNTL_SYNC {
        return ffi::SQLITE_NOTFOUND;
    }
    with_pages(file, |pages| {
        pages
            .commit()
            .map_or(ffi::SQLITE_IOERR_FSYNC, |()| ffi::SQLITE_OK)
    })
}

/// Stores the reason of a failure for [`take_temporary_error`].
fn note<T>(result: Result<T>) -> Option<T> {
    result.map_err(|error| REFUSED.set(Some(error))).ok()
}

/// Runs `call` on a temporary file. If it fails, the reason is stored, and SQLite gets `otherwise` or the code for a
/// full disk.
fn with_temporary(
    file: *mut ffi::sqlite3_file,
    otherwise: c_int,
    call: impl FnOnce(&TemporaryFile) -> Result<c_int>,
) -> c_int {
    // SAFETY: SQLite passes the handle that `x_open` filled, on the thread that owns the connection, until
    // `temporary_close`.
    let temporary = unsafe { &*(*file.cast::<File>()).state.cast::<TemporaryFile>() };
    let called = catch_unwind(AssertUnwindSafe(|| {
        call(temporary).unwrap_or_else(|error| {
            let full = error.kind() == ErrorKind::NoSpace;
            REFUSED.set(Some(error));
            if full { ffi::SQLITE_FULL } else { otherwise }
        })
    }));
    called.unwrap_or(ffi::SQLITE_IOERR)
}

unsafe extern "C" fn temporary_close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: called once for a handle that `x_open` filled; the pointer came from `Box::into_raw`.
    let temporary = unsafe {
        let state = (*file.cast::<File>()).state.cast_mut();
        Box::from_raw(state.cast::<TemporaryFile>())
    };
    catch_unwind(AssertUnwindSafe(|| drop(temporary)))
        .map_or(ffi::SQLITE_IOERR, |()| ffi::SQLITE_OK)
}

unsafe extern "C" fn temporary_read(
    file: *mut ffi::sqlite3_file,
    out: *mut c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite passes `amount` writable bytes.
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), amount as usize) };
    with_temporary(file, ffi::SQLITE_IOERR_READ, |temporary| {
        let read = temporary.read(out, offset.cast_unsigned())?;
        if read == out.len() {
            return Ok(ffi::SQLITE_OK);
        }
        out[read..].fill(0);
        Ok(ffi::SQLITE_IOERR_SHORT_READ)
    })
}

unsafe extern "C" fn temporary_write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite passes `amount` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), amount as usize) };
    with_temporary(file, ffi::SQLITE_IOERR_WRITE, |temporary| {
        temporary.write(bytes, offset.cast_unsigned())?;
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn temporary_truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    with_temporary(file, ffi::SQLITE_IOERR_TRUNCATE, |temporary| {
        temporary.truncate(size.cast_unsigned())?;
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn temporary_file_size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    with_temporary(file, ffi::SQLITE_IOERR, |temporary| {
        // SAFETY: SQLite passes a valid pointer.
        unsafe { *out = temporary.len().cast_signed() };
        Ok(ffi::SQLITE_OK)
    })
}

unsafe extern "C" fn temporary_file_control(
    _file: *mut ffi::sqlite3_file,
    _op: c_int,
    _arg: *mut c_void,
) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn x_sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    crate::limits::PAGE_BYTES as c_int
}

unsafe extern "C" fn x_device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn x_delete(
    _vfs: *mut ffi::sqlite3_vfs,
    _name: *const c_char,
    _sync: c_int,
) -> c_int {
    ffi::SQLITE_OK
}

/// No journal and no write-ahead log ever exists.
unsafe extern "C" fn x_access(
    _vfs: *mut ffi::sqlite3_vfs,
    _name: *const c_char,
    _flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a valid pointer.
    unsafe { *out = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_full_pathname(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a NUL-terminated name and `size` writable bytes.
    unsafe {
        let name = CStr::from_ptr(name).to_bytes_with_nul();
        if name.len() > size as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len());
    }
    ffi::SQLITE_OK
}

/// The operating system's VFS, for calls unrelated to files.
fn default_vfs() -> *mut ffi::sqlite3_vfs {
    // SAFETY: a null name asks for the default VFS, which is registered for as long as the process runs.
    unsafe { ffi::sqlite3_vfs_find(ptr::null()) }
}

unsafe extern "C" fn x_randomness(
    _vfs: *mut ffi::sqlite3_vfs,
    size: c_int,
    out: *mut c_char,
) -> c_int {
    let vfs = default_vfs();
    // SAFETY: the arguments are passed on as SQLite gave them.
    unsafe { (*vfs).xRandomness.map_or(0, |call| call(vfs, size, out)) }
}

unsafe extern "C" fn x_sleep(_vfs: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    let vfs = default_vfs();
    // SAFETY: as above.
    unsafe { (*vfs).xSleep.map_or(0, |call| call(vfs, micros)) }
}

unsafe extern "C" fn x_current_time(_vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    let vfs = default_vfs();
    // SAFETY: as above.
    unsafe {
        (*vfs)
            .xCurrentTime
            .map_or(ffi::SQLITE_ERROR, |call| call(vfs, out))
    }
}

unsafe extern "C" fn x_current_time_int64(_vfs: *mut ffi::sqlite3_vfs, out: *mut i64) -> c_int {
    let vfs = default_vfs();
    // SAFETY: as above.
    unsafe {
        (*vfs)
            .xCurrentTimeInt64
            .map_or(ffi::SQLITE_ERROR, |call| call(vfs, out))
    }
}
