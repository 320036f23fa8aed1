//! The same attack on PostgreSQL, and what can happen to a server and to the way to it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use ff_scratch::{Cluster, Database, Proxy, Settings, run_sql, test_bouncer, test_postgres};
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

/// The primary crashes in the middle of it and does not come back; a standby that has everything that was acknowledged
/// takes its place. Everybody has the addresses of both.
#[test]
fn when_a_synchronous_standby_takes_over_nothing_that_was_acknowledged_is_lost() {
    let primary = crash_safe();
    let standby = primary.standby().unwrap();
    // Only the primary is told to wait: once the standby is promoted, nobody follows it.
    let wait = "ALTER SYSTEM SET synchronous_standby_names = '*'";
    run_sql(&primary.url(), &[wait, "SELECT pg_reload_conf()"]).unwrap();
    let follows = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
    let deadline = Instant::now() + Duration::from_secs(30);
    while run_sql(&primary.url(), &[follows]).unwrap() != "1" {
        assert!(Instant::now() < deadline, "the standby does not follow: {}", standby.log_tail());
    }
    let host = |cluster: &Cluster| format!("127.0.0.1:{}", cluster.port());
    let both = primary.url().replace(&host(&primary), &format!("{},{}", host(&primary), host(&standby)));
    let mut over = false;
    let fail_over = |moment, rng: &mut Rng| {
        let strikes = matches!(moment, Moment::Turn(turn) if turn >= 20) && rng.below(5) == 0;
        if !over && (strikes || moment == Moment::Over) {
            over = true;
            primary.stop_immediate().unwrap();
            standby.promote().unwrap();
        }
    };
    Attack::on(&format!("{both}?target_session_attrs=read-write")).with(fail_over).run();
    assert_eq!(primary.pid(), None, "the primary was away to the end");
}
