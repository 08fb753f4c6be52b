//! Addresses of `PostgreSQL` servers as `libpq` has them, and TLS to them.
//!
//! [`Address`] takes a connection string apart: what `tokio_postgres` knows is in its `config`, and the rest in its `tls`, which is
//! passed to [`Config::connect`](tokio_postgres::Config::connect).
//!
//! | `sslmode` | |
//! |---|---|
//! | `disable` | no TLS |
//! | `prefer` | TLS if the server has it, with any certificate; the default. Unlike with `libpq`, a handshake that fails is an error |
//! | `require` | TLS, with any certificate |
//! | `verify-full` | TLS, with a certificate for the address's `host` that is trusted: by the machine, or by `sslrootcert=FILE` alone |
//!
//! A certificate is for a host that it names as an alternative name. Without `host`, with `hostaddr` alone, there is no TLS. A Unix socket
//! has none either.
//!
//! The password is that of the text, or is in the file `passfile=FILE`, which contains nothing else, or in the environment variable
//! `PGPASSWORD`. No error shows it.

#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod address;
mod binding;
mod tls;

pub use address::{Address, AddressError};
pub use tls::{Handshake, Stream, Tls};
