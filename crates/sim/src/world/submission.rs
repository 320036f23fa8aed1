//! Random submissions over a few lanes, kinds, capabilities and every kind of policy.

use ff_core::class::Capabilities;
use ff_core::commands::{Create, When};
use ff_core::policy::{Backoff, Jitter, LeaseLoss};
use ff_core::tags::Tags;
use ff_core::{Capability, ExecutionId, Kind, LaneName, Ms, Namespace, Payload, Policy, Route};

use crate::profile::Profile;
use crate::rng::Rng;

pub const LANES: [&str; 3] = ["default", "mail", "slow"];
pub const KINDS: [&str; 2] = ["charge", "send"];
pub const WORDS: [&str; 2] = ["eu", "gpu"];
const NAMESPACES: [&str; 2] = ["default", "acme"];

pub fn lane(name: &str) -> LaneName {
    LaneName::parse(name).expect("the lanes of the simulation are valid")
}

pub fn kind(name: &str) -> Kind {
    Kind::parse(name).expect("the kinds of the simulation are valid")
}

pub fn capabilities(words: &[&str]) -> Capabilities {
    let words = words.iter().map(|word| Capability::parse(word).expect("the words are valid"));
    Capabilities::new(words)
}

/// Some of the words, often none.
pub fn some_words(rng: &mut Rng) -> Capabilities {
    let words: Vec<&str> = WORDS.into_iter().filter(|_| rng.chance(2_500)).collect();
    capabilities(&words)
}

pub fn submission(rng: &mut Rng, profile: &Profile, now: Ms) -> Create {
    let namespace = *rng.pick(&NAMESPACES);
    // Few keys, so that they are used again.
    let key = rng.maybe(3_000, |rng| format!("key-{}", rng.below(12)));
    let route = match &key {
        Some(key) => Route::of_key(namespace, key),
        None => Route(rng.draw() as u16),
    };
    let random = rng.draw();
    // The same key mostly comes with the same content.
    let number = if key.is_some() && rng.chance(8_000) { 0 } else { rng.below(100) };
    let mut own = if key.is_some() { Rng::new(number as u64) } else { rng.clone() };
    let rng = &mut own;
    let input = Payload::json(format!("{{\"n\":{number}}}"));
    let kind = kind(rng.pick::<&str>(&KINDS));
    let tags = rng.maybe(1_000, |rng| {
        let value = rng.below(3).to_string();
        Tags::default().edited([("team", value.as_str())], [], &profile.limits).unwrap_or_default()
    });
    Create {
        namespace: Namespace::parse(namespace).expect("the namespaces of the simulation are valid"),
        lane: lane(rng.pick::<&str>(&LANES)),
        priority: if rng.chance(3_000) { rng.range(-100, 100) as i8 } else { 0 },
        start: rng.maybe(2_500, |rng| When::In(rng.range(0, 8_000))),
        deadline: rng.maybe(1_500, |rng| When::In(rng.range(1, 20_000))),
        capabilities: some_words(rng),
        tags: tags.unwrap_or_default(),
        idempotency_key: key.map(String::into_boxed_str),
        policy: policy(rng),
        ..Create::new(ExecutionId::from_parts(now, route, random), kind, input)
    }
}

fn policy(rng: &mut Rng) -> Policy {
    let backoff = Backoff {
        initial_ms: rng.range(0, 2_000),
        factor: *rng.pick(&[1.0, 2.0]),
        max_ms: rng.range(0, 5_000),
        jitter: *rng.pick(&[Jitter::None, Jitter::Full]),
    };
    Policy {
        max_attempts: rng.range(1, 4) as u32,
        backoff,
        max_elapsed_ms: rng.maybe(1_000, |rng| rng.range(1, 30_000)),
        non_retryable: if rng.chance(2_000) { vec!["bad_input".into()] } else { Vec::new() },
        lease_ms: rng.range(300, 4_000),
        lease_grace_ms: if rng.chance(2_000) { rng.range(0, 1_000) } else { 0 },
        lease_loss: *rng.pick(&[LeaseLoss::Uncounted, LeaseLoss::Counts]),
        losses_max: rng.range(1, 5) as u32,
        attempt_timeout_ms: rng.maybe(2_500, |rng| rng.range(200, 8_000)),
        schedule_to_start_ms: rng.maybe(2_000, |rng| rng.range(100, 15_000)),
        replays_max: rng.range(0, 3) as u32,
    }
}
