//! The limits on what may be sent: those of the rules, and those of the server in front of them.

use ff_core::limits::Limits;
use serde::{Deserialize, Serialize};

/// All limits, side by side. A field that is not known is passed over: a newer server may have more of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsDoc {
    #[serde(flatten)]
    pub rules: Limits,
    #[serde(flatten)]
    pub edge: EdgeLimits,
}

/// What a server lets in at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeLimits {
    /// The largest body of a request.
    pub body_bytes_max: usize,
    /// The largest body of a signal, and of the form on which a person decides.
    pub signal_body_bytes_max: usize,
    /// How deep JSON may be nested.
    pub depth_max: usize,
    /// The longest that one request may wait; who asks for longer is answered then.
    pub wait_ms_max: u64,
    /// The most items of one page.
    pub page_items_max: u32,
}

#[cfg(feature = "openapi")]
mod schema {
    use serde_json::Value;
    use utoipa::openapi::schema::{ObjectBuilder, Type};
    use utoipa::openapi::{RefOr, Schema};

    use super::{EdgeLimits, LimitsDoc};

    impl utoipa::PartialSchema for LimitsDoc {
        /// Made of the limits themselves, so that none is missing: each is a number and always there.
        fn schema() -> RefOr<Schema> {
            let edge = EdgeLimits {
                body_bytes_max: 0,
                signal_body_bytes_max: 0,
                depth_max: 0,
                wait_ms_max: 0,
                page_items_max: 0,
            };
            let all = LimitsDoc { rules: Default::default(), edge };
            let Ok(Value::Object(fields)) = serde_json::to_value(all) else {
                return Schema::default().into();
            };
            let number = || ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).build();
            let mut object = ObjectBuilder::new().description(Some(
                "Limits on what may be sent. Each name says what is counted, or in which unit.",
            ));
            for (name, _) in fields {
                object = object.property(&name, number()).required(name);
            }
            object.build().into()
        }
    }

    impl utoipa::ToSchema for LimitsDoc {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_rules_are_read_beside_those_of_the_server_and_unknown_ones_passed_over() {
        let rules = Limits { tags_max: 7, ..Limits::default() };
        let edge = EdgeLimits {
            body_bytes_max: 1,
            signal_body_bytes_max: 2,
            depth_max: 3,
            wait_ms_max: 4,
            page_items_max: 5,
        };
        let doc = LimitsDoc { rules, edge };
        let mut json = serde_json::to_value(&doc).unwrap();
        assert_eq!((&json["tags_max"], &json["wait_ms_max"]), (&7.into(), &4.into()));
        json["of_tomorrow_max"] = 1.into();
        assert_eq!(serde_json::from_value::<LimitsDoc>(json).unwrap(), doc);
    }
}
