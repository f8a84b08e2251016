//! Builds Python objects from MessagePack.

use std::array;
use std::cell::Cell;

use amberlog_core::codec::Value;
use amberlog_core::codec::msgpack::{Malformed, READ_DEPTH, Reader, Token};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

const SLOTS: usize = 64;
/// A longer key is hardly a name that comes again.
const CACHED_LEN: usize = 32;

/// A body at least this long has texts that come again, like the role of a message.
const REPEATING: usize = 4096;
/// Texts up to this long are made once in such a body.
const SHORT: usize = 9;

thread_local! {
    static KEYS: Cell<Option<Box<Keys>>> = const { Cell::new(None) };
}

/// Returns the objects in `body`, which must be exactly one MessagePack object.
pub(crate) fn decode(py: Python<'_>, body: &[u8]) -> PyResult<Py<PyAny>> {
    // The cache is taken out for the call: making objects can run the collector, and with it code
    // that decodes. That inner call starts with an empty one.
    let mut keys = KEYS.take().unwrap_or_default();
    let decoded = decode_with(py, body, &mut keys);
    KEYS.set(Some(keys));
    decoded.map(Bound::unbind)
}

/// Returns the objects of values of the core.
pub(crate) fn objects<'py>(py: Python<'py>, values: &[Value]) -> PyResult<Bound<'py, PyList>> {
    let mut keys = KEYS.take().unwrap_or_default();
    let made = list_of(py, values, &mut keys);
    KEYS.set(Some(keys));
    made
}

// Recursion: no value that comes here nests deeper than what was read from Python or from a file.
fn object_of<'py>(py: Python<'py>, value: &Value, keys: &mut Keys) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Nil => py.None().into_bound(py),
        Value::Bool(truth) => truth.into_bound_py_any(py)?,
        Value::Int(number) => number.into_bound_py_any(py)?,
        Value::UInt(number) => number.into_bound_py_any(py)?,
        Value::Float(number) => number.into_bound_py_any(py)?,
        Value::Str(text) => PyString::new(py, text).into_any(),
        Value::List(items) => list_of(py, items, keys)?.into_any(),
        Value::Map(entries) => {
            let dict = PyDict::new(py);
            for (key, entry) in entries {
                let entry = object_of(py, entry, keys)?;
                dict.set_item(keys.of(py, 0, key.as_bytes())?, entry)?;
            }
            dict.into_any()
        }
    })
}

fn list_of<'py>(py: Python<'py>, values: &[Value], keys: &mut Keys) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for value in values {
        list.append(object_of(py, value, keys)?)?;
    }
    Ok(list)
}

fn decode_with<'py>(py: Python<'py>, body: &[u8], keys: &mut Keys) -> PyResult<Bound<'py, PyAny>> {
    let mut reader = Reader::new(body);
    let mut texts = (body.len() >= REPEATING).then(Keys::default);
    let mut open: Vec<Frame<'py>> = Vec::new();
    loop {
        let start = reader.position();
        let mut value = match reader.raw_token().map_err(malformed)? {
            Token::Nil => py.None().into_bound(py),
            Token::Bool(truth) => truth.into_bound_py_any(py)?,
            Token::Int(number) => number.into_bound_py_any(py)?,
            Token::UInt(number) => number.into_bound_py_any(py)?,
            Token::Float(number) => number.into_bound_py_any(py)?,
            Token::Str(text) => match &mut texts {
                Some(texts) if text.len() <= SHORT => texts.first(py, start, text)?.into_any(),
                _ => string(py, start, text)?.into_any(),
            },
            Token::List(left @ 1..) => {
                push(&mut open, start, Frame { left, container: Container::List(PyList::empty(py)) })?;
                continue;
            }
            Token::Map(left @ 1..) => {
                let key = keys.next(py, &mut reader)?;
                push(&mut open, start, Frame { left, container: Container::Dict(PyDict::new(py), key) })?;
                continue;
            }
            Token::List(_) => PyList::empty(py).into_any(),
            Token::Map(_) => PyDict::new(py).into_any(),
        };
        // What is complete goes into what it stands in, which may complete that.
        loop {
            let Some(frame) = open.last_mut() else { return finished(&reader, value) };
            frame.put(value)?;
            if frame.left > 0 {
                if let Container::Dict(_, key) = &mut frame.container {
                    *key = keys.next(py, &mut reader)?;
                }
                break;
            }
            let Some(full) = open.pop() else { break };
            value = full.close();
        }
    }
}

