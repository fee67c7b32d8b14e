//! Rows of named numbers from CSV or JSON, each with its line.

use super::Error;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A row: its line, and its fields by name.
pub(super) struct Row {
    pub(super) line: usize,
    fields: BTreeMap<String, Number>,
}

/// A number as it was written.
type Number = String;

impl Row {
    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    /// The number of a field; `None` if there is none.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Error> {
        let Some(text) = self.fields.get(name) else { return Ok(None) };
        match number(text) {
            Some(number) => Ok(Some(number)),
            None => Err(Error::new(
                self.line,
                format!("{name} is \"{text}\", which is no whole number below 2^64; write 4096 or 0x1000"),
            )),
        }
    }

    /// The text of a field.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// A whole number, decimal or with 0x.
pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // `from_str_radix` takes a sign.
        Some(digits) if digits.starts_with(['+', '-']) => None,
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

/// Reads rows of `columns`: JSON if the text begins with a bracket or brace, else CSV with a line of
/// names first. In JSON the rows stand in an array, or in the array `under` of an object; a bare value
/// is one of the first column.
pub(super) fn rows(text: &str, under: &str, columns: &[&str]) -> Result<Vec<Row>, Error> {
    if text.trim_start().starts_with(['[', '{']) { json(text, under, columns) } else { csv(text, columns) }
}

fn csv(text: &str, columns: &[&str]) -> Result<Vec<Row>, Error> {
    let mut lines = text
        .lines()
        .zip(1..)
        .map(|(line, number)| (line.split('#').next().unwrap_or_default().trim(), number))
        .filter(|(line, _)| !line.is_empty());
    let known = || columns.join(", ");
    let Some((header, line)) = lines.next() else {
        return Err(Error::new(
            1,
            format!("there is nothing; the first line names the columns: {}", known()),
        ));
    };
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    if let Some(name) = names.iter().find(|name| !columns.contains(*name)) {
        return Err(Error::new(line, format!("there is no column \"{name}\"; the columns are {}", known())));
    }
    lines
        .map(|(text, line)| {
            let cells: Vec<&str> = text.split(',').map(str::trim).collect();
            if cells.len() != names.len() {
                let reason = format!("{} values for {} columns", cells.len(), names.len());
                return Err(Error::new(line, reason));
            }
            let filled = names.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
            let fields = filled.map(|(name, cell)| ((*name).to_owned(), cell.to_owned())).collect();
            Ok(Row { line, fields })
        })
        .collect()
}

fn json(text: &str, under: &str, columns: &[&str]) -> Result<Vec<Row>, Error> {
    let bad =
        |error: serde_json::Error| Error::new(error.line(), format!("this is no JSON as expected: {error}"));
    let items: Vec<&RawValue> = if text.trim_start().starts_with('{') {
        let mut object: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(bad)?;
        let Some(array) = object.remove(under) else {
            return Err(Error::new(1, format!("the object has no \"{under}\", which holds the rows")));
        };
        let line = line_of(text, array.get());
        serde_json::from_str(array.get())
            .map_err(|error| Error::new(line, format!("\"{under}\" is no array: {error}")))?
    } else {
        serde_json::from_str(text).map_err(bad)?
    };
    items.into_iter().map(|item| row(line_of(text, item.get()), item.get(), columns)).collect()
}

fn row(line: usize, item: &str, columns: &[&str]) -> Result<Row, Error> {
    let value: Value = serde_json::from_str(item).map_err(|error| Error::new(line, error.to_string()))?;
    let object = match value {
        Value::Object(object) => object,
        bare => [(columns.first().copied().unwrap_or_default().to_owned(), bare)].into_iter().collect(),
    };
    let mut fields = BTreeMap::new();
    for (name, value) in object {
        if !columns.contains(&name.as_str()) {
            let reason = format!("there is no field \"{name}\"; the fields are {}", columns.join(", "));
            return Err(Error::new(line, reason));
        }
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text,
            other => other.to_string(),
        };
        fields.insert(name, text);
    }
    Ok(Row { line, fields })
}

/// The line on which a part of a text begins.
fn line_of(text: &str, part: &str) -> usize {
    let offset = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    1 + text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count()
}
