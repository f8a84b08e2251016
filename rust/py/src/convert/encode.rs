//! Writes a Python object as MessagePack, or says why and where it cannot be stored.

use amberlog_core::Result;
use amberlog_core::codec::msgpack::{
    MAX_DEPTH, MAX_LEN, put_bool, put_f64, put_i64, put_list_header, put_map_header, put_nil, put_str,
    put_u64,
};
use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::iter::BoundListIterator;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyStringMethods,
};

use super::place::{Refusal, Step};

/// What begins a stored header, and so may not begin bytes that are stored without one.
const HEADER_MAGIC: [u8; 2] = [0x89, 0x4b];

type Outcome<T> = std::result::Result<T, Refusal>;

/// What [`encode_top`] wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Top {
    /// One MessagePack object, to be sealed.
    Object,
    /// The caller's own bytes, to be stored as they are.
    Bytes,
}

/// Appends `object` to `out` as one MessagePack object; appends nothing when it is refused.
pub(crate) fn encode(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let mut open = Vec::new();
    let outcome = put(object, out).and_then(|frame| {
        open.extend(frame);
        put_contents(&mut open, &[], out)
    });
    outcome.map(drop).map_err(|refusal| {
        out.truncate(start);
        refusal.at(steps(&open))
    })
}

/// Appends the pairs of `dict` but those in `skip`, with no header in front, and returns their number;
/// appends nothing when one is refused. A subclass of dict is read as the dict that it is.
pub(crate) fn encode_pairs(dict: &Bound<'_, PyDict>, skip: &[&str], out: &mut Vec<u8>) -> Result<usize> {
    let start = out.len();
    let mut open = vec![Frame::of_dict(dict)];
    put_contents(&mut open, skip, out).map_err(|refusal| {
        out.truncate(start);
        refusal.at(steps(&open))
    })
}

/// Appends a value in top-level position, where bytes are stored as bytes.
pub(crate) fn encode_top(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<Top> {
    let start = out.len();
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        out.extend_from_slice(bytes.as_bytes());
    } else if let Ok(bytes) = object.cast_exact::<PyByteArray>() {
        out.extend_from_slice(&bytes.to_vec());
    } else if let Ok(view) = object.cast_exact::<PyMemoryView>() {
        // The stable ABI of 3.10 has no buffers; the view's own method copies what it shows.
        let refusal = || Refusal::of_value("a memoryview that was released").at(Vec::new());
        let bytes = view.call_method0("tobytes").map_err(|_| refusal())?;
        out.extend_from_slice(bytes.cast::<PyBytes>().map_err(|_| refusal())?.as_bytes());
    } else {
        return encode(object, out).map(|()| Top::Object);
    }
    if out.get(start..).is_some_and(|bytes| bytes.starts_with(&HEADER_MAGIC)) {
        out.truncate(start);
        return Err(Refusal::of_value("bytes that begin with 89 4B would be read as a header").at(Vec::new()));
    }
    Ok(Top::Bytes)
}

/// A container that is being written.
struct Frame<'py> {
    /// How many items its header announces.
    count: usize,
    /// How many of them were taken, and of those how many were left out on request.
    taken: usize,
    skipped: usize,
    items: Items<'py>,
}

enum Items<'py> {
    /// With the key of the pair at hand.
    Dict(Pairs<'py>, Option<Bound<'py, PyString>>),
    List(BoundListIterator<'py>),
}

impl<'py> Frame<'py> {
    fn of_dict(dict: &Bound<'py, PyDict>) -> Self {
        Self { count: dict.len(), taken: 0, skipped: 0, items: Items::Dict(pairs(dict), None) }
    }

    fn of_list(list: &Bound<'py, PyList>) -> Self {
        Self { count: list.len(), taken: 0, skipped: 0, items: Items::List(list.iter()) }
    }

    /// Writes items up to the first that is a container, whose frame it returns, or to the end.
    fn advance(&mut self, skip: &[&str], out: &mut Vec<u8>) -> Outcome<Option<Self>> {
        match &mut self.items {
            Items::Dict(pairs, at) => {
                for (key, item) in pairs {
                    self.taken += 1;
                    let key = key
                        .cast_into_exact::<PyString>()
                        .map_err(|error| foreign_key(&error.into_inner()))?;
                    let name = text_of(&key).map_err(Refusal::by_container)?;
                    if skip.contains(&name) {
                        self.skipped += 1;
                        continue;
                    }
                    put_str(out, name);
                    let container = put(&item, out);
                    *at = Some(key);
                    if let Some(frame) = container? {
                        return Ok(Some(frame));
                    }
                }
            }
            Items::List(items) => {
                for item in items {
                    self.taken += 1;
                    if let Some(frame) = put(&item, out)? {
                        return Ok(Some(frame));
                    }
                }
            }
        }
        if self.taken == self.count { Ok(None) } else { Err(changed()) }
    }

    fn step(&self) -> Step<'_> {
        match &self.items {
            Items::Dict(_, Some(key)) => Step::Key(key.to_str().unwrap_or_default()),
            Items::Dict(_, None) => Step::Key(""),
            Items::List(_) => Step::Index(self.taken.saturating_sub(1)),
        }
    }
}

