//! The same attack on PostgreSQL, and what can happen to a server and to the way to it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ff_scratch::{Cluster, Database, Proxy, Settings, test_bouncer, test_postgres};
use ff_sim::rng::Rng;

use crate::attack::{Attack, Moment};

/// A server that keeps what it has acknowledged when it crashes, and does not wait for the disk.
fn crash_safe() -> Cluster {
    Cluster::start(Settings::quick().with("synchronous_commit", "on")).unwrap()
}

#[test]
fn on_postgresql_every_acknowledged_submission_ends_once_whoever_is_killed_or_paused() {
    let database = Database::create(&test_postgres().unwrap(), None).unwrap();
    Attack::on(&database.url()).run();
}

#[test]
fn behind_a_transaction_pooler_nothing_is_lost_either() {
    let database = Database::create(&test_postgres().unwrap(), None).unwrap();
    Attack::on(&database.url()).through(&test_bouncer(database.name()).unwrap()).run();
}

/// Every ten turns are every two seconds.
#[test]
fn a_postgresql_that_crashes_every_two_seconds_loses_nothing_it_acknowledged() {
    let cluster = crash_safe();
    let crash = |moment, _: &mut Rng| {
        if matches!(moment, Moment::Turn(turn) if turn % 10 == 9) {
            cluster.restart_immediate().unwrap();
        }
    };
    Attack::on(&cluster.url()).with(crash).run();
}

/// A commit whose answer is lost has happened or not; whoever asked finds out, and nothing happens twice.
#[test]
fn lost_answers_of_postgresql_neither_lose_nor_double_anything() {
    let cluster = crash_safe();
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, cluster.port()))).unwrap();
    let way = cluster.url().replace(&format!(":{}/", cluster.port()), &format!(":{}/", proxy.port()));
    let break_it = |moment, rng: &mut Rng| {
        proxy.heal();
        match rng.below(16) {
            _ if moment == Moment::Over => {}
            0 | 1 => proxy.swallow_answers(),
            2 => proxy.cut(),
            3 => proxy.refuse_new(),
            4 => proxy.delay(Duration::from_millis(rng.range(1, 40) as u64)),
            5 => proxy.cut_after_to_client(rng.below(4_000) as u64),
            6 => proxy.cut_after_to_server(rng.below(20_000) as u64),
            _ => {}
        }
    };
    Attack::on(&cluster.url()).through(&way).with(break_it).run();
}
