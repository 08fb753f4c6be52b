//! The end of each command's help: an example, and exit codes beyond success and failure.

/// Each command, and the text after its options.
const NOTES: &[(&str, &str)] = &[
    (
        "serve",
        "\
Example:
  abide serve --data /var/lib/abide --listen 127.0.0.1:8080

The page at / says what runs and what to try. Settings are read from the file, then from variables such as
ABIDE__SERVER__LISTEN, then from these options. SIGTERM and SIGINT end it cleanly.

Exit codes:
  0    ended by a signal
  1    it could not start, or the log could not be written: start it again to recover
  2    the command line is invalid
  130  a second signal ended it immediately; the next start recovers from the log",
    ),
    (
        "new",
        "\
Example:
  abide new reminders --path ~/src/abide

The project has one durable object with a table, an alarm and methods that clients call over HTTP, and a test that moves
the clock. Then: cd reminders && cargo test && cargo run",
    ),
    (
        "alarms list",
        "\
Examples:
  abide alarms list --limit 20
  abide alarms list --failing",
    ),
    (
        "alarms rerun",
        "\
Examples:
  abide alarms rerun Shop/main
  abide alarms rerun Shop/main --alarm reminder",
    ),
    (
        "outbox status",
        "\
Examples:
  abide outbox status orders
  abide outbox status Shop/main",
    ),
    (
        "outbox list",
        "\
Example:
  abide outbox list orders --status failed --limit 20",
    ),
    (
        "outbox failing",
        "\
Example:
  abide outbox failing orders",
    ),
    (
        "outbox show",
        "\
Example:
  abide outbox show orders 7",
    ),
    (
        "outbox resume",
        "\
Example:
  abide outbox resume orders https://example.com",
    ),
    (
        "outbox cancel",
        "\
Example:
  abide outbox cancel orders 7

An attempt that has begun is broken off, and may have reached its receiver. A finished message cannot be canceled.",
    ),
    (
        "outbox give-up",
        "\
Example:
  abide outbox give-up orders 7

The message becomes a dead letter, which can be edited and sent again.",
    ),
    (
        "outbox edit",
        r#"Example:
  abide outbox edit orders 7 '{"url":"https://example.com/orders/2"}'

The message stays a dead letter: `abide outbox redrive` queues it again."#,
    ),
    (
        "outbox redrive",
        "\
Examples:
  abide outbox redrive orders 7
  abide outbox redrive orders --all --destination https://example.com",
    ),
    (
        "outbox discard",
        "\
Examples:
  abide outbox discard orders 7
  abide outbox discard orders --all --kind webhook",
    ),
    (
        "schedule list",
        "\
Example:
  abide schedule list Subscription/acme",
    ),
    (
        "schedule failed",
        "\
Example:
  abide schedule failed Subscription/acme",
    ),
    (
        "schedule history",
        "\
Example:
  abide schedule history Subscription/acme --timer report --limit 20",
    ),
    (
        "schedule run",
        "\
Example:
  abide schedule run Subscription/acme report",
    ),
    (
        "schedule retry",
        "\
Example:
  abide schedule retry Subscription/acme report",
    ),
    (
        "schedule discard",
        "\
Example:
  abide schedule discard Subscription/acme report",
    ),
    (
        "workflow list",
        "\
Example:
  abide workflow list signup --status stuck",
    ),
    (
        "workflow show",
        "\
Example:
  abide workflow show signup ada",
    ),
    (
        "workflow steps",
        "\
Example:
  abide workflow steps signup ada",
    ),
    (
        "workflow pause",
        "\
Example:
  abide workflow pause signup ada",
    ),
    (
        "workflow resume",
        "\
Example:
  abide workflow resume signup ada",
    ),
    (
        "workflow cancel",
        "\
Example:
  abide workflow cancel signup ada --reason duplicate",
    ),
    (
        "workflow restart",
        "\
Example:
  abide workflow restart signup ada send-mail",
    ),
    (
        "queue show",
        "\
Example:
  abide queue show mails",
    ),
    (
        "queue dead-letters",
        "\
Example:
  abide queue dead-letters mails",
    ),
    (
        "queue redrive",
        "\
Examples:
  abide queue redrive mails 3-127
  abide queue redrive mails --all",
    ),
    (
        "queue discard",
        "\
Example:
  abide queue discard mails 3-127",
    ),
    (
        "queue pause",
        "\
Example:
  abide queue pause mails",
    ),
    (
        "queue resume",
        "\
Example:
  abide queue resume mails",
    ),
    (
        "projection show",
        "\
Example:
  abide projection show Order/4711

The queue that feeds the read model shows whether it takes rows: `abide queue show`, `pause` and `resume`.",
    ),
    (
        "projection rows",
        "\
Example:
  abide projection rows Order/4711",
    ),
    (
        "projection retry",
        "\
Example:
  abide projection retry Order/4711",
    ),
    (
        "objects list",
        "\
Example:
  abide objects list --data /var/lib/abide

Stop the node first.",
    ),
    (
        "class list",
        "\
Example:
  abide class list --data /var/lib/abide

Stop the node first.",
    ),
    (
        "class delete",
        "\
Examples:
  abide class delete Draft --data /var/lib/abide
  abide class delete Draft --yes --data /var/lib/abide

Stop the node first. A program can do the same at its start: `delete_class` of its host's builder.",
    ),
    (
        "cluster init",
        "\
Example:
  abide cluster init --config /etc/abide.toml

The address of the database is the setting cluster.postgres. Tables of this release stay as they are. Before those of an
earlier release are changed, stop all nodes: they end.",
    ),
    (
        "cluster status",
        "\
Example:
  abide cluster status --config /etc/abide.toml

SESSION is the number of a start of a node, SHARDS how many of the 1,024 parts of all objects it has, and UNARCHIVED
the bytes of its log that are in no run of history yet.",
    ),
    (
        "cluster shards",
        "\
Example:
  abide cluster shards --config /etc/abide.toml

An object belongs to one of 1,024 shards, by the first ten bits of its id. SESSION is `-` while no node has them.",
    ),
    (
        "cluster fence",
        "\
Example:
  abide cluster fence 7 --config /etc/abide.toml

For a machine that is known to be off. Others take its objects over at once, and not after seven seconds of silence. A
node that still runs commits nothing more, and ends; for up to five seconds it may answer reads with old values.",
    ),
    (
        "cluster rebuild",
        "\
Example:
  abide cluster rebuild --config /etc/abide.toml

Stop all nodes first, and set cluster.postgres to an empty database; archive.url is the object store of the lost
cluster. A node puts what it has committed into a run after each checkpoint (storage.checkpoint_interval). The rest is
lost.",
    ),
    (
        "sql",
        "\
Examples:
  abide sql Shop/main 'SELECT count(*) FROM orders'
  abide sql Shop/main --at -1d 'SELECT count(*) FROM orders'
  abide sql Shop/main --write 'UPDATE orders SET state = 1 WHERE id = 7'

Rows are printed with tabs between columns, after a line of their names. Without --write nothing is kept. On a running
node, and in the past, the statements read a copy of the database, which takes room in the directory for temporary
files (TMPDIR). Stop the node before statements change the object.",
    ),
    (
        "bookmark",
        "\
Examples:
  abide bookmark Kv/ada
  abide bookmark Kv/ada --at 2026-03-01T12:00:00Z",
    ),
    (
        "restore",
        "\
Example:
  abide restore Kv/ada --at -15m
  abide restore Kv/ada --at -15m --dormant
  abide restore --from s3://backups/abide --data /var/lib/abide --take-over
  abide restore --from s3://backups/abide --data /var/lib/abide --take-over --lazy

It prints the bookmark that undoes it. A dormant object answers calls and does nothing else until `abide activate`.
With --from it builds a data directory from a copy. If it is interrupted, run it again: it continues.",
    ),
    (
        "standby",
        "\
Example:
  abide standby --from s3://backups/abide --data /var/lib/abide

It downloads what is new and opens nothing, until `abide promote` ends it. Stopped and started again, it continues.",
    ),
    (
        "promote",
        "\
Example:
  abide promote --from s3://backups/abide --data /var/lib/abide

It ends the standby of the directory, seals the copy, so that the lost node can add nothing to it, and reads the rest
of its log. It takes seconds, however large the copy is: objects get their files when they are needed, and in the
background, once a node serves the directory.",
    ),
    (
        "fork",
        "\
Examples:
  abide fork Kv/ada --at -1h --to ada-before
  abide fork Template/shop --at -0s --to Shop/ada

The copy must be an object that was never used, or that exists and is empty. A name with a slash needs its
class in front.

It prints the id of the copy, which is dormant: it answers calls and does nothing else until `abide activate`.",
    ),
    (
        "activate",
        "\
Examples:
  abide activate Kv/ada-before
  abide activate Kv/ada --continue

Without --continue, the messages, timers, alarms and running steps that the object has inherited are dropped. Take them
over in the replacement of an object that is gone, and after `abide restore --dormant`.",
    ),
    (
        "timeline",
        "\
Examples:
  abide timeline Kv/ada-before
  abide timeline Kv/ada --json

A timeline begins with an object's creation, with each restore and with a fork. Its id is the bookmark of the state that
was left.",
    ),
    (
        "dormant",
        "\
Examples:
  abide dormant
  abide dormant --json

A dormant object answers calls and does nothing else until `abide activate`. The command opens every object's database.",
    ),
    (
        "quarantined",
        "\
Example:
  abide quarantined --data /var/lib/abide",
    ),
    (
        "repair",
        "\
Example:
  abide repair Kv/ada --accept

Try `abide restore` first. The old content of the object's files is kept next to them; the command prints where.",
    ),
    (
        "token create",
        "\
Examples:
  abide token create --role operate --label 'the web shop'
  abide token create --role read --expires-in 90d --object-prefix Outbox/shop-

A running node accepts the token within half a second.",
    ),
    (
        "token list",
        "\
Example:
  abide token list --data /var/lib/abide",
    ),
    (
        "token revoke",
        "\
Example:
  abide token revoke 5f0c1a2b3c4d",
    ),
    (
        "audit",
        "\
Example:
  abide audit --limit 20

Times are UTC.",
    ),
    (
        "history",
        "\
Example:
  abide history --from s3://backups/abide

Without --from it takes the place from the settings. The newest whole copy is what `abide restore --from` restores.",
    ),
    (
        "verify",
        "\
Example:
  abide verify --data /var/lib/abide
  abide verify --from s3://backups/abide
  abide verify --from s3://backups/abide --key-file /run/secrets/backup.key

Stop the node first, or verify a copy of its directory. With --from it reads the newest copy in an object store, whole.

Exit codes:
  0  everything is sound
  1  something is damaged: the lines before say what; or the directory could not be opened
  2  the command line is invalid",
    ),
    (
        "export",
        "\
Examples:
  abide export Shop/main --to main.sqlite
  abide export Shop/main --at -1d --to yesterday.sqlite
  abide export --class Shop --to shops
  abide export --all --to everything

The file is a plain SQLite database. Tables whose names begin with _abide are internal. A directory has one for each
object, CLASS/ID.sqlite, all as of one moment, and export.json, which lists them: without it an export is incomplete.

Exit codes:
  0  everything was exported
  1  nothing was exported, the export is incomplete, or objects are missing in it: the lines before name them
  2  the command line is invalid",
    ),
    (
        "import",
        "\
Examples:
  abide import everything
  abide import everything --act          # the node that it is from is gone
  abide import main.sqlite --to Shop/main

An import replaces nothing: objects that exist are refused. Each object is imported whole or not at all, and the same
command continues an interrupted import.",
    ),
    (
        "checkpoint",
        "\
Example:
  abide checkpoint --data /var/lib/abide

Afterwards the files in objects/ are complete, and `sqlite3 -readonly` can read them. Stop the node first.",
    ),
];

