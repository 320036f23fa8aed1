//! YAML and JSON as a tree that knows where everything stands.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use super::Fault;

/// How deep a file may be nested, and how much it may hold with its aliases written out.
const DEPTH_MAX: usize = 64;
const ITEMS_MAX: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Yaml,
    Json,
}

/// From 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Clone, Debug)]
pub struct Tree {
    pub place: Place,
    pub content: Content,
}

#[derive(Clone, Debug)]
pub enum Content {
    /// A word that is not in quotes, or a text that is.
    Scalar {
        text: String,
        quoted: bool,
    },
    List(Vec<Tree>),
    Object(Vec<(Key, Tree)>),
}

#[derive(Clone, Debug)]
pub struct Key {
    pub place: Place,
    pub name: String,
}

impl Tree {
    /// What an object holds under a name.
    pub fn entry(&self, name: &str) -> Option<&Tree> {
        let Content::Object(entries) = &self.content else { return None };
        entries.iter().find(|(key, _)| key.name == name).map(|(_, value)| value)
    }

    /// The names of an object's entries, as they stand.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let entries: &[(Key, Tree)] =
            if let Content::Object(entries) = &self.content { entries } else { &[] };
        entries.iter().map(|(key, _)| key.name.as_str())
    }

    /// Where the name of an entry stands.
    pub fn key_place(&self, name: &str) -> Option<Place> {
        let Content::Object(entries) = &self.content else { return None };
        entries.iter().find(|(key, _)| key.name == name).map(|(key, _)| key.place)
    }

    /// As JSON. Words without quotes are null, true, false, numbers as JSON writes them, or text.
    pub fn value(&self) -> Value {
        match &self.content {
            Content::Scalar { text, quoted: true } => Value::String(text.clone()),
            Content::Scalar { text, quoted: false } => match text.as_str() {
                "" | "~" | "null" => Value::Null,
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                text => match serde_json::from_str::<Number>(text) {
                    Ok(number) => Value::Number(number),
                    Err(_) => Value::String(text.to_owned()),
                },
            },
            Content::List(items) => items.iter().map(Tree::value).collect(),
            Content::Object(entries) => entries
                .iter()
                .map(|(key, value)| (key.name.clone(), value.value()))
                .collect::<Map<_, _>>()
                .into(),
        }
    }

    fn size(&self) -> usize {
        1 + match &self.content {
            Content::Scalar { .. } => 0,
            Content::List(items) => items.iter().map(Tree::size).sum(),
            Content::Object(entries) => entries.iter().map(|(_, value)| 1 + value.size()).sum(),
        }
    }
}

pub fn parse(text: &str, format: Format) -> Result<Tree, Fault> {
    let (text, shortened) = match format {
        Format::Yaml => (text.to_owned(), Vec::new()),
        Format::Json => {
            // What is wrong with JSON is told by those who know it best.
            if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
                let place = Place { line: error.line().max(1), column: error.column().max(1) };
                let problem = error.to_string();
                let problem = problem.split(" at line ").next().unwrap_or_default();
                return Err(Fault::new(place, "", problem));
            }
            without_surrogates(text)
        }
    };
    let parser = Parser::new_from_str(&text);
    let mut reader = Reader { parser, shortened, anchors: HashMap::new(), items: 0 };
    reader.document()
}

/// How many letters two escapes are longer than the character they stand for.
const SHORTER: usize = 11;

/// YAML takes all of JSON but characters that are written as two escapes; those are put in as they are. Comes with
/// the places at which the text became shorter by that.
fn without_surrogates(json: &str) -> (String, Vec<Place>) {
    let mut text = String::with_capacity(json.len());
    let mut shortened = Vec::new();
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        text.push_str(before);
        let pair = escape.get(..12).filter(|it| it.starts_with("\\u") && it[6..].starts_with("\\u"));
        let whole = pair.and_then(|it| serde_json::from_str::<String>(&format!("\"{it}\"")).ok());
        // Two escapes that are two characters stay as they are.
        let whole = whole.filter(|it| it.chars().count() == 1);
        let taken = match &whole {
            Some(character) => {
                text.push_str(character);
                let line = text.rsplit('\n').next().unwrap_or_default();
                shortened.push(Place { line: text.matches('\n').count() + 1, column: line.chars().count() });
                SHORTER + 1
            }
            None => {
                let taken = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
                text.push_str(&escape[..taken]);
                taken
            }
        };
        rest = &escape[taken..];
    }
    (text + rest, shortened)
}

struct Reader<'t> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    shortened: Vec<Place>,
    /// What names stand for; nothing while it is being read.
    anchors: HashMap<usize, Tree>,
    items: usize,
}

impl<'t> Reader<'t> {
    /// Where it stands in the file.
    fn place(&self, marker: Marker) -> Place {
        let (line, column) = (marker.line(), marker.col() + 1);
        let before = self.shortened.iter().filter(|it| it.line == line && it.column < column).count();
        Place { line, column: column + SHORTER * before }
    }

