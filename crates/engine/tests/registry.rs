//! Access tokens and webhooks through the engine.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use ff_core::Ms;
use ff_core::commands::{NoteDelivery, Sent, SetWebhook};
use ff_core::registry::{AccessToken, Role};
use ff_core::suspension::token::Secret;
use ff_engine::subscription::Item;
use ff_engine::{AccessSecret, Engine, EngineConfig, EventFilter, NewToken, Start};
use ff_store::{ManualClock, MemoryStore};

const START: Ms = 1_800_000_000_000;

/// Two servers on one store, and the clock of all three.
struct Pair {
    clock: Arc<ManualClock>,
    here: Engine,
    there: Engine,
}

async fn pair(partitions: u16) -> Pair {
    let clock = Arc::new(ManualClock::at(START));
    let store = MemoryStore::with_clock(partitions, clock.clone());
    let config = EngineConfig { local_clock: Some(clock.clone()), ..EngineConfig::default() };
    let here = Engine::start(Arc::new(store.another()), config.clone()).await.unwrap();
    let there = Engine::start(Arc::new(store.another()), config).await.unwrap();
    Pair { clock, here, there }
}

fn new_token(name: &str) -> NewToken {
    NewToken {
        name: name.into(),
        role: Role::Operator,
        namespaces: vec!["billing".parse().unwrap()],
        see_payloads: false,
        expires_in_ms: None,
        actor: "ada".into(),
        cause: "test".into(),
    }
}

async fn create(engine: &Engine, new: NewToken) -> (Arc<AccessToken>, AccessSecret) {
    engine.create_token(new).await.unwrap()
}

async fn opens(engine: &Engine, secret: &AccessSecret) -> bool {
    engine.token_of(secret.reveal()).await.unwrap().is_some()
}

#[tokio::test]
async fn a_token_is_found_by_its_secret_and_by_nothing_else() {
    for partitions in [1, 3, 8] {
        let Pair { here, there, .. } = pair(partitions).await;
        let (token, secret) = create(&here, new_token("deploys")).await;
        assert!(token.id.starts_with("tok_") && token.id.len() == 20, "{}", token.id);
        assert_eq!(here.token_of(secret.reveal()).await.unwrap(), Some(token.clone()));
        assert_eq!(there.token_of(secret.reveal()).await.unwrap(), Some(token.clone()));
        let text = secret.reveal();
        for wrong in ["", "ffk_", &text[..46], &format!("{text}A"), &text.to_uppercase(), &token.id] {
            assert_eq!(here.token_of(wrong).await.unwrap(), None, "{wrong}");
        }
        assert_eq!(here.tokens().await.unwrap(), [token]);
    }
}

#[tokio::test]
async fn a_revoked_token_is_refused_here_at_once_and_elsewhere_within_a_second() {
    let Pair { clock, here, there } = pair(3).await;
    let (token, secret) = create(&here, new_token("deploys")).await;
    assert!(opens(&here, &secret).await && opens(&there, &secret).await);
    let revoked = here.revoke_token(&token.id, "bob", "leaked").await.unwrap();
    assert_eq!(revoked.revoked.as_ref().map(|it| &*it.by.actor), Some("bob"));
    assert!(!opens(&here, &secret).await);
    clock.advance(1_000);
    assert!(!opens(&there, &secret).await);
    assert_eq!(there.revoke_token(&token.id, "eve", "").await.unwrap(), revoked, "the first stands");
    assert_eq!(here.revoke_token("tok_0", "bob", "").await.unwrap_err().code(), "not_found");
    assert_eq!(there.tokens().await.unwrap(), [revoked]);
}

#[tokio::test]
async fn a_new_token_is_good_elsewhere_within_a_second() {
    let Pair { clock, here, there } = pair(3).await;
    assert_eq!(there.token_of("ffk_unknown").await.unwrap(), None);
    let (_, secret) = create(&here, new_token("deploys")).await;
    clock.advance(1_000);
    assert!(opens(&there, &secret).await);
}

#[tokio::test]
async fn a_token_expires_by_the_clock_of_the_store_also_in_memory() {
    let Pair { clock, here, .. } = pair(1).await;
    let (token, secret) = create(&here, NewToken { expires_in_ms: Some(500), ..new_token("short") }).await;
    assert_eq!(token.expires_at, Some(START + 500));
    assert!(opens(&here, &secret).await);
    clock.advance(499);
    assert!(opens(&here, &secret).await);
    clock.advance(1);
    assert!(!opens(&here, &secret).await);
}

