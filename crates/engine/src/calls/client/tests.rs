use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;

/// A server that gives these answers in turn, and then tells what it was asked.
async fn server(answers: Vec<String>) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("a port").port();
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a caller");
            let mut buffer = [0; 2048];
            let read = stream.read(&mut buffer).await.expect("a request");
            asked.push(String::from_utf8_lossy(&buffer[..read]).into_owned());
            stream.write_all(answer.as_bytes()).await.expect("sent");
        }
        asked
    });
    (port, asked)
}

fn answer(status: &str, more: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n")
}

fn to(host: &str, port: u16, path: &str) -> Call {
    Call::new("http", host, port, path, Certificate::Trusted).expect("an address")
}

fn allowing(ranges: &[&str]) -> Caller {
    let allowed = ranges.iter().map(|r| r.parse().expect("a range"));
    Caller::new(Policy {
        allowed: allowed.collect(),
        denied: Vec::new(),
    })
}

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_server_that_may_be_called_is_and_its_status_is_told() {
    let (port, asked) = server(vec![answer("204 No Content", "")]).await;
    let call = to("127.0.0.1", port, "/ready?token=hidden");
    let told = allowing(&["127.0.0.1"]).get(&call, PATIENCE).await;
    let address = format!("http://127.0.0.1:{port}/ready");
    assert_eq!(
        told,
        Ok(Answer {
            address,
            status: 204
        })
    );
    let asked = asked.await.expect("asked");
    assert!(asked[0].starts_with("GET /ready?token=hidden HTTP/1.1\r\n"));
    for header in ["authorization", "cookie"] {
        assert!(!asked[0].to_ascii_lowercase().contains(header), "{asked:?}");
    }
}

#[tokio::test]
async fn what_only_the_manager_sees_is_not_called_however_it_is_written() {
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "::1",
        "[::1]",
        "::ffff:127.0.0.1",
        "localhost",
        "169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "0.0.0.0",
    ] {
        let refused = Caller::default().get(&to(host, 9, "/"), PATIENCE).await;
        assert!(
            matches!(refused, Err(CallError::Inside(_))),
            "{host}: {refused:?}"
        );
    }
    let services = Policy::default().but(vec!["10.96.0.0/12".parse().expect("a range")]);
    let refused = Caller::new(services)
        .get(&to("10.96.0.1", 443, "/"), PATIENCE)
        .await;
    assert!(matches!(refused, Err(CallError::Inside(_))), "{refused:?}");
}

/// The server may be called, the name that it points to may not: nobody asks there.
#[tokio::test]
async fn a_redirect_to_the_inside_is_refused() {
    let (inside, asked_inside) = server(vec![answer("200 OK", "")]).await;
    for target in [
        format!("http://127.0.0.2:{inside}/secret"),
        format!("http://localhost.localdomain:{inside}/"),
        format!("//169.254.169.254:{inside}/latest"),
    ] {
        let (port, _) = server(vec![answer(
            "302 Found",
            &format!("Location: {target}\r\n"),
        )])
        .await;
        let call = to("127.0.0.1", port, "/");
        let refused = allowing(&["127.0.0.1"]).get(&call, PATIENCE).await;
        let told = refused.expect_err("refused");
        let named = matches!(told, CallError::Inside(_) | CallError::Unreachable { .. });
        assert!(named, "{target}: {told:?}");
    }
    assert!(!asked_inside.is_finished(), "nobody asked inside");
    asked_inside.abort();
}

#[tokio::test]
async fn a_redirect_to_a_server_that_may_be_called_is_followed() {
    let (port, asked) = server(vec![
        answer("307 Temporary Redirect", "Location: /there\r\n"),
        answer("200 OK", ""),
    ])
    .await;
    let told = allowing(&["127.0.0.0/8"])
        .get(&to("127.0.0.1", port, "/here"), PATIENCE)
        .await;
    assert_eq!(
        told.expect("an answer").address,
        format!("http://127.0.0.1:{port}/there")
    );
    assert_eq!(asked.await.expect("asked").len(), 2);
}

#[tokio::test]
async fn redirects_end() {
    let round = || answer("302 Found", "Location: /again\r\n");
    let (port, _) = server((0..=MOST_REDIRECTS).map(|_| round()).collect()).await;
    let told = allowing(&["127.0.0.1"])
        .get(&to("127.0.0.1", port, "/"), PATIENCE)
        .await;
    assert!(matches!(told, Err(CallError::Redirect { .. })), "{told:?}");
    let (port, _) = server(vec![answer(
        "302 Found",
        "Location: file:///etc/passwd\r\n",
    )])
    .await;
    let told = allowing(&["127.0.0.1"])
        .get(&to("127.0.0.1", port, "/"), PATIENCE)
        .await;
    assert!(matches!(told, Err(CallError::Redirect { .. })), "{told:?}");
}

#[tokio::test]
async fn who_does_not_answer_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = silent.local_addr().expect("a port").port();
    let call = to("127.0.0.1", port, "/?token=hidden");
    let told = allowing(&["127.0.0.1"])
        .get(&call, Duration::from_millis(200))
        .await;
    let error = told.expect_err("late");
    assert!(matches!(error, CallError::Late { .. }), "{error:?}");
    assert!(!error.to_string().contains("hidden"), "{error}");
    drop(silent);
    let told = allowing(&["127.0.0.1"]).get(&call, PATIENCE).await;
    let error = told.expect_err("nobody is there");
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    assert!(!error.to_string().contains("hidden"), "{error}");
}

#[test]
fn a_host_is_a_host_and_a_path_stays_one() {
    for host in ["a/b", "user@host", "a?b", "a#b", "", "a b"] {
        let refused = Call::new("http", host, 80, "/", Certificate::Trusted);
        assert!(refused.is_err(), "{host}: {refused:?}");
    }
    let call = to("10.0.0.5", 8080, "//evil.example/x#y");
    assert_eq!(call.url.host_str(), Some("10.0.0.5"));
    let six = to("fd12::1", 80, "");
    assert_eq!(public(&six.url), "http://[fd12::1]/");
}