fn finished<'py>(reader: &Reader<'_>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match reader.remaining() {
        0 => Ok(value),
        _ => Err(malformed(Malformed { at: reader.position(), what: "bytes behind the object" })),
    }
}

fn push<'py>(open: &mut Vec<Frame<'py>>, at: usize, frame: Frame<'py>) -> PyResult<()> {
    if open.len() >= READ_DEPTH {
        return Err(malformed(Malformed { at, what: "a value that is nested too deep" }));
    }
    open.push(frame);
    Ok(())
}

// Python checks that the bytes are UTF-8.
#[inline]
fn string<'py>(py: Python<'py>, at: usize, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    PyString::from_bytes(py, bytes)
        .map_err(|_| malformed(Malformed { at, what: "a string that is not UTF-8" }))
}

#[cold]
fn malformed(malformed: Malformed) -> PyErr {
    PyValueError::new_err(malformed.to_string())
}

/// An open container that is being filled.
struct Frame<'py> {
    left: usize,
    container: Container<'py>,
}

enum Container<'py> {
    List(Bound<'py, PyList>),
    /// With the key of the value that comes next.
    Dict(Bound<'py, PyDict>, Bound<'py, PyString>),
}

impl<'py> Frame<'py> {
    fn put(&mut self, value: Bound<'py, PyAny>) -> PyResult<()> {
        self.left -= 1;
        match &self.container {
            Container::List(list) => list.append(value),
            Container::Dict(dict, key) => dict.set_item(key, value),
        }
    }

    fn close(self) -> Bound<'py, PyAny> {
        match self.container {
            Container::List(list) => list.into_any(),
            Container::Dict(dict, _) => dict.into_any(),
        }
    }
}

/// The keys seen last, as Python strings that remember their hash. They are not interned: on some
/// versions of Python an interned string is never freed, and keys may be ids without end.
struct Keys {
    slots: [Option<Known>; SLOTS],
}

type Known = (Box<[u8]>, Py<PyString>);

impl Default for Keys {
    fn default() -> Self {
        Self { slots: array::from_fn(|_| None) }
    }
}

impl Keys {
    fn next<'py>(&mut self, py: Python<'py>, reader: &mut Reader<'_>) -> PyResult<Bound<'py, PyString>> {
        let at = reader.position();
        let key = reader.raw_key().map_err(malformed)?;
        self.of(py, at, key)
    }

    fn of<'py>(&mut self, py: Python<'py>, at: usize, key: &[u8]) -> PyResult<Bound<'py, PyString>> {
        let slot = if key.len() <= CACHED_LEN { self.slots.get_mut(slot_of(key)) } else { None };
        match slot {
            Some(Some((name, object))) if **name == *key => Ok(object.bind(py).clone()),
            Some(slot) => {
                let object = string(py, at, key)?;
                *slot = Some((key.into(), object.clone().unbind()));
                Ok(object)
            }
            None => string(py, at, key),
        }
    }

    /// The same, but what came first stays: among names stand ids that do not come again.
    fn first<'py>(&mut self, py: Python<'py>, at: usize, text: &[u8]) -> PyResult<Bound<'py, PyString>> {
        match self.slots.get(slot_of(text)) {
            Some(Some((known, _))) if **known != *text => string(py, at, text),
            _ => self.of(py, at, text),
        }
    }
}

// Length and three bytes tell the names of an event apart well enough.
fn slot_of(key: &[u8]) -> usize {
    let byte = |at: usize| usize::from(key.get(at).copied().unwrap_or_default());
    let last = key.len().saturating_sub(1);
    let mixed = key.len() * 7 + byte(0) * 31 + byte(key.len() / 2) * 13 + byte(last) * 5;
    mixed % SLOTS
}
