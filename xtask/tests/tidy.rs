//! House rules that the compiler and clippy cannot check.

#![allow(clippy::unwrap_used)] // A rule that cannot be checked is a failed test.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file of ours with one of these endings.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() {
                if name != "target" && name != "node_modules" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn check(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn comments_say_why_and_tell_no_history() {
    let words =
        ["RFC-", "PR #", "issue #", "TODO", "FIXME", "XXX", "legacy", "previously", "no longer needed"];
    let mut problems = Vec::new();
    for file in files(&[".rs", ".sql"]) {
        if file.ends_with("xtask/tests/tidy.rs") {
            continue;
        }
        for (n, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let comment = line.find("//").or_else(|| line.find("--")).map(|at| &line[at..]);
            if let Some(word) = comment.and_then(|comment| words.iter().find(|word| comment.contains(**word)))
            {
                problems.push(format!("{}:{}: a comment says {word:?}", file.display(), n + 1));
            }
        }
    }
    check(problems);
}

#[test]
fn no_test_is_ignored_and_nothing_is_left_to_be_done() {
    let words = [concat!("#[ig", "nore"), concat!("todo", "!("), concat!("unimplemented", "!(")];
    let mut problems = Vec::new();
    for file in files(&[".rs"]) {
        let text = fs::read_to_string(&file).unwrap();
        let found = words.iter().filter(|word| text.contains(**word));
        problems.extend(found.map(|word| format!("{} contains {word}", file.display())));
    }
    check(problems);
}

/// Who may know whom, as ARCHITECTURE.md says.
#[test]
fn crates_know_only_those_they_may_know() {
    let ours = [
        "ff-core",
        "ff-store",
        "ff-store-sqlite",
        "ff-store-postgres",
        "ff-engine",
        "ff-sim",
        "ff-bench",
        "ff-scratch",
        "flowfabric",
        "ff-api",
        "ff-server",
        "ff-cli",
    ];
    let may: [(&str, &[&str]); 12] = [
        ("core", &[]),
        ("store", &["ff-core"]),
        ("store-sqlite", &["ff-core", "ff-store"]),
        ("store-postgres", &["ff-core", "ff-store"]),
        ("engine", &["ff-core", "ff-store"]),
        ("api", &["ff-core"]),
        ("server", &["ff-api", "ff-core", "ff-store", "ff-engine"]),
        ("sdk", &["ff-api", "ff-core", "ff-store", "ff-store-sqlite", "ff-store-postgres", "ff-engine"]),
        ("sim", &["ff-core", "ff-store", "ff-engine"]),
        ("scratch", &[]),
        (
            "bench",
            &[
                "ff-core",
                "ff-store",
                "ff-store-sqlite",
                "ff-store-postgres",
                "ff-engine",
                "ff-scratch",
                "ff-server",
                "flowfabric",
            ],
        ),
        ("cli", &ours),
    ];
    let mut problems = Vec::new();
    for (folder, allowed) in may {
        let manifest = read(format!("crates/{folder}/Cargo.toml"));
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        let names: Vec<&str> =
            dependencies.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
        for name in names.iter().filter(|name| ours.contains(*name) && !allowed.contains(*name)) {
            problems.push(format!("crates/{folder} must not know {name}"));
        }
        if folder == "core" {
            let outside = ["tokio", "rusqlite", "rand", "tracing"];
            problems.extend(
                names.iter().filter(|it| outside.contains(*it)).map(|it| format!("core must not use {it}")),
            );
        }
    }
    check(problems);
}

#[test]
fn every_command_has_a_file_of_its_own() {
    let list = read("crates/core/src/commands/mod.rs");
    let names = list.split("commands!(\n").nth(1).unwrap().split(");").next().unwrap();
    let mut problems = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let defined = files(&[".rs"]).into_iter().any(|file| {
            file.starts_with(root().join("crates/core/src/commands"))
                && fs::read_to_string(&file).unwrap().contains(&format!("pub struct {name} {{"))
                && !file.ends_with("mod.rs")
        });
        if !defined {
            problems.push(format!("the command {name} is not defined in a file of its own"));
        }
    }
    check(problems);
}

/// Names of all test functions, and of the simulator's and the suite's cases.
fn test_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files(&[".rs"]) {
        for line in fs::read_to_string(&file).unwrap().lines() {
            if let Some(rest) =
                line.trim().strip_prefix("fn ").or_else(|| line.trim().split("async fn ").nth(1))
            {
                names.insert(rest.split(['(', '<']).next().unwrap_or_default().to_owned());
            }
        }
    }
    names
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let names = test_names();
    let security = read("docs/security.md");
    let threats =
        security.split("| threat |").nth(1).expect("a table of threats").split("\n\n").next().unwrap();
    let text = read("docs/guarantees.md") + &threats.replacen(" what is done | held by |", "", 1);
    let mut problems = Vec::new();
    let mut promises = 0;
    for row in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise")) {
        promises += 1;
        let tests: Vec<&str> = row.split('`').skip(1).step_by(2).filter(|word| word.contains('_')).collect();
        if tests.is_empty() {
            problems.push(format!("a promise without a test: {row}"));
        }
        problems.extend(
            tests.iter().filter(|it| !names.contains(**it)).map(|it| format!("there is no test {it}: {row}")),
        );
    }
    assert!(promises >= 10, "docs/guarantees.md has lost its table");
    check(problems);
}

