//! The cookie that holds a ticket.
//!
//! Contract: the origin never sees one, of whatever room. Of several cookies of a room's name the first counts; the others are taken out,
//! too. Cookies are bytes: what an application has put into another one does not hide the ticket.

use abide::server::ApiError;
use http::{HeaderMap, HeaderValue, header};

use super::failed;
use crate::{
    room::{Room, cookie_age},
    ticket::Ticket,
};

/// What the names of all rooms' cookies begin with.
const PREFIX: &str = "waiting-room-";

/// The name of a room's cookie.
pub(super) fn name(room: &str) -> String {
    format!("{PREFIX}{room}")
}

/// Takes the cookies of rooms out of a request; returns that of one of them. What is left is one header, also if it came in several, as
/// HTTP/2 sends it (RFC 9113, section 8.2.3).
pub(super) fn take(headers: &mut HeaderMap, names: &[String], wanted: &str) -> Option<String> {
    let mut found = None;
    let mut others: Vec<&[u8]> = Vec::new();
    let sent: Vec<HeaderValue> = headers.get_all(header::COOKIE).iter().cloned().collect();
    let pairs = sent
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    for pair in pairs
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty())
    {
        let own = pair.split(|byte| *byte == b'=').next().unwrap_or(pair);
        let own = own.trim_ascii_end();
        let is_pair = own.len() < pair.len();
        if !is_pair || !names.iter().any(|name| name.as_bytes() == own) {
            others.push(pair);
        } else if found.is_none() && own == wanted.as_bytes() {
            let value = pair[own.len()..].trim_ascii_start().get(1..).unwrap_or(b"");
            found = Some(String::from_utf8_lossy(value.trim_ascii()).into_owned());
        }
    }
    headers.remove(header::COOKIE);
    if let Ok(left) = HeaderValue::from_bytes(&others.join(&b"; "[..]))
        && !others.is_empty()
    {
        headers.insert(header::COOKIE, left);
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

    fn taken(cookies: &[&[u8]]) -> (Option<String>, Vec<Vec<u8>>) {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            let value = HeaderValue::from_bytes(cookie).unwrap();
            headers.append(header::COOKIE, value);
        }
        let names = [name("shop"), name("all")];
        let found = take(&mut headers, &names, &names[0]);
        let left = headers.get_all(header::COOKIE).iter();
        (found, left.map(|value| value.as_bytes().to_vec()).collect())
    }

    #[test]
    fn the_ticket_is_taken_out_and_other_cookies_stay() {
        assert_eq!(
            taken(&[b"a=1; waiting-room-shop=xyz; b=2"]),
            (Some("xyz".to_owned()), vec![b"a=1; b=2".to_vec()])
        );
        assert_eq!(
            taken(&[b"waiting-room-shop=xyz"]),
            (Some("xyz".to_owned()), vec![])
        );
        assert_eq!(
            taken(&[b"waiting-room-shop = xyz "]),
            (Some("xyz".to_owned()), vec![])
        );
        assert_eq!(
            taken(&[b"a=1", b"waiting-room-shop=x", b"waiting-room-shop=y"]),
            (Some("x".to_owned()), vec![b"a=1".to_vec()])
        );
        for other in [&b"waiting-room-shopping=1"[..], b"waiting-room-shop"] {
            assert_eq!(taken(&[other]), (None, vec![other.to_vec()]));
        }
        assert_eq!(taken(&[]), (None, vec![]));
    }

    #[test]
    fn a_cookie_of_the_application_that_is_no_ascii_hides_no_ticket() {
        assert_eq!(
            taken(&["name=Jürgen; waiting-room-shop=xyz".as_bytes()]),
            (
                Some("xyz".to_owned()),
                vec!["name=Jürgen".as_bytes().to_vec()]
            )
        );
        assert_eq!(
            taken(&[b"name=\xff; waiting-room-shop=xyz"]),
            (Some("xyz".to_owned()), vec![b"name=\xff".to_vec()])
        );
    }

    #[test]
    fn the_origin_sees_the_ticket_of_no_room() {
        assert_eq!(
            taken(&[b"waiting-room-all=abc; a=1; waiting-room-shop=xyz"]),
            (Some("xyz".to_owned()), vec![b"a=1".to_vec()])
        );
        assert_eq!(
            taken(&[b"waiting-room-all=abc; a=1"]),
            (None, vec![b"a=1".to_vec()])
        );
    }

    #[test]
    fn cookies_of_several_headers_are_passed_on_in_one() {
        assert_eq!(taken(&[b"a=1", b"b=2"]).1, [b"a=1; b=2"]);
    }
}