    fn next(&mut self) -> Result<(Event<'t>, Place), Fault> {
        match self.parser.next() {
            Some(Ok((event, span))) => Ok((event, self.place(span.start))),
            Some(Err(error)) => Err(Fault::new(self.place(*error.marker()), "", error.info())),
            None => Ok((Event::StreamEnd, Place { line: 1, column: 1 })),
        }
    }

    fn document(&mut self) -> Result<Tree, Fault> {
        let nothing = "holds nothing; a flow has a kind and nodes";
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => {
                    return Err(Fault::new(Place { line: 1, column: 1 }, "", nothing));
                }
                (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
                (event, place) => {
                    let tree = self.tree(event, place, 0)?;
                    self.check_end()?;
                    return Ok(tree);
                }
            }
        }
    }

    /// A file holds one document.
    fn check_end(&mut self) -> Result<(), Fault> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentStart(_), place) => {
                    return Err(Fault::new(place, "", "begins a second document; a file holds one flow"));
                }
                _ => {}
            }
        }
    }

    fn tree(&mut self, event: Event<'t>, place: Place, depth: usize) -> Result<Tree, Fault> {
        self.items += 1;
        if depth > DEPTH_MAX || self.items > ITEMS_MAX {
            let problem = format!("is too large: at most {DEPTH_MAX} levels and {ITEMS_MAX} items");
            return Err(Fault::new(place, "", problem));
        }
        let (anchor, content) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let quoted = style != ScalarStyle::Plain;
                (anchor, Content::Scalar { text: text.into_owned(), quoted })
            }
            Event::SequenceStart(anchor, _) => (anchor, self.list(depth)?),
            Event::MappingStart(anchor, _) => (anchor, self.object(depth)?),
            Event::Alias(anchor) => {
                let problem = "an alias stands inside of what it names, or names nothing";
                let known = self.anchors.get(&anchor).ok_or_else(|| Fault::new(place, "", problem))?;
                let known = known.clone();
                self.items += known.size();
                return Ok(Tree { place, ..known });
            }
            _ => return Err(Fault::new(place, "", "ends too early")),
        };
        let tree = Tree { place, content };
        if anchor > 0 {
            self.anchors.insert(anchor, tree.clone());
        }
        Ok(tree)
    }

    fn list(&mut self, depth: usize) -> Result<Content, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Content::List(items)),
                (event, place) => items.push(self.tree(event, place, depth + 1)?),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Content, Fault> {
        let mut entries = Vec::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Content::Object(entries)),
                (Event::Scalar(name, ..), place) => Key { place, name: name.into_owned() },
                (_, place) => return Err(Fault::new(place, "", "is a name that is not a text")),
            };
            let (event, place) = self.next()?;
            entries.push((key, self.tree(event, place, depth + 1)?));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_what_json_takes_them_for_and_text_otherwise() {
        let text =
            "{a: 1, b: -2.5e3, c: true, d: no, e: ~, f: '1', g: 0x10, h: 2024-01-01, i: , j: |-\n  x\n}";
        let block = "a: 1\nb: |\n  two\n  lines\nc: &list [x, y]\nd: *list\n";
        let value = |text: &str| parse(text, Format::Yaml).map(|it| it.value());
        assert_eq!(
            value(block),
            Ok(json!({ "a": 1, "b": "two\nlines\n", "c": ["x", "y"], "d": ["x", "y"] }))
        );
        let flow = text.replace(", j: |-\n  x\n", "");
        assert_eq!(
            value(&flow),
            Ok(json!({
                "a": 1, "b": -2500.0, "c": true, "d": "no", "e": null, "f": "1", "g": "0x10", "h": "2024-01-01",
                "i": null
            }))
        );
    }

    #[test]
    fn json_reads_as_json_does() {
        for text in [
            r#"{"a":"\ud83d\ude00 \u00e9 \\ud83d \/ \" \n","b":[1.5e-7,null,{}],"c":"","d":"\u0041\u0042"}"#,
            "{\n\t\"a\":\t[\n\t\t1,\n\t\t2\n\t]\n}",
            r#"{"a: b":"c # d","- e":"f: [g]"}"#,
        ] {
            let want: Value = serde_json::from_str(text).expect("it is JSON");
            assert_eq!(parse(text, Format::Json).map(|it| it.value()), Ok(want), "{text}");
        }
    }

    #[test]
    fn a_file_that_grows_by_its_aliases_is_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..8 {
            let last = format!("*a{}, ", n - 1).repeat(10);
            text.push_str(&format!("a{n}: &a{n} [{last}]\n"));
        }
        let fault = parse(&text, Format::Yaml).expect_err("it holds a hundred million words");
        assert!(fault.problem.contains("too large"), "{fault}");
    }
}