/// Which status each rejection is answered with: the arms of one function name the kinds, those of another their codes.
fn statuses_of_rejections() -> Vec<(String, String)> {
    let arms = |file: &str, function: &str| -> Vec<(Vec<String>, String)> {
        let source = read(file);
        let body = source.split(function).nth(1).unwrap().split("\n}\n").next().unwrap().to_owned();
        let arms = body.split(",\n").filter_map(|arm| arm.split_once(" => "));
        let kinds = |pattern: &str| {
            let kinds = pattern.split("Rejection::").skip(1);
            kinds.map(|it| it.chars().take_while(char::is_ascii_alphanumeric).collect()).collect()
        };
        arms.map(|(pattern, value)| (kinds(pattern), value.trim_matches('"').to_owned())).collect()
    };
    let statuses = arms("crates/api/src/problem.rs", "fn status(rejection: &Rejection) -> u16");
    let status_of = |kind: &String| {
        let named = statuses.iter().find(|(kinds, _)| kinds.contains(kind));
        named.or(statuses.last()).unwrap().1.clone()
    };
    let codes = arms("crates/core/src/rejection.rs", "fn code(&self)");
    let codes = codes.into_iter().filter(|(kinds, _)| kinds.len() == 1);
    codes.map(|(kinds, code)| (code, status_of(&kinds[0]))).collect()
}

#[test]
fn every_code_of_the_rules_stands_beside_its_status() {
    let text = read("docs/errors.md");
    let all = statuses_of_rejections();
    assert!(all.len() > 30, "the rejections are written in another way: {all:?}");
    let missing = all.iter().map(|(code, status)| format!("| `{code}` | {status} |"));
    check(
        missing.filter(|row| !text.contains(row)).map(|row| format!("docs/errors.md has no {row}")).collect(),
    );
}

#[test]
fn every_code_is_explained() {
    let text = read("docs/errors.md");
    let mut problems = Vec::new();
    for file in
        ["crates/core/src/rejection.rs", "crates/engine/src/failure.rs", "crates/engine/src/cursor.rs"]
    {
        let source = read(file);
        let codes = source.split("fn code").nth(1).unwrap().split("\n    }").next().unwrap();
        for code in codes.split('"').skip(1).step_by(2) {
            if !text.contains(&format!("`{code}`")) {
                problems.push(format!("docs/errors.md does not explain `{code}` of {file}"));
            }
        }
    }
    let mut codes = 0;
    for path in files(&[".rs"]) {
        let is_told =
            ["crates/server/src", "crates/api/src"].iter().any(|it| path.starts_with(root().join(it)));
        let source = if is_told { fs::read_to_string(&path).unwrap() } else { continue };
        // The status comes first, then the code.
        for call in source.split("Problem::new(").skip(1) {
            let code = call.split_once(',').and_then(|(_, rest)| rest.trim_start().strip_prefix('"'));
            let Some(code) = code.and_then(|rest| rest.split('"').next()) else { continue };
            codes += 1;
            let status: String = call.chars().take_while(char::is_ascii_digit).collect();
            if !text.contains(&format!("| `{code}` | {status} |")) {
                let file = path.display();
                problems.push(format!("docs/errors.md does not explain `{code}`, {status}, of {file}"));
            }
        }
    }
    assert!(codes >= 10, "the codes of the server are written in another way");
    check(problems);
}

#[test]
fn every_example_is_short_and_has_a_document_and_a_place_in_the_list() {
    let list = read("examples/README.md");
    let mut problems = Vec::new();
    let programs: Vec<_> =
        files(&["main.rs", ".py"]).into_iter().filter(|it| it.starts_with(root().join("examples"))).collect();
    assert!(programs.len() >= 9, "the examples are gone");
    for program in programs {
        let folder = program.parent().unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let (file, lines) = (program.display(), fs::read_to_string(&program).unwrap().lines().count());
        if lines >= 150 {
            problems.push(format!("{file} has {lines} lines; allowed are fewer than 150"));
        }
        if !folder.join("README.md").exists() {
            problems.push(format!("examples/{name} has no README.md"));
        }
        if !list.contains(&format!("[{name}]({name})")) {
            problems.push(format!("examples/README.md does not list {name}"));
        }
    }
    check(problems);
}

/// Whether a path of the repository is kept out of the image's build. Only the forms that are used are known here.
fn is_kept_out(path: &Path, patterns: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    patterns.lines().any(|pattern| match pattern.strip_prefix("**/*") {
        Some(rest) => match rest.strip_suffix('*') {
            Some(middle) => name.contains(middle),
            None => name.ends_with(rest),
        },
        None => {
            assert!(!pattern.contains(['*', '!', '?']), "teach this test what {pattern:?} means");
            path.starts_with(pattern)
        }
    })
}

#[test]
fn the_image_is_built_from_everything_the_sources_include() {
    let patterns = read("deploy/Dockerfile.dockerignore");
    let mut problems = Vec::new();
    let mut needed: Vec<PathBuf> = files(&["Cargo.toml", "Cargo.lock", ".sql"]);
    for file in files(&[".rs"]) {
        let source = fs::read_to_string(&file).unwrap();
        let included = source.split("include_str!(\"").chain(source.split("include_bytes!(\""));
        // What comes before the first one is no path.
        for text in included.filter(|text| !source.starts_with(*text)) {
            let target = file.parent().unwrap().join(text.split('"').next().unwrap());
            match target.canonicalize() {
                Ok(path) => needed.push(path),
                Err(_) => problems.push(format!("{} includes {}", file.display(), target.display())),
            }
        }
        needed.push(file);
    }
    assert!(needed.len() > 100, "the sources are gone");
    let root = root().canonicalize().unwrap();
    let kept_out = needed.iter().filter_map(|path| path.strip_prefix(&root).ok());
    let kept_out = kept_out.filter(|path| is_kept_out(path, &patterns));
    problems.extend(kept_out.map(|path| format!("the image is built without {}", path.display())));
    check(problems);
}
