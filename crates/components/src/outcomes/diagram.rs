//! A schema as a diagram: Mermaid and Graphviz.
//!
//! Transitions between the same two states are one arrow with a line for each.

use std::fmt::Write as _;

use super::Schema;

impl Schema {
    /// The schema as a [Mermaid](https://mermaid.js.org/syntax/stateDiagram.html) state diagram.
    pub fn mermaid(&self) -> String {
        let declaration = self.declaration();
        let mut out = String::from("stateDiagram-v2\n");
        // States get generated ids, because some of their names would be keywords.
        for (id, state) in declaration.states.iter().enumerate() {
            let _ = writeln!(out, "    state \"{state}\" as s{id}");
        }
        let _ = writeln!(out, "    [*] --> s{}", self.index(declaration.initial));
        for (from, to, labels) in self.arrows() {
            let _ = writeln!(out, "    s{from} --> s{to}: {}", labels.join("<br>"));
        }
        for state in declaration.terminal {
            let _ = writeln!(out, "    s{} --> [*]", self.index(state));
        }
        out
    }

    /// The schema as a [Graphviz](https://graphviz.org) graph.
    pub fn graphviz(&self) -> String {
        let declaration = self.declaration();
        let mut out = format!("digraph \"{}\" {{\n", declaration.name);
        out.push_str("    rankdir=LR;\n    node [shape=box, style=rounded];\n");
        out.push_str("    \"\" [shape=point];\n");
        for state in declaration.states {
            let shape = if self.is_terminal(state) {
                " [peripheries=2]"
            } else {
                ""
            };
            let _ = writeln!(out, "    \"{state}\"{shape};");
        }
        let _ = writeln!(out, "    \"\" -> \"{}\";", declaration.initial);
        for (from, to, labels) in self.arrows() {
            let (from, to) = (declaration.states[from], declaration.states[to]);
            let label = labels.join("\\n");
            let _ = writeln!(out, "    \"{from}\" -> \"{to}\" [label=\"{label}\"];");
        }
        out.push_str("}\n");
        out
    }

    /// The arrows with their labels, in the order of the declaration.
    fn arrows(&self) -> Vec<(usize, usize, Vec<String>)> {
        let mut arrows: Vec<(usize, usize, Vec<String>)> = Vec::new();
        for (from, action, outcome, to) in self.declaration().transitions {
            let (from, to) = (self.index(from), self.index(to));
            let label = format!("{action} / {outcome}");
            match arrows.iter_mut().find(|(f, t, _)| (*f, *t) == (from, to)) {
                Some((.., labels)) => labels.push(label),
                None => arrows.push((from, to, vec![label])),
            }
        }
        arrows
    }

    fn index(&self, state: &str) -> usize {
        let mut states = self.declaration().states.iter();
        states.position(|known| *known == state).unwrap_or_default()
    }
}