/// The command line with these notes.
pub(crate) fn with_notes(mut command: clap::Command) -> clap::Command {
    for (path, note) in NOTES {
        command = noted(command, path, note);
    }
    command
}

fn noted(command: clap::Command, path: &str, note: &'static str) -> clap::Command {
    match path.split_once(' ') {
        None => command.mut_subcommand(path, |found| found.after_help(note)),
        Some((first, rest)) => command.mut_subcommand(first, |found| noted(found, rest, note)),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, error::ErrorKind};

    use super::*;

    /// The commands that have none below them, as people write them.
    fn leaves(command: &clap::Command, path: &str) -> Vec<String> {
        let below = command.get_subcommands();
        let below: Vec<_> = below.filter(|one| one.get_name() != "help").collect();
        if below.is_empty() {
            return vec![path.to_owned()];
        }
        let paths = below.into_iter().map(|one| {
            let path = format!("{path} {}", one.get_name());
            leaves(one, path.trim_start())
        });
        paths.flatten().collect()
    }

    /// The words of a line, as a shell reads them, up to a comment, a pipe, a redirection or the end of a `$(…)`.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for letter in line.chars() {
            let word = words.last_mut().unwrap();
            match (quote, letter) {
                (None, '\'' | '"') => quote = Some(letter),
                (Some(open), _) if open == letter => quote = None,
                (None, ' ') if !word.is_empty() => words.push(String::new()),
                (None, ' ') => {}
                (None, '#' | '|' | '>' | '&') if word.is_empty() => break,
                (None, ')') => break,
                _ => word.push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// The lines of a page's blocks of commands that run `abide`.
    fn commands(page: &str) -> Vec<&str> {
        let blocks = page.split("```").skip(1).step_by(2);
        let blocks =
            blocks.filter(|block| block.starts_with("sh\n") || block.starts_with("console\n"));
        let lines = blocks
            .flat_map(str::lines)
            .map(|line| line.trim_start_matches("$ "));
        let commands = lines.filter_map(|line| {
            if line.starts_with("abide ") {
                return Some(line);
            }
            let at = line.find("$(abide ")?;
            Some(&line[at + "$(".len()..])
        });
        commands.collect()
    }

    #[test]
    fn the_command_line_takes_every_command_of_the_guides() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let guides = std::fs::read_dir(root.join("docs")).unwrap();
        let guides = guides.map(|guide| guide.unwrap().path());
        let pages = guides.chain([root.join("README.md")]);
        let pages = pages.filter(|page| page.extension().is_some_and(|end| end == "md"));
        let mut command = with_notes(crate::Command::command());
        let mut checked = 0;
        for page in pages {
            let text = std::fs::read_to_string(&page).unwrap();
            for line in commands(&text) {
                if let Err(error) = command.try_get_matches_from_mut(words(line)) {
                    // `--help` is no failure, and a variable of the shell has no value here.
                    let variable = error.kind() == ErrorKind::ValueValidation && line.contains('$');
                    let accepted = variable || error.exit_code() == 0;
                    assert!(accepted, "{}: {line}\n{error}", page.display());
                }
                checked += 1;
            }
        }
        assert!(checked > 40, "only {checked} commands were found");
    }

    #[test]
    fn commands_are_found_and_split() {
        let page = "abide no\n```sh\nabide sql a \"b 'c'\" > d\nx=$(abide verify)\n```\n```text\nabide no\n```\n";
        assert_eq!(
            commands(page),
            ["abide sql a \"b 'c'\" > d", "abide verify)"]
        );
        assert_eq!(words(commands(page)[0]), ["abide", "sql", "a", "b 'c'"]);
        assert_eq!(words(commands(page)[1]), ["abide", "verify"]);
        assert_eq!(
            words("abide a '{\"b\": 1}' # c"),
            ["abide", "a", "{\"b\": 1}"]
        );
    }

    #[test]
    fn every_command_has_an_example_that_it_takes() {
        let noted: Vec<_> = NOTES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(leaves(&crate::Command::command(), ""), noted);
        for (path, note) in NOTES {
            let examples = note.lines().map(str::trim);
            let examples = examples.filter(|line| line.starts_with("abide "));
            let examples: Vec<_> = examples.collect();
            assert!(!examples.is_empty(), "{path} has no example");
            for example in examples {
                assert!(example.starts_with(&format!("abide {path}")), "{example}");
                let command = with_notes(crate::Command::command());
                let taken = command.try_get_matches_from(words(example));
                assert!(taken.is_ok(), "{example}: {}", taken.unwrap_err());
            }
        }
    }

    #[test]
    fn a_help_page_fits_a_terminal() {
        for (path, note) in NOTES {
            for line in note.lines() {
                assert!(line.len() <= 120, "{path}: {line}");
            }
        }
    }
}