fn steps<'a>(open: &'a [Frame<'_>]) -> Vec<Step<'a>> {
    open.iter().map(Frame::step).collect()
}

// A list of what is open, not recursion: the caller's value decides how deep it nests, and a thread
// may have a small stack. Returns how many items of the outermost container were written.
fn put_contents(open: &mut Vec<Frame<'_>>, skip: &[&str], out: &mut Vec<u8>) -> Outcome<usize> {
    let mut written = 0;
    loop {
        let depth = open.len();
        let skip = if depth == 1 { skip } else { &[] };
        let Some(frame) = open.last_mut() else { return Ok(written) };
        match frame.advance(skip, out)? {
            Some(_) if depth >= MAX_DEPTH => {
                return Err(Refusal::of_value(format!("nested deeper than {MAX_DEPTH} containers")));
            }
            Some(inner) => open.push(inner),
            None => {
                written = frame.taken - frame.skipped;
                open.pop();
            }
        }
    }
}

// Writes a scalar whole, and of a container the header.
#[inline]
fn put<'py>(object: &Bound<'py, PyAny>, out: &mut Vec<u8>) -> Outcome<Option<Frame<'py>>> {
    if let Some(text) = exact::<PyString>(object) {
        put_str(out, text_of(text)?);
    } else if let Some(number) = exact::<PyInt>(object) {
        put_integer(number, out)?;
    } else if let Some(dict) = exact::<PyDict>(object) {
        let frame = Frame::of_dict(dict);
        put_map_header(out, checked_len(frame.count)?);
        return Ok(Some(frame));
    } else if let Some(list) = exact::<PyList>(object) {
        let frame = Frame::of_list(list);
        put_list_header(out, checked_len(frame.count)?);
        return Ok(Some(frame));
    } else if let Some(number) = exact::<PyFloat>(object) {
        put_float(number.value(), out)?;
    } else if object.is_none() {
        put_nil(out);
    } else if let Some(truth) = exact::<PyBool>(object) {
        put_bool(out, truth.is_true());
    } else {
        return Err(foreign(object));
    }
    Ok(None)
}

// A cast that fails builds its error, with a reference to the type; most values meet several types
// before their own.
#[inline]
pub(super) fn exact<'a, 'py, T: PyTypeInfo>(object: &'a Bound<'py, PyAny>) -> Option<&'a Bound<'py, T>> {
    if object.is_exact_instance_of::<T>() { object.cast_exact().ok() } else { None }
}

fn put_integer(number: &Bound<'_, PyInt>, out: &mut Vec<u8>) -> Outcome<()> {
    if let Ok(signed) = number.extract::<i64>() {
        put_i64(out, signed);
    } else if let Ok(large) = number.extract::<u64>() {
        put_u64(out, large);
    } else {
        return Err(Refusal::of_value("an integer beyond 64 bits"));
    }
    Ok(())
}

fn put_float(number: f64, out: &mut Vec<u8>) -> Outcome<()> {
    if number.is_finite() {
        put_f64(out, number);
        Ok(())
    } else {
        Err(Refusal::of_value(format!("the float {number}, which the peer and JSON cannot hold")))
    }
}

// Only exact types are converted, so no code of the caller runs in between: while one thread at a time
// holds the interpreter the dict stands still.
#[cfg(not(Py_GIL_DISABLED))]
pub(super) type Pairs<'py> = pyo3::types::iter::BoundDictIterator<'py>;

#[cfg(not(Py_GIL_DISABLED))]
pub(super) fn pairs<'py>(dict: &Bound<'py, PyDict>) -> Pairs<'py> {
    dict.iter()
}

// Without the GIL another thread may change the dict at any step, at which its iterator panics; so its
// items are taken at once, under its lock.
#[cfg(Py_GIL_DISABLED)]
pub(super) type Pairs<'py> = std::vec::IntoIter<(Bound<'py, PyAny>, Bound<'py, PyAny>)>;

#[cfg(Py_GIL_DISABLED)]
pub(super) fn pairs<'py>(dict: &Bound<'py, PyDict>) -> Pairs<'py> {
    let pairs: Vec<_> = dict.items().into_iter().flat_map(|pair| pair.extract()).collect();
    pairs.into_iter()
}

fn text_of<'a>(text: &'a Bound<'_, PyString>) -> Outcome<&'a str> {
    let text =
        text.to_str().map_err(|_| Refusal::of_value("text with a lone surrogate, which is no Unicode"))?;
    checked_len(text.len())?;
    Ok(text)
}

#[inline]
fn checked_len(count: usize) -> Outcome<usize> {
    if count <= MAX_LEN { Ok(count) } else { Err(Refusal::of_value(format!("longer than {MAX_LEN}"))) }
}

#[cold]
fn changed() -> Refusal {
    Refusal::of_value("changed by another thread while it was read").by_container()
}

#[cold]
fn foreign(object: &Bound<'_, PyAny>) -> Refusal {
    Refusal::of_type(format!(
        "a {} would not come back equal; only dict, list, str, int, float, bool and None do",
        type_name(object)
    ))
}

#[cold]
fn foreign_key(key: &Bound<'_, PyAny>) -> Refusal {
    Refusal::of_type(format!("a key is a {}, and only str keys come back equal", type_name(key)))
        .by_container()
}

// A class may have a name that is no text; what kind of thing it is is all that is lost.
pub(super) fn type_name(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string_lossy().into_owned())
}
