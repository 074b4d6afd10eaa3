//! Headers of requests and answers.

use polyvirt_contract::model::Headers;
use reqwest::header::{CONTENT_RANGE, HeaderMap, HeaderName, HeaderValue, RANGE};

use super::error::FetchError;

/// Which part an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) first: u64,
    pub(super) total: Option<u64>,
}

/// What the user asked to send, marked as secret for whatever prints headers. Parts are our own business.
pub(super) fn request_headers(headers: &Headers) -> Result<HeaderMap, FetchError> {
    let mut map = HeaderMap::new();
    for (name, value) in &headers.0 {
        let invalid = || FetchError::Header { name: name.clone() };
        let key = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| invalid())?;
        value.set_sensitive(true);
        if key != RANGE {
            map.insert(key, value);
        }
    }
    Ok(map)
}

/// `bytes 5-9/10`, where the total may be `*`.
pub(super) fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    let total = match total.trim() {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    // A part that is not up to the end would leave the file incomplete without a sign.
    let is_rest =
        first <= last && total.is_none_or(|total: u64| total.checked_sub(1) == Some(last));
    is_rest.then_some(ContentRange { first, total })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<ContentRange> {
        content_range(&HeaderMap::from_iter([(
            CONTENT_RANGE,
            HeaderValue::from_str(text).unwrap(),
        )]))
    }

    #[test]
    fn only_the_rest_of_a_file_is_a_useful_part() {
        assert_eq!(
            parsed("bytes 5-9/10"),
            Some(ContentRange {
                first: 5,
                total: Some(10)
            })
        );
        assert_eq!(
            parsed("bytes 5-9/*"),
            Some(ContentRange {
                first: 5,
                total: None
            })
        );
        for bad in [
            "bytes 5-8/10",
            "bytes 9-5/10",
            "bytes */10",
            "bytes 5-9",
            "items 5-9/10",
            "bytes 5-9/0",
            "bytes a-b/c",
            "",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn header_values_are_marked_as_secret() {
        let headers = Headers(
            [
                ("X-Token".to_owned(), "hunter2".to_owned()),
                ("Range".to_owned(), "bytes=1-".to_owned()),
            ]
            .into(),
        );
        let map = request_headers(&headers).unwrap();
        assert!(!format!("{map:?}").contains("hunter2"));
        assert_eq!(map.len(), 1);
        let error = request_headers(&Headers(
            [("X-Bad".to_owned(), "hunter2\n".to_owned())].into(),
        ))
        .unwrap_err();
        assert!(
            error.to_string().contains("X-Bad") && !error.to_string().contains("hunter2"),
            "{error}"
        );
    }
}
