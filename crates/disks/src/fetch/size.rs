//! How big an image is, without fetching it.

use std::time::Duration;

use reqwest::header::CONTENT_LENGTH;
use reqwest::{Response, Url};

use super::{Fetcher, Source, reach, redirect};

impl Fetcher {
    /// Bytes of what is at a web server, if it tells so within the time. Nothing else of the answer is looked at or told.
    pub async fn size(&self, source: &Source, patience: Duration) -> Option<u64> {
        let Source::Http(url) = source else {
            return None;
        };
        let asked = tokio::time::timeout(patience, self.head(url.clone()));
        asked.await.ok()?
    }

    async fn head(&self, mut url: Url) -> Option<u64> {
        for _ in 0..=redirect::MOST {
            reach::check(self.options.reach, &url).await.ok()?;
            let response = self.client.head(url.clone()).send().await.ok()?;
            match redirect::next(&url, &response).ok()? {
                Some(next) => url = next,
                None => return length(&response),
            }
        }
        None
    }
}

fn length(response: &Response) -> Option<u64> {
    let header = response.headers().get(CONTENT_LENGTH)?;
    let header = header
        .to_str()
        .ok()
        .filter(|_| response.status().is_success())?;
    header.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::super::{Options, Reach};
    use super::*;

    async fn server(
        answers: &'static [&'static str],
    ) -> (u16, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 1024];
                let read = stream.read(&mut buffer).await.unwrap();
                let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
                asked.push(text.lines().next().unwrap_or_default().to_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        (port, asked)
    }

    fn fetcher(reach: Reach) -> Fetcher {
        Fetcher::new(Options {
            reach,
            ..Options::default()
        })
        .unwrap()
    }

    async fn size(reach: Reach, port: u16) -> Option<u64> {
        let source = Source::parse(&format!("http://127.0.0.1:{port}/a.iso")).unwrap();
        fetcher(reach).size(&source, Duration::from_secs(20)).await
    }

    #[tokio::test]
    async fn a_server_is_asked_for_the_length_alone_also_where_it_sends_us() {
        let (port, asked) = server(&[
            "HTTP/1.1 302 Found\r\nLocation: /b.iso\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 734003200\r\nConnection: close\r\n\r\n",
        ])
        .await;
        assert_eq!(size(Reach::Anywhere, port).await, Some(734_003_200));
        let asked = asked.await.unwrap();
        assert_eq!(asked, ["HEAD /a.iso HTTP/1.1", "HEAD /b.iso HTTP/1.1"]);
    }

    #[tokio::test]
    async fn who_does_not_tell_has_said_nothing() {
        let (port, _asked) = server(&["HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\n"]).await;
        assert_eq!(size(Reach::Anywhere, port).await, None);
        assert_eq!(
            size(Reach::Others, port).await,
            None,
            "this machine is not asked"
        );
        let file = Source::parse("/etc/hostname").unwrap();
        let patience = Duration::from_secs(1);
        assert_eq!(fetcher(Reach::Anywhere).size(&file, patience).await, None);
    }
}
