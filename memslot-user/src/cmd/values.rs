//! Values of options that clap does not know by itself: their names, so that it can list them, complete them and
//! suggest the one that was meant.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use memslot::engine::EngineId;

/// The engines.
pub(crate) fn engine() -> impl TypedValueParser<Value = EngineId> {
    let names = EngineId::ALL.map(|id| PossibleValue::new(id.name()).help(id.what()));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<EngineId>())
}
