//! Import circles between the files of one crate, which cargo cannot see.
//!
//! A file imports another one if a `use`, or a path in its code, names something of the other's
//! module. A name that a module only re-exports (`pub use`) leads to the module that defines the
//! name, so a façade makes no circle. A circle is a strongly connected component: from each of its
//! files every other can be reached.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{ItemMod, ItemUse, UseTree, Visibility};

use super::{Breach, Rule, Source};

/// The most files of one circle.
const FILES_MAX: usize = 3;

/// A module's path in its crate: `[]` is the root.
type ModulePath = Vec<String>;

/// One module of a crate.
struct Module {
    file: String,
    /// Paths that its code names, from the root of the crate.
    named: BTreeSet<ModulePath>,
    /// What each name that it re-exports stands for.
    exports: BTreeMap<String, ModulePath>,
}

/// Checks each crate; a circle of more than three files is a breach of each of them.
pub fn check(sources: &[Source], breaches: &mut Vec<Breach>) {
    let mut crates: BTreeMap<String, BTreeMap<ModulePath, Module>> = BTreeMap::new();
    for source in sources {
        if let (Some((name, path)), Some(syntax)) = (place(&source.file), &source.syntax) {
            let module = read(&source.file, &path, syntax);
            crates.entry(name).or_default().insert(path, module);
        }
    }
    for modules in crates.values() {
        for circle in circles(modules).into_iter().filter(|circle| circle.len() > FILES_MAX) {
            let size = circle.len();
            for Member { file, imports } in circle {
                let says = format!("imports in a circle of {size} files, of these {}", imports.join(", "));
                breaches.push(Breach { rule: Rule::ImportCircle, file, line: 1, says });
            }
        }
    }
}

/// The crate of a source file, and its module's path.
fn place(file: &str) -> Option<(String, ModulePath)> {
    let (name, rest) = file.split_once("/src/")?;
    let mut path: ModulePath = rest.strip_suffix(".rs")?.split('/').map(String::from).collect();
    if matches!(path.last().map(String::as_str), Some("lib" | "main" | "mod")) {
        path.pop();
    }
    Some((name.to_owned(), path))
}

fn read(file: &str, path: &[String], syntax: &syn::File) -> Module {
    let mut imports = Imports { path, named: BTreeSet::new(), exports: BTreeMap::new() };
    imports.visit_file(syntax);
    Module { file: file.to_owned(), named: imports.named, exports: imports.exports }
}

struct Imports<'a> {
    path: &'a [String],
    named: BTreeSet<ModulePath>,
    exports: BTreeMap<String, ModulePath>,
}

