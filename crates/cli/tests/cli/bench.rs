//! The benchmark measures real engines; here it only has to run, and to leave stores that are in order.

use serde_json::Value;

use crate::stand::Stand;

#[test]
fn the_list_names_every_scenario_that_may_be_asked_for() {
    let stand = Stand::new();
    let list = stand.ok(["bench", "--list"]);
    let listed: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let refused = stand.run(["bench", "--scenario", "frobnicate"]);
    assert_eq!(refused.code, 2);
    let allowed = refused.err.split("[possible values: ").nth(1).unwrap().split(']').next().unwrap();
    assert_eq!(listed, allowed.split(", ").map(str::trim).collect::<Vec<_>>());
    for name in ["held-horizon", "servers", "servers-mixed"] {
        assert!(listed.contains(&name), "{listed:?}");
    }
}

#[test]
fn what_measures_postgres_says_so_on_another_store() {
    for scenario in ["held-horizon", "servers", "servers-mixed"] {
        let said = Stand::new().run(["bench", "--scenario", scenario, "--store", "memory:"]);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(scenario) && said.err.contains("allowed are postgres:"), "{}", said.err);
    }
}

/// The report of the shortest run there is.
fn short(scenario: &str) -> Value {
    short_of(scenario, &ff_scratch::test_postgres().unwrap(), "1000")
}

fn short_of(scenario: &str, store: &str, count: &str) -> Value {
    let args = ["--store", store, "--seconds", "1", "--rounds", "1", "--count", count, "--json"];
    let stand = Stand::new();
    let report: Value =
        serde_json::from_str(&stand.ok(["bench", "--scenario", scenario].into_iter().chain(args))).unwrap();
    assert_eq!(report["problems"], serde_json::json!([]));
    assert!(report["rate_per_s"].as_f64().unwrap() > 0.0, "{report}");
    report
}

#[test]
fn a_held_horizon_is_really_held() {
    let more = &short("held-horizon")["more"];
    assert!(more["transactions held back"].as_f64().unwrap() > 0.0, "{more}");
    assert!(more["held, last of normal"].as_f64().unwrap() > 0.0, "{more}");
}

#[test]
fn engine_processes_share_a_database_whether_clients_stick_to_one_or_call_any() {
    for scenario in ["servers", "servers-mixed"] {
        let more = &short(scenario)["more"];
        assert!(more["four of one"].as_f64().unwrap() > 0.0, "{more}");
        assert_eq!(more["conflicts a commit, 1"], 0.0, "{more}");
    }
}

#[test]
fn growth_reads_no_hot_table_whole() {
    assert_eq!(short("growth")["more"]["whole-table reads"], 0.0);
}

#[test]
fn flows_are_measured_on_every_store() {
    for store in ["memory:", "sqlite:", &ff_scratch::test_postgres().unwrap()] {
        assert!(short_of("chain", store, "3")["p50_ms"].as_f64().unwrap() > 0.0);
        assert_eq!(short_of("fan", store, "600")["more"]["width"], 600.0);
        let more = &short_of("quorum-cancel", store, "1")["more"];
        assert!(more["1000 losers, p50 ms"].as_f64().unwrap() > 0.0, "{more}");
    }
}

#[test]
fn a_server_of_its_own_is_measured_over_http() {
    let stand = Stand::new();
    let args = ["--http", "--store", "sqlite:", "--rounds", "1", "--count", "50", "--seconds", "1", "--json"];
    for scenario in ["drain", "steady", "latency", "submit", "bulk", "idle"] {
        let said = stand.ok(["bench", "--scenario", scenario].into_iter().chain(args));
        let report: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(report["problems"], serde_json::json!([]), "{report}");
        assert_eq!(report["settings"]["through"], "http");
        assert!(report["rate_per_s"].as_f64().unwrap() > 0.0, "{report}");
        assert!(report["more"]["server, MiB resident"].as_f64().unwrap() > 0.0, "{report}");
    }
    for (scenario, store, told) in
        [("chain", "sqlite:", "allowed with --http are"), ("drain", "memory:", "sqlite: and postgres:")]
    {
        let said = stand.run(["bench", "--http", "--scenario", scenario, "--store", store]);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(told), "{}", said.err);
    }
    let alone = stand.run(["bench", "--scenario", "idle", "--store", "sqlite:"]);
    assert!(alone.err.contains("add --http"), "{}", alone.err);
}

#[test]
fn suspensions_output_and_steps_are_measured_on_every_store() {
    for store in ["memory:", "sqlite:", &ff_scratch::test_postgres().unwrap()] {
        for (scenario, count) in [("suspend", "40"), ("frames", "50"), ("steps", "50")] {
            let report = short_of(scenario, store, count);
            assert!(report["p99_ms"].as_f64().unwrap() > 0.0, "{report}");
        }
    }
}
