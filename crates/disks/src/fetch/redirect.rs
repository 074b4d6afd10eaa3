//! Redirects, followed by hand: few, to web servers only, never from HTTPS to HTTP, and without the headers elsewhere.

use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode, Url};

use super::error::FetchError;
use super::source::public;

/// More than any honest server needs.
pub(super) const MOST: usize = 10;

/// Where the answer points; `None` if it is no redirect.
pub(super) fn next(from: &Url, response: &Response) -> Result<Option<Url>, FetchError> {
    let refused = |why| FetchError::BadAnswer {
        address: public(from),
        why,
    };
    if !is_redirect(response.status()) {
        return Ok(None);
    }
    let location = response
        .headers()
        .get(LOCATION)
        .and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| refused("it redirects to nowhere"))?;
    let next = from
        .join(location)
        .map_err(|_| refused("it redirects to something that is no address"))?;
    match (from.scheme(), next.scheme()) {
        ("https", "http") => Err(refused(
            "it redirects from HTTPS to HTTP, where anybody could change the image",
        )),
        (_, "http" | "https") => Ok(Some(next)),
        _ => Err(refused("it redirects to something other than a web server")),
    }
}

const fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Whether headers meant for one server may go to the other.
pub(super) fn is_same_server(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}