impl Imports<'_> {
    /// From the root of the crate; `None` for what is another crate's or a local name.
    fn absolute(&self, words: &[String]) -> Option<ModulePath> {
        match words.first()?.as_str() {
            "crate" => Some(words[1..].to_vec()),
            "self" => Some([self.path, &words[1..]].concat()),
            "super" => {
                let ups = words.iter().take_while(|word| *word == "super").count();
                let base = &self.path[..self.path.len().checked_sub(ups)?];
                Some([base, &words[ups..]].concat())
            }
            _ => None,
        }
    }

    /// Adds what a tree of a `use` names. A name without `crate`, `self` or `super` may be a
    /// child's.
    fn add(&mut self, tree: &UseTree, before: &mut Vec<String>, exported: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add(&path.tree, before, exported);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.add(item, before, exported)),
            UseTree::Name(name) => self.add_name(before, &name.ident.to_string(), &name.ident.to_string(), exported),
            UseTree::Rename(name) => self.add_name(before, &name.ident.to_string(), &name.rename.to_string(), exported),
            UseTree::Glob(_) => {
                self.named.extend(self.absolute(before));
            }
        }
    }

    fn add_name(&mut self, before: &[String], name: &str, known_as: &str, exported: bool) {
        let words: Vec<String> = before.iter().cloned().chain((name != "self").then(|| name.to_owned())).collect();
        let child = || (!before.is_empty()).then(|| [self.path, &words].concat());
        let Some(path) = self.absolute(&words).or_else(child) else { return };
        if exported {
            self.exports.insert(known_as.to_owned(), path);
        } else {
            self.named.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        // Tests may name what they like.
        if module.content.is_some() && module.ident != "tests" {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let exported = !matches!(item.vis, Visibility::Inherited);
        self.add(&item.tree, &mut Vec::new(), exported);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {
        // `pub(crate)` and `pub(super)` import nothing.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.named.extend(self.absolute(&words));
        syn::visit::visit_path(self, path);
    }
}

/// The module that a path leads to, through re-exports.
fn resolve(modules: &BTreeMap<ModulePath, Module>, path: &[String]) -> Option<ModulePath> {
    // Re-exports in a circle do not compile; the bound is against others that this does not
    // understand.
    const STEPS_MAX: usize = 8;
    let mut path = path.to_vec();
    for _ in 0..STEPS_MAX {
        let depth = (0..=path.len()).rev().find(|depth| modules.contains_key(&path[..*depth]))?;
        let export = path.get(depth).and_then(|name| modules[&path[..depth]].exports.get(name));
        match export {
            Some(target) if *target != path => path = [target.as_slice(), &path[depth + 1..]].concat(),
            _ => return Some(path[..depth].to_vec()),
        }
    }
    None
}

/// A file of a circle.
struct Member {
    file: String,
    /// The modules of the same circle that it imports.
    imports: Vec<String>,
}

/// Strongly connected components (Kosaraju).
fn circles(modules: &BTreeMap<ModulePath, Module>) -> Vec<Vec<Member>> {
    let names: Vec<&ModulePath> = modules.keys().collect();
    let index: BTreeMap<&ModulePath, usize> = names.iter().enumerate().map(|(n, name)| (*name, n)).collect();
    let mut edges = vec![BTreeSet::new(); names.len()];
    let mut back = vec![BTreeSet::new(); names.len()];
    for (name, module) in modules {
        for target in module.named.iter().filter_map(|path| resolve(modules, path)) {
            let (from, to) = (index[name], index[&target]);
            if from != to {
                edges[from].insert(to);
                back[to].insert(from);
            }
        }
    }
    let mut order = Vec::new();
    let mut seen = vec![false; names.len()];
    for node in 0..names.len() {
        visit(node, &edges, &mut seen, &mut order);
    }
    let mut seen = vec![false; names.len()];
    let mut found = Vec::new();
    for node in order.into_iter().rev() {
        let mut circle = Vec::new();
        visit(node, &back, &mut seen, &mut circle);
        found.push(circle);
    }
    let member = |circle: &[usize], node: usize| Member {
        file: modules[names[node]].file.clone(),
        imports: edges[node].iter().filter(|to| circle.contains(to)).map(|to| names[*to].join("::")).collect(),
    };
    found.iter().map(|circle| circle.iter().map(|node| member(circle, *node)).collect()).collect()
}

/// Adds what can be reached and was not seen yet, itself last.
fn visit(node: usize, edges: &[BTreeSet<usize>], seen: &mut [bool], order: &mut Vec<usize>) {
    if std::mem::replace(&mut seen[node], true) {
        return;
    }
    for next in &edges[node] {
        visit(*next, edges, seen, order);
    }
    order.push(node);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(file, text): &(&str, &str)| Source {
            file: format!("crates/a/src/{file}"),
            text: (*text).into(),
            syntax: Some(syn::parse_file(text).unwrap()),
        };
        let mut found = Vec::new();
        check(&files.iter().map(source).collect::<Vec<_>>(), &mut found);
        found.into_iter().map(|breach| breach.file).collect()
    }

    #[test]
    fn a_circle_of_four_files_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "fn b() { super::c::c(); }"),
            ("c.rs", "use crate::{d, e::E};"),
            ("d.rs", "use super::a::A;"),
            ("e.rs", "struct E;"),
        ];
        assert_eq!(breaches(&files).len(), 4);
        assert_eq!(breaches(&files[..4]).len(), 0);
    }

    #[test]
    fn visibility_imports_nothing() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; fn d() { a::A; b::B; c::C; }"),
            ("a.rs", "pub(crate) struct A;"),
            ("b.rs", "pub(crate) struct B;"),
            ("c.rs", "pub(crate) struct C;"),
        ];
        assert_eq!(breaches(&files).len(), 0);
    }

    #[test]
    fn a_facade_makes_no_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use b::B; pub use c::C;"),
            ("a.rs", "pub struct A;"),
            ("b.rs", "use crate::A;"),
            ("c.rs", "use crate::{A, B};"),
        ];
        assert_eq!(breaches(&files).len(), 0);
    }
}
