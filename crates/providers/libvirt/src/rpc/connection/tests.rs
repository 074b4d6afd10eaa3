use tokio::io::{AsyncWriteExt as _, DuplexStream};

use super::*;
use crate::rpc::frame;
use crate::rpc::procedure::{CONNECT_GET_LIB_VERSION, STORAGE_VOL_UPLOAD};
use crate::rpc::stream::Stream;

fn quiet() -> OnEvent {
    Arc::new(|_| ())
}

fn pair() -> (Connection, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    (Connection::start(ours, quiet()), theirs)
}

async fn answer(to: &mut DuplexStream, asked: Header, status: Status, body: &[u8]) {
    let header = Header {
        kind: if asked.kind == Kind::Call {
            Kind::Reply
        } else {
            asked.kind
        },
        status,
        ..asked
    };
    to.write_all(&header.with(body)).await.expect("written");
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let (connection, mut server) = pair();
    let serve = async {
        let first = frame::next(&mut server).await.expect("asked").0;
        let second = frame::next(&mut server).await.expect("asked").0;
        answer(&mut server, second, Status::Ok, &2_u64.to_be_bytes()).await;
        answer(&mut server, first, Status::Ok, &1_u64.to_be_bytes()).await;
    };
    let ask = || connection.call::<u64>(CONNECT_GET_LIB_VERSION, &());
    let (first, second, ()) = tokio::join!(ask(), ask(), serve);
    assert_eq!((first, second), (Ok(1), Ok(2)));
}

#[tokio::test]
async fn an_error_of_libvirt_is_told_with_its_number() {
    let (connection, mut server) = pair();
    let serve = async {
        let asked = frame::next(&mut server).await.expect("asked").0;
        let body = xdr::write(&(42_i32, 10_i32, Some("no domain"), 2_i32));
        answer(&mut server, asked, Status::Error, &body).await;
    };
    let ask = connection.call::<u64>(CONNECT_GET_LIB_VERSION, &());
    let (answer, ()) = tokio::join!(ask, serve);
    let error = answer.expect_err("refused");
    assert!(error.is(42) && error.is_absence(), "{error}");
}

#[tokio::test]
async fn a_broken_connection_ends_every_call_with_the_reason() {
    let (connection, server) = pair();
    let ask = || connection.call::<u64>(CONNECT_GET_LIB_VERSION, &());
    let breaks = async {
        tokio::task::yield_now().await;
        drop(server);
    };
    let (first, second, ()) = tokio::join!(ask(), ask(), breaks);
    for answer in [first, second, ask().await] {
        assert!(
            matches!(answer, Err(RpcError::Unreachable(_))),
            "{answer:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_answer_ends_and_frees_its_place() {
    let (connection, server) = pair();
    for _ in 0..=CALLS {
        let answer = connection.call::<u64>(CONNECT_GET_LIB_VERSION, &()).await;
        assert_eq!(answer, Err(RpcError::Late(157)));
    }
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_connection_and_a_sign_keeps_it() {
    let (connection, mut server) = pair();
    connection.keep_alive();
    for _ in 0..20 {
        let (asked, _) = frame::next(&mut server).await.expect("a ping");
        assert_eq!((asked.program, asked.procedure), (KEEPALIVE, PING));
        let pong = Header {
            procedure: PONG,
            ..asked
        };
        server.write_all(&pong.with(&[])).await.expect("written");
    }
    assert!(!connection.over().is_cancelled());
    connection.over().cancelled().await;
    assert!(connection.why().contains("no sign of life"));
}

#[tokio::test]
async fn the_other_sides_ping_is_answered() {
    let (_connection, mut server) = pair();
    let ping = Header {
        program: KEEPALIVE,
        procedure: PING,
        kind: Kind::Message,
        serial: 0,
        status: Status::Ok,
    };
    server.write_all(&ping.with(&[])).await.expect("written");
    let (said, _) = frame::next(&mut server).await.expect("an answer");
    assert_eq!((said.program, said.procedure), (KEEPALIVE, PONG));
}

#[tokio::test]
async fn a_stream_is_cut_into_pieces_and_ends_when_it_was_taken() {
    let (connection, mut server) = pair();
    let data = vec![7; frame::MOST_STREAM_BYTES + 5];
    let serve = async {
        let asked = frame::next(&mut server).await.expect("asked").0;
        answer(&mut server, asked, Status::Ok, &[]).await;
        let mut got = Vec::new();
        loop {
            let (header, body) = frame::next(&mut server).await.expect("a piece");
            assert_eq!((header.kind, header.serial), (Kind::Stream, asked.serial));
            if header.status == Status::Ok {
                answer(&mut server, header, Status::Ok, &[]).await;
                return got;
            }
            got.extend_from_slice(&body);
        }
    };
    let send = async {
        let stream = Stream::open(&connection, STORAGE_VOL_UPLOAD, &()).await?;
        stream.send(&data).await?;
        stream.finish().await
    };
    let (outcome, got) = tokio::join!(send, serve);
    assert_eq!(outcome, Ok(()));
    assert_eq!(got, data);
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_taken_down() {
    let (connection, mut server) = pair();
    let serve = async {
        let asked = frame::next(&mut server).await.expect("asked").0;
        answer(&mut server, asked, Status::Ok, &[]).await;
        frame::next(&mut server).await.expect("a word").0
    };
    let send = async {
        let stream = Stream::open(&connection, STORAGE_VOL_UPLOAD, &()).await;
        drop(stream.expect("open"));
    };
    let ((), last) = tokio::join!(send, serve);
    assert_eq!((last.kind, last.status), (Kind::Stream, Status::Error));
}

#[tokio::test]
async fn events_reach_whoever_listens() {
    let (ours, mut theirs) = tokio::io::duplex(4096);
    let (sender, mut events) = mpsc::unbounded_channel();
    let _connection = Connection::start(
        ours,
        Arc::new(move |event| {
            let _ = sender.send(event);
        }),
    );
    let uuid = Uuid::from_bytes([5; 16]);
    let header = Header {
        program: REMOTE,
        procedure: 318,
        kind: Kind::Message,
        serial: 0,
        status: Status::Ok,
    };
    let body = xdr::write(&(3_i32, &Domain::of(uuid), 4_i32, 0_i32));
    theirs
        .write_all(&header.with(&body))
        .await
        .expect("written");
    let expected = Event {
        procedure: 318,
        domain: uuid,
        turn: Some(Turn::Resumed),
    };
    assert_eq!(events.recv().await, Some(expected));
}
