//! Rules of functions: how long they are, and what they take.

use syn::spanned::Spanned as _;
use syn::visit::Visit;
use syn::{FnArg, ItemFn, ItemImpl, Pat, Signature, TraitItemFn, Type};

use super::{Breach, Rule, Source};

/// The longest that a function may be, lines from its name to its closing brace.
const LINES_MAX: usize = 70;
/// The most parameters, `self` not counted.
const PARAMETERS_MAX: usize = 5;

/// Checks the functions of a file. What a foreign trait asks for is not checked.
pub fn check(source: &Source, breaches: &mut Vec<Breach>) {
    if let Some(syntax) = &source.syntax {
        Functions { source, breaches }.visit_file(syntax);
    }
}

struct Functions<'a> {
    source: &'a Source,
    breaches: &'a mut Vec<Breach>,
}

impl Functions<'_> {
    fn length(&mut self, signature: &Signature, block: &syn::Block) {
        let (first, last) = (signature.span().start().line, block.span().end().line);
        let lines = last + 1 - first;
        if lines > LINES_MAX {
            self.breach(Rule::FunctionLength, signature, format!("is {lines} lines long"));
        }
    }

    fn parameters(&mut self, signature: &Signature) {
        let typed: Vec<_> = signature
            .inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Typed(typed) => Some(typed),
                FnArg::Receiver(_) => None,
            })
            .collect();
        // A function that C calls has the parameters that C gives it.
        if typed.len() > PARAMETERS_MAX && signature.abi.is_none() {
            self.breach(Rule::Parameters, signature, format!("takes {} parameters", typed.len()));
        }
        for _ in typed.iter().filter(|typed| is_tuple(&typed.ty) || matches!(*typed.pat, Pat::Tuple(_))) {
            self.breach(Rule::TupleParameter, signature, "takes a tuple".into());
        }
        for _ in typed.windows(2).filter(|pair| pair.iter().all(|typed| is_bool(&typed.ty))) {
            self.breach(Rule::BooleanPair, signature, "takes two booleans side by side".into());
        }
    }

    fn breach(&mut self, rule: Rule, signature: &Signature, what: String) {
        let line = signature.ident.span().start().line;
        let says = format!("{} {what}", signature.ident);
        self.breaches.push(Breach { rule, file: self.source.file.clone(), line, says });
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.length(&function.sig, &function.block);
        self.parameters(&function.sig);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        self.parameters(&function.sig);
        if let Some(block) = &function.default {
            self.length(&function.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        for item in &block.items {
            if let syn::ImplItem::Fn(function) = item {
                self.length(&function.sig, &function.block);
                if block.trait_.is_none() {
                    self.parameters(&function.sig);
                }
            }
        }
        syn::visit::visit_item_impl(self, block);
    }
}

fn is_tuple(ty: &Type) -> bool {
    match ty {
        Type::Tuple(tuple) => tuple.elems.len() > 1,
        Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

fn is_bool(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident("bool"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<Rule> {
        let source = Source { file: "a.rs".into(), text: text.into(), syntax: Some(syn::parse_file(text).unwrap()) };
        let mut breaches = Vec::new();
        check(&source, &mut breaches);
        breaches.iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn functions_are_short_and_take_little() {
        assert_eq!(rules(&format!("fn a() {{ {} }}", "\n;".repeat(80))), [Rule::FunctionLength]);
        assert_eq!(rules("fn a(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}"), [Rule::Parameters]);
        assert_eq!(rules("extern \"C\" fn a(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}"), []);
        assert_eq!(rules("impl A { fn a(&self, (a, b): (u8, u8), c: &(u8, u8)) {} }"), [Rule::TupleParameter; 2]);
        assert_eq!(rules("fn a(a: bool, b: bool) {} fn b(a: bool, c: u8, b: bool) {}"), [Rule::BooleanPair]);
        assert_eq!(rules("impl From<(u8, u8)> for A { fn from(a: (u8, u8)) -> A { A } }"), []);
    }
}
