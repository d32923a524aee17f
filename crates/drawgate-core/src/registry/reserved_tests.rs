//! Ids that are kept for what the operator has set up.

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;

use super::*;

impl Fixture {
    async fn reserve(&self, holder: Holder, ids: &[&str]) {
        let ids: BTreeSet<SourceId> = ids.iter().map(|id| SourceId::new(id).unwrap()).collect();
        self.supervisor.reserve(holder, ids).await;
    }

    /// Who has the id, for a pack that comes.
    async fn holder(&self, id: &str) -> Option<Holder> {
        let guest = Moody::new(id, Mood::Works, &[]);
        let examined = self.supervisor.check_admission(
            guest.clone(),
            guest.manifest_now(guest.id.clone()),
            flat(),
        );
        let admitted = self.admit(&guest).await;
        assert_eq!(examined.is_ok(), admitted.is_ok(), "{examined:?} {admitted:?}");
        match admitted {
            Ok(()) => {
                let guest: Arc<dyn ToolSource> = guest;
                assert!(self.supervisor.remove_admitted(&guest).await);
                None
            }
            Err(RegistrationError::Reserved(taken)) => Some(taken.holder),
            Err(other) => panic!("{other}"),
        }
    }

    /// A pack that leaves when it must; cancelled when it has noticed.
    async fn guest(&self, pack: &Arc<Moody>) -> CancellationToken {
        let manifest = pack.manifest_now(pack.id.clone());
        let notice = self.supervisor.admit(pack.clone(), manifest, flat()).await.unwrap();
        let (supervisor, source) =
            (Arc::clone(&self.supervisor), Arc::clone(pack) as Arc<dyn ToolSource>);
        let left = CancellationToken::new();
        let noticed = left.clone();
        tokio::spawn(async move {
            notice.cancelled().await;
            noticed.cancel();
            supervisor.remove_admitted(&source).await;
        });
        left
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_operator_has_set_up_is_for_no_pack() {
    let fixture = fixture();
    fixture.reserve(Holder::Server, &["both", "server"]).await;
    fixture.reserve(Holder::Toolpack, &["both", "kit"]).await;
    for (id, holder) in [
        ("server", Some(Holder::Server)),
        ("Server", Some(Holder::Server)),
        ("k1t", Some(Holder::Toolpack)),
        ("kit", Some(Holder::Toolpack)),
        ("both", Some(Holder::Server)),
        ("other", None),
    ] {
        assert_eq!(fixture.holder(id).await, holder, "{id}");
    }
    fixture.reserve(Holder::Server, &["server"]).await;
    assert_eq!(fixture.holder("both").await, Some(Holder::Toolpack), "it has two holders");
    fixture.reserve(Holder::Toolpack, &[]).await;
    assert_eq!((fixture.holder("both").await, fixture.holder("kit").await), (None, None));
    assert_eq!(fixture.holder("server").await, Some(Holder::Server));
    // A refusal says who has it.
    let guest = Moody::new("server", Mood::Works, &[]);
    let refused = fixture.admit(&guest).await.unwrap_err();
    assert_eq!(refused.to_string(), "`server` is a server of the gateway");
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_is_free_when_it_has_ended() {
    let fixture = fixture();
    fixture.reserve(Holder::Toolpack, &["runs", "broken", "idle"]).await;
    fixture.add(&Moody::new("runs", Mood::Works, &["a"]));
    fixture.supervisor.report_unusable(&SourceId::new("broken").unwrap(), &[], "bad".to_owned());
    fixture.supervisor.settle(Duration::from_secs(1)).await;
    fixture.reserve(Holder::Toolpack, &[]).await;
    assert_eq!(fixture.holder("idle").await, None, "there was nothing to end");
    for id in ["runs", "broken"] {
        assert_eq!(fixture.holder(id).await, Some(Holder::Toolpack), "{id}");
        fixture.supervisor.remove(&SourceId::new(id).unwrap()).await;
        assert_eq!(fixture.holder(id).await, None, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_does_not_free_what_is_still_wanted() {
    let fixture = fixture();
    fixture.reserve(Holder::Server, &["server"]).await;
    fixture.add(&Moody::new("server", Mood::Works, &["a"]));
    fixture.supervisor.remove(&SourceId::new("server").unwrap()).await;
    assert_eq!(fixture.holder("server").await, Some(Holder::Server));
}

#[tokio::test(start_paused = true)]
async fn a_pack_makes_way_for_the_operator() {
    let fixture = fixture();
    let (pack, other) =
        (Moody::new("pack", Mood::Works, &["a"]), Moody::new("other", Mood::Works, &["b"]));
    let left = fixture.guest(&pack).await;
    let stays = fixture.guest(&other).await;
    fixture.reserve(Holder::Server, &["pack"]).await;
    assert!(left.is_cancelled() && pack.closed.load(Ordering::SeqCst));
    assert!(!stays.is_cancelled() && !other.closed.load(Ordering::SeqCst));
    assert_eq!(fixture.listed(), ["other:b"]);
    fixture.add(&Moody::new("pack", Mood::Works, &["c"]));
    fixture.supervisor.settle(Duration::from_secs(1)).await;
    assert_eq!(fixture.listed(), ["other:b", "pack:c"]);
}

#[tokio::test(start_paused = true)]
async fn a_pack_that_does_not_leave_is_ended() {
    let fixture = fixture();
    let pack = Moody::new("pack", Mood::Works, &["a"]);
    fixture.admit(&pack).await.unwrap();
    fixture.reserve(Holder::Server, &["pack"]).await;
    assert!(pack.closed.load(Ordering::SeqCst));
    assert_eq!(fixture.listed(), [""; 0]);
}
