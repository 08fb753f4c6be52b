//! The command-line options that every program built on abide shares.

use std::path::PathBuf;

use crate::{Config, ConfigError, Sources};

/// `--config`, `--listen`, `--data`, `--memory` and `--insecure`. Flatten it into your own command:
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

    /// Let everybody who reaches the listener call the program's API, without a token
    #[arg(long)]
    pub insecure: bool,
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
        }
    }
}
