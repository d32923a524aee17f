use bytes::Bytes;

use super::*;

const LONG: Duration = Duration::from_mins(1);

fn who(name: &str) -> Principal {
    Principal::new(name).unwrap()
}

async fn read(intake: &Intake, name: &str, text: &str) -> Result<Received, Unread> {
    intake.read(&who(name), Body::from(text.to_owned()), (1000, LONG)).await
}

#[tokio::test]
async fn each_caller_and_all_together_have_a_budget_that_comes_back() {
    let intake = Intake::new(250, 100, 0);
    let first = read(&intake, "ann", &"x".repeat(90)).await.unwrap();
    assert_eq!(first.len(), 90);
    assert_eq!(read(&intake, "ann", &"x".repeat(11)).await.err(), Some(Unread::CallerFull));
    let others = [read(&intake, "bob", &"x".repeat(90)).await, read(&intake, "eve", "x").await];
    assert!(others.iter().all(Result::is_ok));
    assert_eq!(read(&intake, "joe", &"x".repeat(80)).await.err(), Some(Unread::AllFull));
    drop(first);
    assert!(read(&intake, "ann", &"x".repeat(90)).await.is_ok(), "it came back");
    drop(others);
    let table = intake.0.table.lock();
    assert_eq!((table.all, table.by_caller.len()), (0, 0), "refused ones leave nothing behind");
}

#[tokio::test]
async fn what_is_small_is_not_charged() {
    let intake = Intake::new(250, 100, 50);
    let small = [read(&intake, "ann", &"x".repeat(50)).await, read(&intake, "ann", "x").await];
    assert!(small.iter().all(Result::is_ok) && intake.0.table.lock().all == 0);
    let large = read(&intake, "ann", &"x".repeat(51)).await.unwrap();
    assert_eq!(intake.0.table.lock().all, 51, "all of it");
    drop((small, large));
    assert_eq!(intake.0.table.lock().all, 0);
}

#[tokio::test]
async fn values_count_as_what_they_become() {
    let intake = Intake::new(10_000, 1000, 0);
    assert!(read(&intake, "ann", &"0".repeat(900)).await.is_ok());
    let many = format!("[{}0]", "0,".repeat(20));
    assert_eq!(read(&intake, "ann", &many).await.err(), Some(Unread::CallerFull));
}

#[tokio::test(start_paused = true)]
async fn unfinished_bodies_count_and_end() {
    let intake = Intake::new(1000, 100, 0);
    let (sender, pieces) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let ann = who("ann");
    let pieces = futures_util::stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.recv().await?;
        Some((piece, pieces))
    });
    let body = Body::from_stream(pieces);
    let slow = intake.read(&ann, body, (1000, LONG));
    let other = async {
        for _ in 0..90 {
            sender.send(Ok(Bytes::from_static(b"x"))).await.unwrap();
        }
        // Until all of it has been read.
        drop(sender.reserve().await);
        let refused = read(&intake, "ann", &"x".repeat(20)).await.err();
        assert_eq!(refused, Some(Unread::CallerFull));
    };
    let (slow, ()) = tokio::join!(slow, other);
    assert_eq!(slow.err(), Some(Unread::Slow));
    assert!(read(&intake, "ann", &"x".repeat(100)).await.is_ok());
    let large = read(&intake, "ann", &"x".repeat(1001)).await.err();
    assert_eq!(large, Some(Unread::TooLarge(1000)));
}
