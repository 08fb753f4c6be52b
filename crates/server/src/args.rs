//! The command-line options that every program built on abide shares.

use std::path::PathBuf;

use crate::{Config, ConfigError, Sources};

/// `--config`, `--listen`, `--data`, `--memory`, `--insecure` and `--take-over`. Flatten it into your own command:
///
/// ```
/// #[derive(clap::Parser)]
/// enum Command {
///     /// Serves seat maps over HTTP.
///     Serve(abide_server::ServeArgs),
/// }
/// ```
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServeArgs {
    /// File of settings [default: ./abide.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "IP:PORT")]
    pub listen: Option<String>,

    /// Data directory [default: data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Memory for objects and what is on its way, such as 512MiB [default: half of what there is]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,

    /// Let every client that reaches the listener call the program's API, without a token
    #[arg(long)]
    pub insecure: bool,

    /// Continue for another node, which is gone, whose history is at `archive.url`
    #[arg(long)]
    pub take_over: bool,
}

impl ServeArgs {
    /// The settings from the file, the environment and these options.
    pub fn load(self) -> Result<Config, ConfigError> {
        Config::load(&self.into())
    }
}

impl From<ServeArgs> for Sources {
    fn from(args: ServeArgs) -> Self {
        Self {
            file: args.config,
            listen: args.listen,
            data: args.data,
            memory: args.memory,
            insecure: args.insecure,
            take_over: args.take_over,
        }
    }
}

/// `migrate --dry-run`, for your own command: see [`HostBuilder::migrate`](crate::HostBuilder::migrate).
///
/// ```
/// #[derive(clap::Parser)]
/// enum Command {
///     /// Tries this program's migrations on every object of a data directory, and changes nothing
///     Migrate(abide_server::MigrateArgs),
/// }
/// ```
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MigrateArgs {
    /// Try on a copy, and change nothing. Objects migrate when they are next loaded
    #[arg(long, required = true)]
    pub dry_run: bool,

    /// Classes, as `abide objects list` shows them [default: all of the program]
    #[arg(value_name = "CLASS")]
    pub classes: Vec<String>,

    /// File of settings [default: ./abide.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Data directory, which nothing serves meanwhile [default: data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Where to keep what the migrations write, until the end [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

impl MigrateArgs {
    /// The settings from the file, the environment and these options.
    pub fn load(&self) -> Result<Config, ConfigError> {
        Config::load(&Sources {
            file: self.config.clone(),
            data: self.data.clone(),
            ..Sources::default()
        })
    }
}
