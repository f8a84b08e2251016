//! What a damaged file is called when it is put out of the way.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Returns a name beside a damaged file that nothing has yet: the file's own, `.corrupt-` and the
/// milliseconds of `now`, which is in seconds since 1970.
pub fn free_name(path: &Path, now: f64) -> io::Result<PathBuf> {
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
    let millis = (now * 1e3) as i64;
    let mut name = OsString::from(path);
    name.push(format!(".corrupt-{millis}"));
    let mut aside = PathBuf::from(&name);
    let mut attempt = 0;
    while is_taken(&aside)? {
        attempt += 1;
        let mut next = name.clone();
        next.push(format!("-{attempt}"));
        aside = next.into();
    }
    Ok(aside)
}

/// A link that leads nowhere is something too.
fn is_taken(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_is_not_given_again() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("s.json");

        let first = free_name(&file, 1.25).unwrap();
        std::os::unix::fs::symlink("nowhere", &first).unwrap();
        let second = free_name(&file, 1.25).unwrap();
        std::fs::write(&second, "x").unwrap();
        let third = free_name(&file, 1.25).unwrap();

        let names = [first, second, third].map(|path| path.file_name().unwrap().to_owned());
        assert_eq!(names, ["s.json.corrupt-1250", "s.json.corrupt-1250-1", "s.json.corrupt-1250-2"]);
    }
}
