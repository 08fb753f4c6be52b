//! The cookie that holds a ticket.
//!
//! Contract: the origin never sees it. Of several cookies of the name the first counts; the others are taken out, too.

use abide::server::ApiError;
use http::{HeaderMap, HeaderValue, header};

use super::failed;
use crate::{
    room::{Room, cookie_age},
    ticket::Ticket,
};

/// The name of a room's cookie.
pub(super) fn name(room: &str) -> String {
    format!("waiting-room-{room}")
}

/// Takes a cookie out of a request.
pub(super) fn take(headers: &mut HeaderMap, name: &str) -> Option<String> {
    let mut found = None;
    let mut kept = Vec::new();
    for value in headers.get_all(header::COOKIE) {
        // What is no text is passed on as it is.
        let Ok(text) = value.to_str() else {
            kept.push(value.clone());
            continue;
        };
        let mut others = Vec::new();
        for pair in text
            .split(';')
            .map(str::trim)
            .filter(|pair| !pair.is_empty())
        {
            match pair.split_once('=') {
                Some((own, value)) if own.trim_end() == name => {
                    found.get_or_insert_with(|| value.trim().to_owned());
                }
                _ => others.push(pair),
            }
        }
        if let Ok(value) = HeaderValue::from_str(&others.join("; "))
            && !others.is_empty()
        {
            kept.push(value);
        }
    }
    if found.is_some() {
        headers.remove(header::COOKIE);
        for value in kept {
            headers.append(header::COOKIE, value);
        }
    }
    found
}

/// Gives a visitor a ticket.
pub(super) fn give(
    headers: &mut HeaderMap,
    room: &Room,
    ticket: Ticket,
    is_secure: bool,
) -> Result<(), ApiError> {
    let sealed = room.sealer.seal(ticket).ok_or_else(failed)?;
    let settings = &room.settings;
    let (name, path) = (name(&settings.name), &settings.path);
    let age = cookie_age(&ticket, settings.session);
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie =
        format!("{name}={sealed}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Lax{secure}");
    headers.append(
        header::SET_COOKIE,
        HeaderValue::from_str(&cookie).map_err(|_| failed())?,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(cookies: &[&'static str]) -> (Option<String>, Vec<String>) {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(header::COOKIE, HeaderValue::from_static(cookie));
        }
        let found = take(&mut headers, "waiting-room-shop");
        let left = headers.get_all(header::COOKIE).iter();
        (
            found,
            left.map(|value| value.to_str().unwrap().to_owned())
                .collect(),
        )
    }

    #[test]
    fn the_ticket_is_taken_out_and_other_cookies_stay() {
        assert_eq!(
            taken(&["a=1; waiting-room-shop=xyz; b=2"]),
            (Some("xyz".into()), vec!["a=1; b=2".into()])
        );
        assert_eq!(
            taken(&["waiting-room-shop=xyz"]),
            (Some("xyz".into()), vec![])
        );
        assert_eq!(
            taken(&["a=1", "waiting-room-shop=x", "waiting-room-shop=y"]).0,
            Some("x".into())
        );
        assert_eq!(
            taken(&["waiting-room-shopping=1"]),
            (None, vec!["waiting-room-shopping=1".into()])
        );
        assert_eq!(taken(&[]), (None, vec![]));
    }
}
