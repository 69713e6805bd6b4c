//! As much of HTTP/1.1 (RFC 9112) as a client needs that asks for files and counts their bytes.

use std::net::IpAddr;

/// Longest head of a response that is read, in bytes.
const MOST: usize = 16 * 1024;

/// A request for a file; the connection is kept.
#[must_use]
pub(super) fn request(host: IpAddr, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ackgate\r\n\r\n").into_bytes()
}

/// What has come of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// Some of its head.
    Head(Vec<u8>),
    /// All but so many bytes.
    Body(u64),
}

impl Response {
    /// Nothing yet.
    pub(super) const fn begin() -> Self {
        Self::Head(Vec::new())
    }

    /// Whether all of it has come.
    pub(super) const fn is_complete(&self) -> bool {
        matches!(self, Self::Body(0))
    }

    /// Takes what has come.
    ///
    /// # Errors
    /// What is wrong: a status other than 200, a body of unknown length, more than was asked for.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let body = match self {
            Self::Body(_) => bytes.len() as u64,
            Self::Head(head) => {
                head.extend_from_slice(bytes);
                let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else {
                    return if head.len() > MOST { Err("its head does not end".into()) } else { Ok(()) };
                };
                let length = length(&String::from_utf8_lossy(&head[..end]))?;
                let body = (head.len() - end - 4) as u64;
                *self = Self::Body(length);
                body
            }
        };
        let Self::Body(left) = self else { return Ok(()) };
        *left = left.checked_sub(body).ok_or("more bytes came than it announced")?;
        Ok(())
    }
}

/// The length of the body that a head announces.
fn length(head: &str) -> Result<u64, String> {
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("it says `{status}`"));
    }
    lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| "it does not say how long it is".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-Length: 5\r\n\r\nhello";

    #[test]
    fn what_is_no_file_is_told() {
        let told = |text: &[u8]| Response::begin().take(text).expect_err("it is no file");
        assert_eq!(told(b"HTTP/1.1 404 Not Found\r\n\r\n"), "it says `HTTP/1.1 404 Not Found`");
        assert!(told(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").contains("how long"));
        assert!(told(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab").contains("more bytes"));
    }

    proptest! {
        #[test]
        fn a_response_may_come_in_any_pieces(cuts in proptest::collection::vec(1_usize..10, 0..40)) {
            let (mut response, mut rest) = (Response::begin(), WHOLE);
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                prop_assert!(response.take(piece).is_ok());
                rest = after;
                prop_assert_eq!(response.is_complete(), rest.is_empty());
            }
            prop_assert!(response.take(rest).is_ok());
            prop_assert!(response.is_complete());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Response::begin().take(&bytes);
        }
    }
}
