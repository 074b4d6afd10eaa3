//! What the program is made of, as CycloneDX JSON: from Cargo's own view of its dependencies, without a network.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

const PROGRAM: &str = "polyvirt";

/// By package id of Cargo.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// Prints the list of what `polyvirt` holds when it is built for this target.
pub fn print(target: &str) -> anyhow::Result<()> {
    let lock = std::fs::read_to_string(workspace().join("Cargo.lock"))?;
    let bill = bill(&metadata(target)?, &checksums(&lock))?;
    let text = serde_json::to_string_pretty(&bill)?;
    writeln!(std::io::stdout(), "{text}").context("Cannot write")
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn metadata(target: &str) -> anyhow::Result<Value> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["metadata", "--format-version=1", "--locked"])
        .args(["--filter-platform", target])
        .current_dir(workspace())
        .output()
        .context("Cannot run cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {said}");
    serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")
}

/// The sums in Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |package: &str, name: &str| {
        let lines = &mut package.lines();
        let line = lines.find_map(|line| line.strip_prefix(&format!("{name} = \"")));
        line.map(|line| line.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let key = (field(package, "name")?, field(package, "version")?);
            Some((key, field(package, "checksum")?))
        })
        .collect()
}

fn bill(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> anyhow::Result<Value> {
    let packages = list(&metadata["packages"]);
    let is_program = |package: &&Value| package["name"] == PROGRAM;
    let program = packages.iter().find(is_program).context("No polyvirt")?;
    let edges = edges(&metadata["resolve"]);
    let held = reachable(&edges, text(&program["id"]));
    let known: BTreeMap<&str, &Value> = packages.iter().map(|p| (text(&p["id"]), p)).collect();
    let held: Vec<&Value> = held
        .iter()
        .filter_map(|id| known.get(*id).copied())
        .collect();
    let libraries = held.iter().filter(|package| package["id"] != program["id"]);
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(program, "application", checksums)},
        "components": sorted(libraries.map(|package| component(package, "library", checksums)), "bom-ref"),
        "dependencies": sorted(held.iter().map(|package| depends(package, &edges, &known)), "ref"),
    }))
}

/// What is linked in: neither what only tests nor what only builds need.
fn edges(resolve: &Value) -> Edges {
    let linked = |dependency: &&Value| {
        let kinds = list(&dependency["dep_kinds"]);
        kinds.iter().any(|kind| kind["kind"].is_null())
    };
    let of = |node: &Value| {
        let linked = list(&node["deps"]).iter().filter(linked);
        linked.map(|d| text(&d["pkg"]).to_owned()).collect()
    };
    let nodes = list(&resolve["nodes"]).iter();
    nodes
        .map(|node| (text(&node["id"]).to_owned(), of(node)))
        .collect()
}

fn reachable<'a>(edges: &'a Edges, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(id) = waiting.pop() {
        if seen.insert(id) {
            waiting.extend(edges.get(id).into_iter().flatten().map(String::as_str));
        }
    }
    seen
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": name,
        "version": version,
        "purl": purl(package),
    });
    if let Some(license) = package["license"].as_str() {
        // The form of old crates, which SPDX does not know.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    if let Some(sum) = checksums.get(&(name.to_owned(), version.to_owned())) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    component
}

fn depends(package: &Value, edges: &Edges, known: &BTreeMap<&str, &Value>) -> Value {
    let on = edges.get(text(&package["id"])).into_iter().flatten();
    let on = on.filter_map(|id| known.get(id.as_str()));
    let on: BTreeSet<String> = on.map(|package| purl(package)).collect();
    json!({"ref": purl(package), "dependsOn": on})
}

fn purl(package: &Value) -> String {
    format!(
        "pkg:cargo/{}@{}",
        text(&package["name"]),
        text(&package["version"])
    )
}

/// By what they are called, whatever else they hold.
fn sorted(values: impl Iterator<Item = Value>, name: &str) -> Vec<Value> {
    let mut values: Vec<Value> = values.collect();
    values.sort_by(|one, other| text(&one[name]).cmp(text(&other[name])));
    values
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_linked_in_and_nothing_else() {
        let node = |id: &str, on: &[(&str, Value)]| {
            let deps: Vec<Value> = on
                .iter()
                .map(|(id, kind)| json!({"pkg": id, "dep_kinds": [{"kind": kind}]}))
                .collect();
            json!({"id": id, "deps": deps})
        };
        let package = |id: &str| json!({"id": id, "name": id, "version": "1.0.0", "license": "MIT/Apache-2.0"});
        let packages = ["polyvirt", "linked", "tests", "builds"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": {"nodes": [
                node("polyvirt", &[("linked", Value::Null), ("tests", json!("dev"))]),
                node("linked", &[("builds", json!("build"))]),
            ]},
        });
        let lock = "[[package]]\nname = \"linked\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let bill = bill(&metadata, &checksums(lock)).unwrap();
        assert_eq!(
            bill["metadata"]["component"]["purl"],
            "pkg:cargo/polyvirt@1.0.0"
        );
        assert_eq!(list(&bill["components"]).len(), 1);
        let linked = &bill["components"][0];
        assert_eq!(linked["name"], "linked");
        assert_eq!(linked["hashes"][0]["content"], "abc");
        assert_eq!(linked["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(
            bill["dependencies"][1]["dependsOn"],
            json!(["pkg:cargo/linked@1.0.0"])
        );
    }
}
