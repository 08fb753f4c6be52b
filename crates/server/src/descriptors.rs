//! The process's limit of open descriptors: connections, object files and requests to other servers each need one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as this user may, and logs the result. Default limits are meant for programs that open few
/// files.
pub(crate) fn raise_limit() {
    let before = getrlimit(Resource::Nofile);
    let raised = raised(before);
    if let Some(limit) = &raised
        && let Err(error) = setrlimit(Resource::Nofile, *limit)
    {
        tracing::warn!(%error, limit = before.current, "cannot raise the limit of open descriptors");
        return;
    }
    let now = raised.unwrap_or(before);
    match now.current {
        Some(limit) => tracing::info!(
            limit,
            before = before.current,
            "the process may have this many descriptors open (RLIMIT_NOFILE)"
        ),
        None => {
            tracing::info!("the process may have any number of descriptors open (RLIMIT_NOFILE)");
        }
    }
}

/// The limit raised to its maximum; `None` if it already is.
fn raised(limit: Rlimit) -> Option<Rlimit> {
    (limit.current != limit.maximum).then_some(Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_to_the_most_that_is_allowed() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(raised(limit), None);
    }
}
