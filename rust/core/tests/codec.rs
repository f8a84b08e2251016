//! The codec against any input: what was sealed comes back, and no byte of it changes unnoticed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::borrow::Cow;
use std::fmt::Write as _;

use amberlog_core::codec::{Stored, Value, msgpack, open, seal};
use proptest::prelude::*;

fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-200_i64..70_000).prop_map(Value::Int),
        (1_u64 << 63..).prop_map(Value::UInt),
        prop::num::f64::ANY.prop_filter("NaN is not equal to itself", |x| !x.is_nan()).prop_map(Value::Float),
        ".{0,40}".prop_map(Value::Str),
    ];
    scalar.prop_recursive(5, 60, 20, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::List),
            prop::collection::hash_map(".{0,12}", inner, 0..20).prop_map(|entries| {
                Value::Map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
            }),
        ]
    })
}

fn packed(value: &Value) -> Vec<u8> {
    let mut body = Vec::new();
    msgpack::put_value(&mut body, value);
    body
}

fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn read(hex: &str) -> Value {
    match open("meta", b"x", &from_hex(hex)).unwrap() {
        Stored::Object(body) => msgpack::decode(&body).unwrap(),
        Stored::Bytes(bytes) => panic!("{} bytes", bytes.len()),
    }
}

proptest! {
    #[test]
    fn any_value_comes_back_equal(value in any_value(), key in prop::collection::vec(any::<u8>(), 0..40)) {
        let stored = seal("events", &key, &packed(&value));

        let opened = open("events", &key, &stored);

        let Ok(Stored::Object(body)) = opened else { panic!("{opened:?}") };
        prop_assert_eq!(msgpack::decode(&body), Ok(value));
    }

    #[test]
    fn a_field_is_what_the_whole_value_has(value in any_value(), name in ".{0,12}") {
        let body = packed(&value);

        let names = value.as_map().unwrap_or_default().iter().map(|(key, _)| key.to_string()).chain([name]);

        for name in names {
            let field = msgpack::field(&body, &name).map(|raw| msgpack::decode(raw).unwrap());
            prop_assert_eq!(field.as_ref(), value.get(&name));
        }
    }

    #[test]
    fn any_changed_byte_is_noticed(value in any_value(), at in any::<prop::sample::Index>(), by in 1_u8..) {
        let mut stored = seal("state", b"agent:slot", &packed(&value));
        let at = at.index(stored.len());
        stored[at] ^= by;

        let opened = open("state", b"agent:slot", &stored);

        prop_assert!(opened.is_err(), "byte {at}: {opened:?}");
    }

    #[test]
    fn what_is_cut_off_is_noticed(value in any_value(), at in any::<prop::sample::Index>()) {
        let body = packed(&value);
        let stored = seal("state", b"agent:slot", &body);
        let left = &stored[..at.index(stored.len())];

        let opened = open("state", b"agent:slot", left);

        // Cut before the second byte nothing is left to tell by; cut right behind the object it is
        // whole, and equal.
        match opened {
            Err(_) => {}
            Ok(Stored::Bytes(bytes)) => prop_assert!(bytes.len() < 2),
            Ok(Stored::Object(whole)) => prop_assert_eq!(whole.as_ref(), body.as_slice()),
        }
    }

    #[test]
    fn any_bytes_are_opened_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let opened = open("meta", b"k", &bytes);

        if let Ok(Stored::Object(body)) = opened {
            prop_assert_eq!(msgpack::object_len(&body), Ok(body.len()));
        }
    }

    #[test]
    fn any_payload_of_any_encoding_is_opened_or_refused(
        encoding in 0_u8..8,
        payload in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let stored = [&[0x89, 0x4b, 1, encoding, 0, 0, 0, 0, 0x56, 0x4b], payload.as_slice()].concat();

        let opened = open("meta", b"k", &stored);

        if let Ok(Stored::Object(body)) = opened {
            prop_assert!(msgpack::decode(&body).is_ok());
        }
    }
}

#[test]
fn the_worked_examples_of_the_peer_read_as_they_say() {
    let header = |encoding: u8| format!("894b01{encoding:02x}00000000564b");
    let entries = Value::Map(vec![
        ("a".into(), Value::Int(1)),
        ("b".into(), Value::Float(2.5)),
        ("c".into(), Value::Nil),
        ("f".into(), Value::Int(1 << 40)),
        ("g".into(), Value::Int(-1)),
        ("h".into(), Value::from("日本")),
    ]);
    let message = Value::Map(vec![("content".into(), "hi".into()), ("role".into(), "user".into())]);
    let examples = [
        (0x06, "736964", Value::from("sid")),
        (0x06, "", Value::from("")),
        (0x02, "0200000000000000", Value::Int(2)),
        (0x02, "0100000000000000", Value::Int(1)),
        (0x02, "000000000000f83f", Value::Float(1.5)),
        (0x04, "91a5616c696365", Value::List(vec!["alice".into()])),
        (0x04, "80", Value::Map(Vec::new())),
        (0x01, "80044e2e", Value::Nil),
        (0x04, "86a16101a162cb4004000000000000a163c0a166cf0000010000000000a167ffa168a6e697a5e69cac", entries),
        (0x04, "9182a7636f6e74656e74a26869a4726f6c65a475736572", Value::List(vec![message])),
    ];

    for (encoding, payload, value) in examples {
        assert_eq!(read(&(header(encoding) + payload)), value, "{payload}");
    }
}

#[test]
fn the_peers_not_a_number_is_read_as_it_stands() {
    let value = read("894b010400000000564bcb7ff8000000000000");

    assert!(value.as_f64().unwrap().is_nan());
}

#[test]
fn a_sealed_object_is_borrowed_from_the_row() {
    let body = packed(&Value::from("x".repeat(300)));
    let stored = seal("channels", b"room:m000001", &body);

    let opened = open("channels", b"room:m000001", &stored);

    assert!(matches!(opened, Ok(Stored::Object(Cow::Borrowed(object))) if object == body));
}

#[test]
fn a_hostile_map_of_many_equal_keys_is_read_in_linear_time() {
    let mut body = Vec::new();
    let mut key = String::new();
    msgpack::put_map_header(&mut body, 200_001);
    for number in 0..200_001 {
        key.clear();
        write!(key, "{}", number % 200_000).unwrap();
        msgpack::put_str(&mut body, &key);
        msgpack::put_i64(&mut body, number);
    }

    let value = msgpack::decode(&body).unwrap();

    assert_eq!(value.as_map().map(<[_]>::len), Some(200_000));
    assert_eq!(value.get("0"), Some(&Value::Int(200_000)));
}
