# Runs one seed of the simulation, prints what it did, and the shortest schedule that breaks a promise if one does.
sim SEED:
    cargo run --quiet --profile sim -p abide-sim -- replay {{SEED}}

# Runs this many seeds of the simulation on every processor core.
sims COUNT FROM="0":
    cargo run --quiet --profile sim -p abide-sim -- run --seeds {{COUNT}} --from {{FROM}} --jobs {{num_cpus()}}

# Checks licences, sources and versions of all dependencies against `deny.toml`.
supply-chain:
    cargo test --locked --workspace --test harness supply_chain:: -- --include-ignored

# Sends requests generated from the API documents to the programs; finds other cases on each machine. Needs python3-venv.
openapi:
    verify/openapi/run
