use super::*;
use crate::runtime::key::Kind;

fn vm(name: &str) -> Key {
    Key::new(Kind::VirtualMachine, ObjectKey::new("ns", name))
}

fn lane(name: &str) -> Lane {
    Lane::Provider(ObjectKey::new("ns", name))
}

async fn popped(queue: &Queue) -> Ticket {
    tokio::time::timeout(Duration::from_secs(5), queue.pop())
        .await
        .expect("something is ready")
}

async fn nothing(queue: &Queue) {
    assert!(
        tokio::time::timeout(Duration::from_millis(10), queue.pop())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_user_goes_first_and_often_is_once() {
    let queue = Queue::new(9);
    queue.add(vm("old"), lane("p"), Urgency::Background);
    queue.add(vm("old"), lane("p"), Urgency::Background);
    queue.add(vm("edited"), lane("p"), Urgency::User);
    assert_eq!(popped(&queue).await.key, vm("edited"));
    assert_eq!(popped(&queue).await.key, vm("old"));
    assert!(queue.is_idle());
}

#[tokio::test(start_paused = true)]
async fn never_twice_at_once_and_never_forgotten() {
    let queue = Queue::new(9);
    queue.add(vm("a"), lane("p"), Urgency::Event);
    let first = popped(&queue).await;
    queue.add(vm("a"), lane("p"), Urgency::Event);
    nothing(&queue).await;
    drop(first);
    assert_eq!(popped(&queue).await.key, vm("a"));
}

#[tokio::test(start_paused = true)]
async fn a_full_lane_holds_nobody_else_up() {
    let queue = Queue::new(1);
    for name in ["a", "b", "c"] {
        queue.add(vm(name), lane("sick"), Urgency::User);
    }
    queue.add(vm("d"), lane("well"), Urgency::Background);
    let stuck = popped(&queue).await;
    assert_eq!(stuck.lane, lane("sick"));
    assert_eq!(popped(&queue).await.lane, lane("well"));
    nothing(&queue).await;
    drop(stuck);
    assert_eq!(popped(&queue).await.key, vm("b"));
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_times_counts_and_now_beats_both() {
    let queue = Queue::new(9);
    let begin = Instant::now();
    queue.add_after(vm("a"), lane("p"), Urgency::Event, Duration::from_secs(9));
    queue.add_after(vm("a"), lane("p"), Urgency::Event, Duration::from_secs(2));
    queue.add_after(vm("a"), lane("p"), Urgency::Event, Duration::from_secs(5));
    drop(popped(&queue).await);
    assert_eq!(begin.elapsed(), Duration::from_secs(2));
    nothing(&queue).await;
    queue.add_after(vm("a"), lane("p"), Urgency::Event, Duration::from_secs(3));
    queue.add(vm("a"), lane("p"), Urgency::Event);
    drop(popped(&queue).await);
    assert!(
        tokio::time::timeout(Duration::from_secs(4), queue.pop())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_user_finds_room_among_what_nobody_waits_for() {
    let queue = Queue::new(8);
    for name in ["a", "b", "c"] {
        queue.add(vm(name), lane("p"), Urgency::Event);
    }
    let running = [popped(&queue).await, popped(&queue).await];
    nothing(&queue).await;
    queue.add(vm("edited"), lane("p"), Urgency::User);
    assert_eq!(popped(&queue).await.key, vm("edited"));
    nothing(&queue).await;
    drop(running);
    assert_eq!(popped(&queue).await.key, vm("c"));
}

#[tokio::test(start_paused = true)]
async fn lanes_take_turns() {
    let queue = Queue::new(9);
    for name in ["a", "b", "c"] {
        queue.add(vm(name), lane("p"), Urgency::Event);
    }
    queue.add(vm("x"), lane("q"), Urgency::Event);
    let order: Vec<_> = [popped(&queue).await, popped(&queue).await]
        .iter()
        .map(|t| t.lane.clone())
        .collect();
    assert_eq!(order, vec![lane("p"), lane("q")]);
}