#[tokio::test]
async fn without_the_store_nobody_is_let_in_on_old_knowledge() {
    let Pair { clock, here, .. } = pair(1).await;
    let (_, secret) = create(&here, new_token("deploys")).await;
    assert!(opens(&here, &secret).await);
    here.store().close().await;
    assert!(opens(&here, &secret).await, "what is known is fresh enough");
    clock.advance(1_000);
    assert_eq!(here.token_of(secret.reveal()).await.unwrap_err().code(), "unavailable");
}

#[tokio::test]
async fn creating_and_revoking_are_events_with_an_actor_and_without_secrets() {
    let Pair { here, .. } = pair(3).await;
    let mut events = here.subscribe(EventFilter::default(), Start::Beginning).await.unwrap();
    let (token, secret) = create(&here, new_token("deploys")).await;
    here.revoke_token(&token.id, "bob", "leaked").await.unwrap();
    let hash = String::from(token.hash);
    for (word, actor) in [("token_created", "ada"), ("token_revoked", "bob")] {
        let Item::Event { event, .. } = events.next().await else { panic!("the store is there") };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(event.fact.word(), word);
        assert!(text.contains(actor) && text.contains(&*token.id), "{text}");
        assert!(!text.contains(secret.reveal()) && !text.contains(&hash), "{text}");
    }
}

fn hook(id: &str) -> SetWebhook {
    SetWebhook {
        id: id.into(),
        url: "https://example.test/in".into(),
        secret: Some(Secret([1; 32])),
        first_secret: None,
        families: Vec::new(),
        namespace: None,
        lane: None,
        facts: Vec::new(),
        paused: false,
        begin: None,
        actor: "ada".into(),
        cause: "test".into(),
    }
}

#[tokio::test]
async fn a_new_webhook_begins_now_and_a_change_leaves_it_where_it_is() {
    let Pair { here, there, .. } = pair(3).await;
    create(&here, new_token("an event before")).await;
    let made = here.set_webhook(hook("chat")).await.unwrap();
    let cursor = made.cursor.clone().expect("it begins somewhere");
    let start = Start::After(cursor.parse().unwrap());
    let mut events = here.subscribe(EventFilter::default(), start).await.unwrap();
    let Item::Event { event, .. } = events.next().await else { panic!("the store is there") };
    assert_eq!(event.fact.word(), "webhook_set", "what came before is not delivered");
    let changed = there.set_webhook(SetWebhook { secret: None, paused: true, ..hook("chat") }).await.unwrap();
    assert_eq!((changed.cursor.as_deref(), changed.revision), (Some(&*cursor), 2));
    assert_eq!(here.webhooks().await.unwrap(), std::slice::from_ref(&changed));
    assert_eq!(here.webhook("chat").await.unwrap(), Some(changed));
    assert_eq!(here.webhook("other").await.unwrap(), None);
    let wrong = SetWebhook { begin: Some("yesterday".into()), ..hook("wrong") };
    assert_eq!(here.set_webhook(wrong).await.unwrap_err().code(), "invalid");
    here.remove_webhook("chat", "ada", "done").await.unwrap();
    assert_eq!(there.webhooks().await.unwrap(), []);
    assert_eq!(there.remove_webhook("chat", "ada", "").await.unwrap_err().code(), "not_found");
}

#[tokio::test]
async fn of_two_servers_that_deliver_the_same_one_is_told_so() {
    let Pair { here, there, .. } = pair(3).await;
    let made = here.set_webhook(hook("chat")).await.unwrap();
    here.take_webhook("chat", None).await.unwrap();
    assert_eq!(there.take_webhook("chat", None).await.unwrap_err().code(), "delivery_superseded");
    let sent = Sent { number: 1, events: 1, status: Some(200), error: None, took_ms: 3 };
    let note = NoteDelivery {
        webhook: "chat".into(),
        server: here.server().into(),
        from: made.cursor.clone(),
        to: "c1.x".into(),
        sent: Some(sent.clone()),
        seed: 1,
    };
    let other = NoteDelivery { sent: Some(Sent { took_ms: 9, ..sent }), ..note.clone() };
    let moved = here.note_delivery(note).await.unwrap();
    assert_eq!((moved.cursor.as_deref(), moved.tried), (Some("c1.x"), 1));
    assert_eq!(there.note_delivery(other).await.unwrap_err().code(), "delivery_superseded");
}
