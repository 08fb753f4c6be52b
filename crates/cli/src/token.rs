//! `abide token`: controls who may call a node over TCP. The tokens are in the data directory, which a node may be
//! serving.

use std::{io::Write, time::Duration};

use abide::server::access::{AccessStore, NewToken, Role, Token};
use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use jiff::SignedDuration;

use crate::data::{DataArgs, audited, time};

#[derive(Subcommand)]
pub(crate) enum Tokens {
    /// Create a token, and print it: it is shown only once
    Create(CreateArgs),
    /// List the tokens: id, role, objects, creation time, expiry, validity, label
    List(DataArgs),
    /// Revoke a token; a running node rejects it within a second
    Revoke(RevokeArgs),
}

#[derive(Args)]
pub(crate) struct CreateArgs {
    /// read: read everything; operate: also make repeatable changes; admin: also restore, fork and repair
    #[arg(long)]
    role: Role,

    /// Only for objects whose CLASS/NAME begins with this prefix
    #[arg(long, value_name = "CLASS/NAME")]
    object_prefix: Option<String>,

    /// How long it is valid, such as 90d or 12h [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires_in: Option<Duration>,

    /// A label, such as its owner
    #[arg(long)]
    label: Option<String>,

    #[command(flatten)]
    data: DataArgs,
}

#[derive(Args)]
pub(crate) struct RevokeArgs {
    /// The token's id, as shown by `abide token list`
    id: String,

    #[command(flatten)]
    data: DataArgs,
}

fn lifetime(text: &str) -> Result<Duration> {
    // Days and weeks are 24 hours and seven times that.
    let (number, unit) =
        text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let days = match unit {
        "d" => 1,
        "w" => 7,
        _ => {
            let time: SignedDuration = text.parse()?;
            ensure!(time.is_positive(), "{text:?} is not a positive duration");
            return Ok(time.unsigned_abs());
        }
    };
    let days: u32 = number.parse::<u32>()?.saturating_mul(days);
    ensure!(
        (1..=36_500).contains(&days),
        "{text:?} is not from 1d to 36500d"
    );
    Ok(Duration::from_hours(24) * days)
}

pub(crate) fn run(command: &Tokens, out: &mut impl Write) -> Result<()> {
    match command {
        Tokens::Create(args) => create(args, out),
        Tokens::List(args) => list(args, out),
        Tokens::Revoke(args) => revoke(args, out),
    }
}

fn create(args: &CreateArgs, out: &mut impl Write) -> Result<()> {
    let mut new = NewToken::new(args.role);
    new.object_prefix.clone_from(&args.object_prefix);
    new.lifetime = args.expires_in;
    new.label.clone_from(&args.label);
    let dir = args.data.make_dir()?;
    let store = AccessStore::open(&dir)?;
    let made = store.create_token(new)?;
    // It is useless before it is printed.
    if let Err(error) = audited(
        &store,
        "create_token",
        None,
        Some(detail(&made.token)),
        || Ok(()),
    ) {
        store.revoke_token(&made.token.id)?;
        return Err(error);
    }
    writeln!(out, "{}", made.text)?;
    Ok(())
}

/// A token as recorded in the audit log.
fn detail(token: &Token) -> String {
    let objects = token.object_prefix.as_deref().unwrap_or("all");
    let expires = token.expires.map_or_else(|| "-".to_owned(), time);
    let label = token.label.as_deref().unwrap_or("-");
    format!(
        "token {}, role {}, objects {objects}, expires {expires}, label {label}",
        token.id, token.role
    )
}

fn list(args: &DataArgs, out: &mut impl Write) -> Result<()> {
    let now = std::time::SystemTime::now();
    writeln!(out, "ID\tROLE\tOBJECTS\tCREATED\tEXPIRES\tSTATE\tLABEL")?;
    for token in args.access()?.tokens()? {
        let expires = token.expires.map_or_else(|| "-".to_owned(), time);
        let state = if token.revoked.is_some() {
            "revoked"
        } else if token.expires.is_some_and(|at| at <= now) {
            "expired"
        } else {
            "valid"
        };
        writeln!(
            out,
            "{}\t{}\t{}\t{}\t{expires}\t{state}\t{}",
            token.id,
            token.role,
            token
                .object_prefix
                .as_deref()
                .unwrap_or("all")
                .escape_debug(),
            time(token.created),
            token.label.as_deref().unwrap_or("-").escape_debug(),
        )?;
    }
    Ok(())
}

fn revoke(args: &RevokeArgs, out: &mut impl Write) -> Result<()> {
    let store = args.data.access()?;
    let detail = format!("token {}", args.id);
    audited(&store, "revoke_token", None, Some(detail), || {
        ensure!(
            store.revoke_token(&args.id)?,
            "there is no unrevoked token {:?}; `abide token list` lists the tokens",
            args.id
        );
        Ok(())
    })?;
    writeln!(out, "revoked")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_a_number_with_a_unit() {
        assert_eq!(lifetime("90d").unwrap(), Duration::from_hours(24 * 90));
        assert_eq!(lifetime("2w").unwrap(), Duration::from_hours(24 * 14));
        assert_eq!(lifetime("12h").unwrap(), Duration::from_hours(12));
        for wrong in ["", "d", "0d", "-1d", "12", "-3h", "99999999999d", "1é"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
