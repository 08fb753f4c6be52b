# `.ci/steps` is made for machines that build once; here builds repeat.
export CARGO_INCREMENTAL := env("CARGO_INCREMENTAL", "1")

# Lists the recipes.
default:
    @just --list --unsorted

# Runs every test that needs nothing but Rust; arguments select some, such as `--test examples`.
test *ARGS:
    cargo test --locked --workspace --no-fail-fast {{ARGS}}

# Checks formatting and lints, and spelling if `typos` is installed (`pipx install typos`).
lint:
    .ci/steps format clippy
    if command -v typos; then typos; fi

# Checks each feature of `abide` alone, and tests components without a server. A separate build.
features:
    .ci/steps 'each feature alone' 'components without a server'

# Builds the API documentation without warnings, and checks the links between pages.
docs:
    .ci/steps documentation
    cargo test --locked --workspace --test book

# Writes the public API of each library to its `api.txt`.
api:
    cargo run --quiet --locked -p abide-api

# Runs the simulations. With a seed: prints what the node of that seed did, and the shortest schedule that breaks a promise if one does.
sim SEED="":
    {{ if SEED == "" { ".ci/steps 'other seeds'" } else { "cargo run --quiet --profile sim -p abide-sim -- replay " + SEED } }}

# Runs COUNT seeds of the simulation on every processor core.
sims COUNT FROM="0":
    cargo run --quiet --profile sim -p abide-sim -- run --seeds {{COUNT}} --from {{FROM}} --jobs {{num_cpus()}}

# Checks that the tests catch mutants of the product: all, or those with these NAMES. A separate build.
mutants *NAMES:
    cargo run --quiet --locked -p abide-mutants -- {{NAMES}}

# Searches for bytes that break a decoder, with coverage: SECONDS for each target.
fuzz SECONDS="4":
    verify/fuzz/run all {{SECONDS}}

# Runs a benchmark; without a name, prints the list.
bench *ARGS="--help":
    cargo run --profile dist -p bench -- {{ARGS}}

# Runs each test TIMES times beside two busy loops, and names the tests that failed in any run; arguments select some.
flaky TIMES="5" *ARGS:
    .ci/flaky {{TIMES}} {{ARGS}}

# Checks licences, sources and versions of all dependencies against `deny.toml`.
supply-chain:
    cargo test --locked --workspace --test harness supply_chain:: -- --include-ignored

# Sends requests generated from the API documents to the programs; finds other cases on each machine. Needs python3-venv.
openapi:
    verify/openapi/run
